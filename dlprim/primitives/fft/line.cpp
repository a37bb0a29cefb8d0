// SPDX-License-Identifier: MIT
// Lines longer than a work-group holds, and lengths with great prime factors.
#include "line.hpp"

#include <dlprim/runtime/memory.hpp>

namespace dlprim::fft_detail {

namespace {

// Dimensions of the pass, each line `length` numbers behind the one before it in a workspace.
void lay_out(Pass& pass, std::int64_t length, std::int64_t LineDim::* place) {
  for (int d = 0; d < pass.dims; d++) {
    pass.dim[std::size_t(d)].*place = length;
    length *= pass.dim[std::size_t(d)].size;
  }
}

// Gentleman and Sande 1966, Bailey 1990: a line of N1 * N2 numbers as a matrix; its columns are transformed, multiplied
// by roots of unity, and then its rows, in parts themselves where they are too long. Number k1 of a column and number
// k2 of a row are number k1 + N1 * k2 of the whole.
void transform_parts(Queue& queue, const Pass& whole) {
  const Device& device = queue.device();
  const Workspace workspace(queue, whole.count() * whole.length * whole.bytes());
  Pass last = whole;  // what is left to do after the passes so far
  last.x = workspace.data(), last.in_stride = 1, last.load = Load::complex;
  last.swap_in = last.chirp_in = last.spectrum_in = false;
  lay_out(last, whole.length, &LineDim::in);
  for (bool first = true;; first = false) {
    Pass ready = last;
    arrange(ready);
    if (!first)
      if (const auto shape = shape_of(device, ready)) return run(queue, ready, *shape);
    const std::uint32_t part = first_part(device, last.length, whole.doubles, whole.chirps()),
                        rest = last.length / part;
    Pass pass = first ? whole : last;
    pass.length = part, pass.twists = whole.length, pass.outputs = part, pass.out_step = 1, pass.scale = 1;
    pass.y = workspace.data(), pass.store = Store::complex, pass.swap_out = pass.chirp_out = false;
    for (int d = 0; d < pass.dims; d++)
      pass.dim[std::size_t(d)].out = last.dim[std::size_t(d)].in, pass.dim[std::size_t(d)].out_first = 0;
    LineDim columns{std::int64_t(rest), 1, 1, 0, 0, whole.length / last.length};
    if (first) columns.in = 0, columns.in_first = 1, pass.in_step = rest;
    else pass.in_stride = rest;
    pass.out_stride = rest;
    pass.add(columns);
    arrange(pass);
    const auto shape = shape_of(device, pass);
    if (!shape) throw NotImplementedError("[fft] no work-group holds parts of " + std::to_string(part) + " numbers");
    run(queue, pass, *shape);
    last.add({std::int64_t(part), std::int64_t(rest), 0, 0, last.out_step, 0});
    last.out_step *= part, last.length = rest;
  }
}

void transform_smooth(Queue& queue, Pass pass) {
  arrange(pass);
  if (const auto shape = shape_of(queue.device(), pass)) return run(queue, pass, *shape);
  transform_parts(queue, pass);
}

// Bluestein 1970: n k = (n^2 + k^2 - (k - n)^2) / 2 makes a convolution of the transform, and transforms of a convenient
// length compute that.
void transform_chirped(Queue& queue, const Pass& whole) {
  const Workspace workspace(queue, whole.count() * whole.padded * whole.bytes());
  Pass forward = whole;
  forward.length = std::uint32_t(whole.padded), forward.outputs = whole.padded, forward.chirp_in = true;
  forward.y = workspace.data(), forward.out_stride = 1, forward.store = Store::complex, forward.swap_out = false;
  forward.scale = 1;
  lay_out(forward, std::int64_t(whole.padded), &LineDim::out);
  transform_smooth(queue, forward);
  Pass back = whole;
  back.length = std::uint32_t(whole.padded), back.spectrum_in = back.chirp_out = true;
  back.x = workspace.data(), back.in_stride = 1, back.load = Load::complex, back.swap_in = false;
  lay_out(back, std::int64_t(whole.padded), &LineDim::in);
  transform_smooth(queue, back);
}

// The pass as one kernel; false where no work-group can hold its lines.
bool run_whole(Queue& queue, Pass pass) {
  if (pass.padded) pass.length = std::uint32_t(pass.padded), pass.chirp_both = true;
  arrange(pass);
  const auto shape = shape_of(queue.device(), pass);
  if (shape) run(queue, pass, *shape);
  return shape.has_value();
}

}  // namespace

void transform_lines(Queue& queue, Pass pass) {
  if (!is_smooth(pass.length)) pass.padded = padded_length(2 * std::uint64_t(pass.length) - 1);
  if (run_whole(queue, pass)) return;
  if (!pass.untangles())
    return pass.padded ? transform_chirped(queue, pass) : transform_parts(queue, (arrange(pass), pass));
  const Workspace workspace(queue, pass.count() * pass.length * pass.bytes());
  Pass pairs = pass, rest = pass;
  pairs.y = rest.x = workspace.data(), pairs.store = Store::complex, pairs.out_stride = 1, pairs.outputs = pass.length;
  lay_out(pairs, pass.length, &LineDim::out);
  transform_lines(queue, pairs);
  lay_out(rest, pass.length, &LineDim::in);
  arrange(rest);
  run_untangle(queue, rest);
}

}  // namespace dlprim::fft_detail
