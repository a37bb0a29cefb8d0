// SPDX-License-Identifier: MIT
// Convolutions to few channels, as a decoder's last layer and the gradient of an image: a product gives what every
// element of the other side adds to every tap and channel, and a second kernel sums it by windows. Of a product that does
// both at once, matrix units would compute as many rows as they have, for a few channels.
#include <dlprim/runtime/launch.hpp>

#include <limits>

#include "../../../tuning/store.hpp"
#include "../../each_line.hpp"
#include "../../grid.hpp"
#include "../problem.hpp"

namespace dlprim::conv_cores {

namespace {

constexpr std::int64_t most_taps = 512;
// Time to ask whether a tap reaches a result, of that to write an element and read it (estimated, not measured).
constexpr double tap_asked = 0.125;

struct Key {
  std::uint16_t type, activation, bias, unit, taps[3];
};

// The struct of conv/folded.cl.
struct Fold {
  cl_long result_n, result_c, result_stride[3], n, row, bias;
  cl_long channels, size[3], points[3], scale[3], offset[3], step[3], unit[3];
  cl_ulong count;
};

const Volume& read_by(const ConvProblem& p) { return p.pass == ConvPass::forward ? p.shape.x : p.shape.y; }
const Volume& result_of(const ConvProblem& p) { return p.pass == ConvPass::forward ? p.shape.y : p.shape.x; }
std::int64_t points_of(const Volume& v) { return v.size[0] * v.size[1] * v.size[2]; }

// The distance of points that lie evenly apart in memory; 0: they do not, or in one place.
std::int64_t point_stride(const Volume& v) {
  std::int64_t stride = 1, next = 0;
  bool any = false;
  for (int i = 2; i >= 0; i--) {
    if (v.size[i] == 1) continue;
    if (!any) stride = v.stride[i];
    else if (v.stride[i] != next) return 0;
    next = v.stride[i] * v.size[i], any = true;
  }
  return stride;
}

DataType product_type(DataType type) { return size_of(type) == 2 ? DataType::float32 : type; }

// The products of some images: a row for each channel of the result and tap, a column for each point that is read.
struct Products {
  std::int64_t images, points, rows, pitch;
  bool merged;  // images lie beside each other in a row
  std::int64_t elements() const { return rows * (merged ? 1 : images) * pitch; }
};

Products products_of(const ConvProblem& problem, std::int64_t images) {
  const Volume& read = read_by(problem);
  const std::int64_t points = points_of(read), rows = result_of(problem).channels * problem.shape.taps();
  const bool merged = images == 1 || read.outer_stride == points * point_stride(read);
  return {images, points, rows, divide_up(merged ? images * points : points, 8) * 8, merged};
}

std::size_t bytes_of(const Products& products, DataType type) {
  return std::size_t(products.elements()) * size_of(product_type(type));
}

void multiply(Queue& queue, const ConvProblem& problem, const Workspace& weights, BufferRef from,
              const Products& products, const Workspace& to) {
  const Volume& read = read_by(problem);
  const std::int64_t batches = products.merged ? 1 : products.images;
  const std::int64_t columns = products.merged ? products.images * products.points : products.points;
  TensorView a(weights.data(), problem.shape.type, {batches, products.rows, read.channels});
  TensorView b(from, problem.shape.type, {batches, read.channels, columns});
  TensorView c(to.data(), product_type(problem.shape.type), {batches, products.rows, columns});
  a.strides[0] = 0;
  b.strides[0] = read.outer_stride, b.strides[1] = read.channel_stride, b.strides[2] = point_stride(read);
  c.strides[0] = products.rows * products.pitch, c.strides[1] = products.pitch;
  GemmOptions options;
  options.allow_tf32 = problem.shape.allow_tf32;
  gemm(queue, a, b, c, options);
}

Kernel& kernel_for(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("conv/folded.cl", "conv_folded");
    source.define("TYPE", tag(DataType(key.type))).define("ACTIVATE(x0)", activation_code(Activation(key.activation)));
    source.define("TAPS_D", key.taps[0]).define("TAPS_H", key.taps[1]).define("TAPS_W", key.taps[2]);
    if (key.unit) source.define("UNIT");
    return source.define("BIAS", key.bias);
  });
}

void sum(Queue& queue, const ConvProblem& problem, const Workspace& from, const Products& products, BufferRef to) {
  const ConvShape& s = problem.shape;
  const bool forward = problem.pass == ConvPass::forward;
  const Volume &read = read_by(problem), &result = result_of(problem);
  Fold f{};
  f.result_n = result.outer_stride, f.result_c = result.channel_stride;
  f.n = products.merged ? products.points : products.rows * products.pitch, f.row = products.pitch;
  f.channels = result.channels, f.count = std::uint64_t(products.images * result.channels * points_of(result));
  Key key{std::uint16_t(s.type), std::uint16_t(problem.activation), problem.bias.defined(), 1, {}};
  for (int i = 0; i < 3; i++) {
    f.result_stride[i] = result.stride[i], f.size[i] = result.size[i], f.points[i] = read.size[i];
    f.scale[i] = forward ? s.stride[i] : 1, f.unit[i] = forward ? 1 : s.stride[i];
    f.offset[i] = forward ? -s.padding[i] : s.padding[i], f.step[i] = forward ? -s.dilation[i] : s.dilation[i];
    key.taps[i] = std::uint16_t(s.w.size[i]), key.unit &= std::uint16_t(f.unit[i] == 1);
  }
  f.bias = problem.bias.defined() ? problem.bias.stride(0) : 0;
  const BufferRef bias = problem.bias.defined() ? problem.bias.data : s.w.data;
  launch(queue, kernel_for(queue.device(), key), line_range(queue, f.count, f.size[2], 256), from.data(), bias, to, f);
}

void run_images(Queue& queue, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  const Volume &read = read_by(problem), &result = result_of(problem);
  const bool forward = problem.pass == ConvPass::forward;
  const Workspace weights = ordered_weights(queue, s,
                                            {.rows = result.channels,
                                             .columns = read.channels,
                                             .row_stride = forward ? s.w.outer_stride : s.w.channel_stride,
                                             .column_stride = forward ? s.w.channel_stride : s.w.outer_stride,
                                             .group_stride = 0,
                                             .taps = {s.w.size[0], s.w.size[1], s.w.size[2]},
                                             .first = {0, 0, 0},
                                             .step = {1, 1, 1},
                                             .tap_outer = true});
  const std::size_t an_image = bytes_of(products_of(problem, 1), s.type);
  const std::int64_t turn =
      std::clamp<std::int64_t>(std::int64_t(workspace_limit(queue.device().info()) / an_image), 1, result.outer);
  for (std::int64_t first = 0; first < result.outer; first += turn) {
    const Products products = products_of(problem, std::min(turn, result.outer - first));
    const Workspace memory(queue, bytes_of(products, s.type));
    const auto image = [&](const Volume& v) {
      return BufferRef{v.data.memory, v.data.offset + std::size_t(first * v.outer_stride) * size_of(s.type)};
    };
    multiply(queue, problem, weights, image(read), products, memory);
    sum(queue, problem, memory, products, image(result));
  }
}

void run(Queue& queue, const ConvProblem& problem) { add_residual_behind(queue, problem, run_images); }

// Whether the core "gather" would compute the windows' product.
bool is_gathered(const Device& device, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  if (s.type == DataType::float32) return tf32_pays(device, problem);
  const std::int64_t channels = result_of(problem).channels, sum = read_by(problem).channels * s.taps();
  const double operations = 2 * double(channels) * double(sum) * double(s.points());
  return read_by(problem).channels % 8 == 0 && gather_pays(device, channels, sum, operations);
}

const char* decline_by_estimate(const Device& device, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  if (device.info().cpu) return "only for GPUs";
  if (bytes_of(products_of(problem, 1), s.type) > 4 * workspace_limit(device.info()))
    return "an image's products take too much memory";
  static tuning::Numbers<4> words("conv.folded.16bit"), tf32("conv.folded.tf32"), others("conv.folded");
  const bool rounded = s.type == DataType::float32 && s.allow_tf32;
  const auto& [rows, gathered, an_element, start] = (size_of(s.type) == 2 ? words : rounded ? tf32 : others)(device);
  const Volume &read = read_by(problem), &result = result_of(problem);
  const double terms = 2 * double(read.channels * s.taps()), points = double(read.outer * points_of(read));
  const double direct = std::max(rows, double(result.channels)) * terms * double(s.points());
  const double products = double(result.channels) * terms * points;
  if (direct <= products + start) return "a product of windows takes less";
  // Every result asks every tap, of which a stride leaves it few.
  double asked = tap_asked * double(result.channels * s.taps()) * double(result.outer * points_of(result));
  asked += double(result.channels * s.taps()) * points;
  const double sums = (is_gathered(device, problem) ? gathered : an_element) * asked;
  return direct > products + sums + start ? nullptr : "a product of windows takes less";
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  if (problem.pass == ConvPass::weights) return "not for gradients of weights";
  if (!is_floating(s.type)) return "only for floating types";
  if (s.groups != 1 || s.taps() == 1 || s.taps() > most_taps) return "groups, or one tap, or too many";
  const Volume &read = read_by(problem), &result = result_of(problem);
  if (read.outer == 0 || read.channels == 0 || points_of(read) == 0 || points_of(result) == 0 || result.channels == 0)
    return "an empty operand";
  if (point_stride(read) == 0) return "points do not lie evenly apart";
  std::int64_t farthest = points_of(read);
  for (int i = 0; i < 3; i++)
    farthest = std::max(farthest, result.size[i] * s.stride[i] + s.padding[i] + s.w.size[i] * s.dilation[i]);
  if (farthest > std::numeric_limits<std::int32_t>::max()) return "coordinates of more than 31 bits";
  return forced ? nullptr : decline_by_estimate(device, problem);
}

constexpr ConvCore core{.name = "folded", .order = 310, .decline = decline, .run = run, .copies = true};

}  // namespace

void folded(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
