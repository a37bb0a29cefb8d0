// SPDX-License-Identifier: MIT
#include "pass.hpp"

#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "../two_floats.hpp"
#include "source.hpp"
#include "tables.hpp"

namespace dlprim::fft_detail {

namespace {

// As kernels have it, with as many dimensions as there are.
struct Lines {
  std::uint64_t count;
  std::int64_t in_stride, out_stride;
  std::uint64_t in_step, out_step, inputs, outputs;
  TwoFloats scale;
  std::array<LineDim, max_line_dims> dim;

  explicit Lines(const Pass& pass)
      : count(pass.count()), in_stride(pass.in_stride), out_stride(pass.out_stride), in_step(pass.in_step),
        out_step(pass.out_step), inputs(pass.inputs), outputs(pass.outputs), scale(pass.scale), dim(pass.dim) {
    if (pass.dims == 0) dim[0] = {};
  }
  std::span<const std::byte> bytes(int dims) const {
    return std::as_bytes(std::span(this, 1)).first(offsetof(Lines, dim) + std::size_t(dims) * sizeof(LineDim));
  }
};

std::int64_t distance(const LineDim& dim, const Pass& pass, bool in) {
  return std::abs(in ? dim.in + std::int64_t(dim.in_first) * pass.in_stride
                     : dim.out + std::int64_t(dim.out_first) * pass.out_stride);
}

// Whether elements of a line are as near to each other as neighbouring lines are.
bool along(const Pass& pass, bool in) {
  const std::int64_t own = in ? std::abs(pass.in_stride) * std::int64_t(pass.in_step)
                              : std::abs(pass.out_stride) * std::int64_t(pass.out_step);
  for (int d = 0; d < pass.dims; d++)
    if (const std::int64_t other = distance(pass.dim[std::size_t(d)], pass, in); other && other < own) return false;
  return true;
}

// Whether a kernel can have its work-items along lines at the end where these are dense, and across them at the other: an
// exchange moves the numbers. CPUs make vectors of neighbouring lines.
bool can_mix(const Device& device, const Pass& pass) {
  return along(pass, true) != along(pass, false) && !pass.untangles() && !pass.chirp_both &&
         (!device.info().cpu || settings.gpu_forms);
}

bool is_part(const Pass& pass) {
  return pass.in_step != 1 || pass.out_step != 1 || pass.twists ||
         std::any_of(pass.dim.begin(), pass.dim.begin() + pass.dims,
                     [](const LineDim& dim) { return dim.in_first || dim.out_first || dim.twist; });
}

bool is_wide(const Pass& pass) {
  const std::int64_t reach = 2 * std::int64_t(std::max({pass.inputs, pass.outputs, std::uint64_t(pass.length)}));
  std::int64_t in = reach * std::abs(pass.in_stride), out = reach * std::abs(pass.out_stride);
  for (int d = 0; d < pass.dims; d++) {
    const LineDim& dim = pass.dim[std::size_t(d)];
    in += (dim.size - 1) * std::abs(dim.in), out += (dim.size - 1) * std::abs(dim.out);
  }
  return std::max({in, out, std::int64_t(pass.count()) + 256}) > settings.index_limit;
}

// Whether pairs of real numbers lie like complex ones.
bool pairs_are_complex(const Pass& pass) {
  const bool in = pass.load == Load::pairs, out = pass.store == Store::pairs;
  if (in == out) return false;
  bool even = (in ? pass.in_stride : pass.out_stride) == 1 && (in ? pass.x : pass.y).offset % pass.bytes() == 0;
  for (int d = 0; d < pass.dims; d++)
    even = even && (in ? pass.dim[std::size_t(d)].in : pass.dim[std::size_t(d)].out) % 2 == 0;
  return even;
}

}  // namespace

std::uint64_t Pass::count() const {
  std::uint64_t product = 1;
  for (int d = 0; d < dims; d++) product *= std::uint64_t(dim[std::size_t(d)].size);
  return product;
}

void arrange(Pass& pass) {
  auto begin = pass.dim.begin();
  pass.dims = int(std::remove_if(begin, begin + pass.dims, [](const LineDim& dim) { return dim.size == 1; }) - begin);
  const bool in = !along(pass, true);
  std::stable_sort(begin, begin + pass.dims,
                   [&](const LineDim& a, const LineDim& b) { return distance(a, pass, in) < distance(b, pass, in); });
  int kept = 0;
  for (int d = 0; d < pass.dims; d++) {
    const LineDim& next = pass.dim[std::size_t(d)];
    if (kept > 0) {
      LineDim& last = pass.dim[std::size_t(kept - 1)];
      auto follows = [&](auto a, auto b) { return std::int64_t(a) == std::int64_t(b) * last.size; };
      if (follows(next.in, last.in) && follows(next.out, last.out) && follows(next.in_first, last.in_first) &&
          follows(next.out_first, last.out_first) && follows(next.twist, last.twist)) {
        last.size *= next.size;
        continue;
      }
    }
    pass.dim[std::size_t(kept++)] = next;
  }
  pass.dims = kept;
}

std::optional<PassShape> shape_of(const Device& device, const Pass& pass) {
  const bool in = along(pass, true), out = along(pass, false), columns = !(in && out);
  const bool mixed = can_mix(device, pass);
  return pass_shape(
      device, pass.length,
      {pass.doubles, columns, pass.untangles() || (columns && (in || out) && !mixed), mixed, pass.chirps()});
}

void run(Queue& queue, const Pass& pass, const PassShape& shape) {
  Device& device = queue.device();
  const bool in = along(pass, true), out = along(pass, false), alone = device.info().cpu && shape.lanes == 1;
  const bool few = shape.lanes < 16 && shape.stages > 0 && !alone;
  PassKey key;
  key.length = shape.length, key.lanes = shape.lanes, key.lines = shape.lines, key.split = shape.split;
  key.columns = !(in && out);
  if (shape.stages > 1 && can_mix(device, pass)) key.mixed = in ? 1 : 2;
  else key.staged_in = in && (key.columns || few), key.staged_out = out && (key.columns || few);
  key.dims = std::uint8_t(std::max(pass.dims, 1)), key.load = std::uint8_t(pass.load);
  key.store = std::uint8_t(pass.store), key.swap_in = pass.swap_in, key.swap_out = pass.swap_out;
  key.chirp_in = pass.chirp_in, key.chirp_out = pass.chirp_out, key.chirp_both = pass.chirp_both;
  key.spectrum_in = pass.spectrum_in, key.twist = pass.twists != 0, key.part = is_part(pass);
  key.unit_in = pass.in_stride == 1, key.unit_out = pass.out_stride == 1;
  key.in_place = pass.x.memory == pass.y.memory && pass.x.offset == pass.y.offset;
  key.limited = pass.outputs < std::uint64_t(pass.length) * pass.out_step;
  key.unit_pairs = pairs_are_complex(pass), key.wide = is_wide(pass), key.doubles = pass.doubles;
  const bool turned = pass.untangles() || pass.load == Load::tangled;
  const bool chirped = pass.chirp_in || pass.chirp_out || pass.chirp_both;
  Table root, turn, twist, chirps, spectrum;
  if (shape.stages > 1) root = stage_roots(device, shape, pass.doubles);
  if (turned)
    turn = turns(device, 2 * pass.inputs, pass.doubles), key.turn_bits = std::uint8_t(turn_bits(2 * pass.inputs));
  if (pass.twists)
    twist = turns(device, pass.twists, pass.doubles), key.twist_bits = std::uint8_t(turn_bits(pass.twists));
  if (chirped) chirps = chirp(device, pass.inputs, pass.doubles);
  if (pass.chirp_both || pass.spectrum_in) spectrum = chirp_spectrum(device, pass.inputs, pass.padded, pass.doubles);
  auto data = [&](const Table& table) { return table ? table->data() : pass.y; };
  const Lines lines(pass);
  const std::size_t group = std::size_t(shape.lanes) * shape.lines;
  const std::size_t groups = (lines.count + shape.lines - 1) / shape.lines;
  launch(queue, pass_kernel(device, key, shape), NDRange(groups * group, group),
         Traffic{2 * lines.count * pass.length * pass.bytes()}, lines.bytes(key.dims), pass.y, pass.x, data(root),
         data(turn), data(twist), data(chirps), data(spectrum));
}

void run_untangle(Queue& queue, const Pass& pass) {
  Device& device = queue.device();
  UntangleKey key;
  key.dims = std::uint8_t(std::max(pass.dims, 1)), key.doubles = pass.doubles, key.wide = is_wide(pass);
  key.store = std::uint8_t(pass.store), key.turn_bits = std::uint8_t(turn_bits(2 * pass.inputs));
  const Table turn = turns(device, 2 * pass.inputs, pass.doubles);
  const Lines lines(pass);
  const std::size_t group = fitting_group(device.info(), 256), rows = std::min<std::uint64_t>(lines.count, 32768);
  launch(queue, untangle_kernel(device, key), NDRange(pass.inputs / 2 + 1, rows, group, 1),
         Traffic{2 * lines.count * pass.inputs * pass.bytes()}, lines.bytes(key.dims), pass.y, pass.x, turn->data());
}

}  // namespace dlprim::fft_detail
