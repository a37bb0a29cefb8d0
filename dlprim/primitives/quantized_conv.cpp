// SPDX-License-Identifier: MIT
#include <dlprim/primitives/bytes.hpp>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/quantized_conv.hpp>
#include <dlprim/runtime/launch.hpp>

#include "check.hpp"
#include "conv/problem.hpp"
#include "dot_products.hpp"
#include "gemm/core.hpp"
#include "narrow.hpp"
#include "quantized_depthwise.hpp"

namespace dlprim {

namespace {

constexpr const char* operation = "quantized_conv";
constexpr std::int64_t quad = 4, most_taps = 128, longest_reach = std::int64_t(1) << 30;
constexpr std::int64_t few_channels = 16;  // with which a tap is too short a run of quads

std::int64_t whole_quads(std::int64_t channels) { return divide_up(channels, quad) * quad; }

// Whether quads of channels can be read where they lie.
bool lies_in_quads(const TensorView& x) {
  for (int i = 0; i < x.dims; i++)
    if (i != 1 && x.size(i) > 1 && x.stride(i) % quad != 0) return false;
  return x.stride(1) == 1 && x.size(1) % quad == 0 && x.data.offset % std::size_t(quad) == 0;
}

// What a dense convolution reads, in quads.
struct Quads {
  TensorView x;
  std::int64_t taps[3]{1, 1, 1};  // of the weights, of which the last ones may be channels of x
  ConvOptions options;
  Workspace memory{};
};

TensorView laid_last(TensorView t, std::int64_t channels) {
  t.sizes[1] = channels;
  lay_channels_last(t);
  return t;
}

void copy_channels_last(Queue& queue, Quads& q) {
  const TensorView x = q.x;
  q.x = laid_last(x, whole_quads(x.size(1)));
  q.memory = Workspace(queue, std::size_t(q.x.numel()));
  q.x.data = q.memory.data();
  copy(queue, q.x.narrowed(1, 0, x.size(1)), x);  // what is behind meets weights of 0
}

// Whether rows of a window shall become channels, of which there are few; their positions overlap in a copy, which
// holds the padding, too.
bool merges_rows(const Quads& q) {
  const auto along = std::size_t(q.x.dims - 3);
  return q.options.groups == 1 && q.taps[2] > 1 && q.x.size(1) <= few_channels && q.options.dilation[along] == 1 &&
         q.options.padding[along] >= 0;
}

// The struct of kernels/quantized/merge_rows.cl.
struct RowShape {
  std::int64_t strides[5]{}, lines, share;
  std::int32_t sizes[2]{1, 1}, channels, quads, width, before, columns, zero;
};

void write_merged(Queue& queue, const TensorView& x, const TensorView& wide, std::int64_t before, std::int64_t zero) {
  const int last = x.dims - 1;
  RowShape s;
  s.strides[0] = x.stride(0), s.strides[1] = x.stride(1), s.strides[4] = x.stride(last);
  s.lines = x.size(0);
  for (int i = 2; i < last; i++) {
    const int at = 2 - last + i;
    s.sizes[at] = narrow(operation, "a size", x.size(i)), s.strides[2 + at] = x.stride(i), s.lines *= x.size(i);
  }
  s.share = std::max<std::int64_t>(1, s.lines / (4 * std::int64_t(queue.device().info().compute_units)));
  s.channels = std::int32_t(x.size(1)), s.quads = std::int32_t(wide.size(1) / quad);
  s.width = narrow(operation, "a size", x.size(last)), s.before = narrow(operation, "a padding", before);
  s.columns = narrow(operation, "a size", wide.size(last)), s.zero = std::uint8_t(zero);
  const bool side = x.stride(last) == 1;
  static KernelCache<std::uint8_t> cache;
  Kernel& kernel = cache.get(queue.device(), std::uint8_t(side), [&] {
    return KernelSource("quantized/merge_rows.cl", "merge_rows").define("SIDE", side);
  });
  launch(queue, kernel, NDRange(std::size_t(divide_up(s.lines, s.share)), 1), x.data, wide.data, s);
}

void merge_rows(Queue& queue, Quads& q, std::int64_t columns, std::int64_t x_zero) {
  const TensorView x = q.x;
  const int last = x.dims - 1;
  std::int64_t& padding = q.options.padding[std::size_t(last - 2)];
  const std::int64_t channels = whole_quads(x.size(1)), step = q.options.stride[std::size_t(last - 2)];
  TensorView wide = x;
  wide.sizes[last] = std::max((columns - 1) * step + q.taps[2], padding + x.size(last));
  wide = laid_last(wide, channels);
  q.memory = Workspace(queue, std::size_t(wide.numel()));
  wide.data = q.memory.data();
  write_merged(queue, x, wide, padding, x_zero);
  q.x = wide, q.x.sizes[1] = q.taps[2] * channels, q.x.sizes[last] = wide.size(last) - q.taps[2] + 1;
  q.taps[2] = 1, padding = 0;
}

// Tensors of bytes as of words, as which the engine sees quads of them.
TensorView in_words(TensorView t) {
  t.dtype = DataType::float32, t.sizes[1] /= quad;
  for (int i = 0; i < t.dims; i++)
    if (i != 1) t.strides[i] /= quad;
  return t;
}

// The struct of kernels/quantized/conv_panels.cl.
struct PanelShape {
  std::int64_t rows, channels, quads, width, taps[3]{1, 1, 1}, stride[3]{}, row, channel, panels = 0;
  std::int32_t zero, unused = 0;
};

// Panels of the weights, zero points behind them, what is added to the sums, and what multiplies them.
struct Panels {
  BufferRef weights, zeros, start, scales;
  Panels(BufferRef at, std::size_t weight_bytes, std::size_t zero_bytes, std::size_t row_bytes) : weights(at) {
    const auto next = [&](std::size_t bytes) { return at.offset += bytes, at; };
    zeros = next(weight_bytes), start = next(zero_bytes), scales = next(row_bytes);
  }
};

Panels panels_of(Queue& queue, const TensorView& x, const TensorView& w, const QuantizedConv& quantized,
                 std::int64_t groups, std::optional<Workspace>& kept) {
  const std::int64_t quads = divide_up(w.size(1), quad);
  const auto [width, rows_each] = gemm_cores::panels_of_bytes(queue.device(), groups, w.size(0) / groups, quads);
  const std::int64_t parts = w.size(0) / rows_each;  // of one group each, or one of all
  PanelShape s{.rows = rows_each,
               .channels = w.size(1),
               .quads = quads,
               .width = width,
               .row = w.stride(0),
               .channel = w.stride(1),
               .zero = std::int32_t(quantized.x_zero - lowest_byte(x.dtype))};
  for (int i = 2; i < w.dims; i++) s.taps[3 - w.dims + i] = w.size(i), s.stride[3 - w.dims + i] = w.stride(i);
  const std::int64_t k = s.taps[0] * s.taps[1] * s.taps[2] * s.quads;
  const std::int64_t rows = parts * divide_up(s.rows, s.width) * s.width;
  s.panels = divide_up(s.rows, s.width) * s.width * k;
  const auto weights = std::size_t(rows * k * quad), each = std::size_t(rows) * sizeof(float);
  const auto zeros = std::size_t(std::max(s.taps[2], groups) * s.quads * quad);  // a row's taps may be channels
  const bool made = kept.has_value();
  if (!made) kept.emplace(queue, weights + zeros + 2 * each);
  const Panels panels(kept->data(), weights, zeros, each);
  if (made) return panels;
  const std::uint32_t zero = 0x01010101u * std::uint8_t(quantized.x_zero);
  queue.fill(panels.zeros, &zero, sizeof zero, zeros);
  const bool biased = quantized.bias.defined(), scaled = quantized.scale.defined();
  static KernelCache<std::uint8_t> cache;
  const int along = s.channel == 1 ? 1 : s.row == 1 ? 2 : 0, vectors = along == 2 ? 4 : 1;
  Kernel& kernel = cache.get(queue.device(), std::uint8_t(biased + 2 * scaled + 4 * along), [&] {
    KernelSource source("quantized/conv_panels.cl", "conv_panels");
    source.define("BIASED", biased).define("SCALED", scaled).define("ALONG", along);
    source.define("VECTORS", vectors);
    return source.define("BYTE_DOT", byte_dot(queue.device()));
  });
  const NDRange range(std::size_t(divide_up(s.rows, std::int64_t(16 * vectors))), std::size_t(parts), 1, 1);
  launch(queue, kernel, range, w.data, biased ? quantized.bias.data : w.data, scaled ? quantized.scale.data : w.data,
         panels.weights, panels.start, panels.scales, s);
  return panels;
}

void run_dense(Queue& queue, const TensorView& x, const TensorView& w, const TensorView& y, const ConvOptions& options,
               const QuantizedConv& quantized, std::optional<Workspace>& kept) {
  Quads q{.x = x, .options = options};
  for (int i = 2; i < w.dims; i++) q.taps[3 - w.dims + i] = w.size(i);
  if (merges_rows(q)) merge_rows(queue, q, y.size(y.dims - 1), quantized.x_zero);
  else if (!lies_in_quads(x)) copy_channels_last(queue, q);
  TensorView weights = w, result = y;
  for (int i = 2; i < w.dims; i++) weights.sizes[i] = q.taps[3 - w.dims + i];
  weights = laid_last(weights, q.x.size(1) / options.groups);
  result.dtype = DataType::float32;
  const ConvProblem problem(queue, ConvPass::forward, in_words(q.x), in_words(weights), result, q.options);
  GemmProblem product = conv_cores::windows_product(problem, true);
  const Panels panels = panels_of(queue, x, w, quantized, options.groups, kept);
  product.a = panels.weights, product.addend = panels.start, product.beta = 1, product.p.d_m = 1;
  product.quantized = {x.dtype, y.dtype, panels.scales};
  product.alpha = double(quantized.y_zero);
  gemm_cores::run_points_of_bytes(queue, product);
}

// One channel each group; one of one is a dense convolution.
bool is_depthwise(std::span<const std::int64_t> weights, std::int64_t groups) {
  return groups > 1 && groups == weights[0] && weights[1] == 1;
}

void check(const Device& device, const TensorView& x, const TensorView& w, const TensorView& y,
           const ConvOptions& options, const QuantizedConv& quantized) {
  DLPRIM_EXPECT(
      has_quantized_conv(device, w.shape(), options.groups), operation,
      "a CPU with dot products of bytes and weights in one group, groups of whole quads of channels or one each "
      "channel, got ",
      w, " in ", options.groups);
  DLPRIM_EXPECT(is_byte(x.dtype), operation, "x of uint8 or int8, got ", x);
  DLPRIM_EXPECT(w.dtype == DataType::int8, operation, "weights of int8, got ", w);
  const bool sums = y.dtype == DataType::int32 && !is_depthwise(w.shape(), options.groups);
  DLPRIM_EXPECT((is_byte(y.dtype) || y.dtype == DataType::float32 || sums) && y.stride(1) == 1, operation,
                "y of bytes, float32 or, of groups with several channels, int32 with its channels side by side, got ",
                y);
  DLPRIM_EXPECT(x.numel() > 0 && y.numel() > 0, operation, "sizes above 0, got x ", x, " and y ", y);
  DLPRIM_EXPECT(x.dims == w.dims && y.dims == x.dims && x.size(1) == w.size(1) * options.groups &&
                    x.size(0) == y.size(0) && w.size(0) == y.size(1),
                operation, "tensors that fit, got x ", x, ", weights ", w, " and y ", y);
  for (int i = 2; i < x.dims; i++) {
    const auto at = std::size_t(i - 2);
    DLPRIM_EXPECT(y.size(i) <= longest_reach / std::max<std::int64_t>(1, options.stride[at]) &&
                      w.size(i) <= longest_reach / std::max<std::int64_t>(1, options.dilation[at]),
                  operation, "windows within 2^30 elements, got weights ", w, " and y ", y);
  }
  const auto vector = [&](const TensorView& t, DataType type) {
    return t.dtype == type && t.dims == 1 && t.size(0) == w.size(0) && t.stride(0) == 1;
  };
  DLPRIM_EXPECT(sums || vector(quantized.scale, DataType::float32), operation,
                "scales of each channel in float32, got ", quantized.scale);
  DLPRIM_EXPECT(!quantized.bias.defined() || vector(quantized.bias, DataType::int32), operation,
                "a bias of each channel in int32, got ", quantized.bias);
  const auto fits = [](std::int64_t zero, const TensorView& t) {
    const std::int64_t low = lowest_byte(t.dtype);
    return zero >= low && zero <= low + 255;
  };
  DLPRIM_EXPECT(fits(quantized.x_zero, x), operation, "a zero point of x's type, got ", quantized.x_zero);
  DLPRIM_EXPECT(!is_byte(y.dtype) || fits(quantized.y_zero, y), operation, "a zero point of y's type, got ",
                quantized.y_zero);
}

}  // namespace

bool has_quantized_conv(const Device& device) {
  return device.info().cpu && device.info().local_memory >= 16384 && byte_dot(device) != 0;
}

bool has_quantized_conv(const Device& device, std::span<const std::int64_t> weights, std::int64_t groups) {
  if (!has_quantized_conv(device) || groups < 1 || weights.size() < 3 || weights.size() > 5) return false;
  std::int64_t taps = 1;
  for (const std::int64_t size : weights.subspan(2)) {
    if (size < 1 || size > most_taps) return false;
    taps *= size;
  }
  if (taps > most_taps || weights[0] < 1 || weights[1] < 1) return false;
  if (is_depthwise(weights, groups)) return has_quantized_depthwise(weights);
  if (groups == 1) return true;
  return weights[1] % quad == 0 && weights[0] % groups == 0 &&
         gemm_cores::takes_groups_of_bytes(groups, weights[0] / groups, weights[1] / quad);
}

void quantized_conv(Queue& queue, const TensorView& x, const TensorView& weights, const TensorView& y,
                    const ConvOptions& options, const QuantizedConv& quantized, std::optional<Workspace>* kept) {
  check(queue.device(), x, weights, y, options, quantized);
  std::optional<Workspace> own;
  const auto run = is_depthwise(weights.shape(), options.groups) ? run_depthwise : run_dense;
  run(queue, x, weights, y, options, quantized, kept ? *kept : own);
}

}  // namespace dlprim
