// SPDX-License-Identifier: MIT
#include "shape.hpp"

#include <dlprim/runtime/launch.hpp>

#include "../gemm/engine.hpp"

namespace dlprim {

namespace {

Volume volume(const TensorView& t) {
  Volume v{t.data, t.size(0), t.size(1), t.stride(0), t.stride(1)};
  for (int i = 2; i < t.dims; i++) v.size[5 - t.dims + i - 2] = t.size(i), v.stride[5 - t.dims + i - 2] = t.stride(i);
  return v;
}

}  // namespace

ConvShape conv_shape(const char* operation, const Queue& queue, const TensorView& x, const TensorView& weights,
                     const TensorView& y, const ConvOptions& options) {
  const DeviceInfo& device = queue.device().info();
  DLPRIM_EXPECT(x.dims >= 3 && x.dims <= 5, operation, "x of 3 to 5 dimensions, got ", x);
  DLPRIM_EXPECT(x.dtype != DataType::boolean, operation, "numbers, got ", x);
  DLPRIM_EXPECT((x.dtype != DataType::float64 && x.dtype != DataType::complex128) || device.fp64, operation,
                "a type that ", device.name, " has, got float64");
  DLPRIM_EXPECT(weights.dims == x.dims && weights.dtype == x.dtype, operation, "weights like x ", x, ", got ", weights);
  DLPRIM_EXPECT(y.dims == x.dims && y.dtype == x.dtype && y.size(0) == x.size(0), operation, "y like x ", x, ", got ",
                y);
  DLPRIM_EXPECT(options.groups > 0 && x.size(1) == weights.size(1) * options.groups && weights.size(0) == y.size(1) &&
                    y.size(1) % options.groups == 0,
                operation, "channels of x ", x, " and y ", y, " for ", options.groups, " groups, got weights ",
                weights);
  ConvShape s;
  s.rank = x.dims - 2, s.type = x.dtype, s.groups = options.groups, s.allow_tf32 = options.allow_tf32;
  s.x = volume(x), s.w = volume(weights), s.y = volume(y);
  for (int i = 0; i < s.rank; i++) {
    const int at = 3 - s.rank + i;
    s.stride[at] = options.stride[i], s.padding[at] = options.padding[i], s.dilation[at] = options.dilation[i];
    DLPRIM_EXPECT(s.stride[at] > 0 && s.dilation[at] > 0, operation, "positive stride and dilation, got ", s.stride[at],
                  " and ", s.dilation[at]);
  }
  return s;
}

void check_bias(const char* operation, const TensorView& bias, std::int64_t channels, DataType type) {
  if (bias.defined())
    DLPRIM_EXPECT(bias.dims == 1 && bias.size(0) == channels && bias.dtype == type, operation, "a bias of ", channels,
                  " elements of ", type, ", got ", bias);
}

void lay_channels_last(TensorView& tensor) {
  std::int64_t next = tensor.size(1);
  tensor.strides[1] = 1;
  for (int i = tensor.dims - 1; i >= 2; i--) tensor.strides[i] = next, next *= tensor.size(i);
  tensor.strides[0] = next;
}

bool dense(const Volume& w, bool tap_outer) {
  std::int64_t expected = tap_outer ? w.channels : 1;
  auto matches = [&](std::int64_t size, std::int64_t stride) {
    const bool ok = size == 1 || stride == expected;
    expected *= size;
    return ok;
  };
  if (tap_outer && w.channels > 1 && w.channel_stride != 1) return false;
  for (int i = 2; i >= 0; i--)
    if (!matches(w.size[i], w.stride[i])) return false;
  return tap_outer || w.channels == 1 || w.channel_stride == expected;
}

Workspace ordered_weights(Queue& queue, const ConvShape& shape, const WeightOrder& order) {
  struct Shape {
    std::int64_t groups, rows, columns, taps[3], group_stride, row_stride, column_stride, tap_stride[3];
  } s{shape.groups, order.rows, order.columns, {}, order.group_stride, order.row_stride, order.column_stride, {}};
  BufferRef from = shape.w.data;
  for (int i = 0; i < 3; i++) {
    s.taps[i] = order.taps[i], s.tap_stride[i] = order.step[i] * shape.w.stride[i];
    from.offset += std::size_t(order.first[i] * shape.w.stride[i]) * size_of(shape.type);
  }
  const auto size = std::size_t(s.groups * s.rows * s.columns * s.taps[0] * s.taps[1] * s.taps[2]);
  const std::int64_t block = order.tap_outer ? 64 : 16;  // rows and columns of a work-item on CPUs
  struct Key {
    std::uint8_t bytes, tap_outer;
  };
  static KernelCache<Key> cache;
  const std::size_t lines = std::max<std::size_t>(fitting_group(queue.device().info(), 256) / 32, 1);
  const Key key{std::uint8_t(size_of(shape.type)), order.tap_outer};
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    const char* type = key.bytes == 1   ? "u8"
                       : key.bytes == 2 ? "u16"
                       : key.bytes == 4 ? "u32"
                       : key.bytes == 8 ? "u64"
                                        : "c128";
    return KernelSource("conv/weights.cl", "conv_weights")
        .define("TYPE", type)
        .define("TAP_OUTER", key.tap_outer)
        .define("BYTES", key.bytes)
        .define("STEP", std::int64_t(lines))
        .define("BLOCK", block);
  });
  Workspace result(queue, std::max<std::size_t>(size, 1) * key.bytes);
  const bool cpu = queue.device().info().cpu;
  const auto planes = std::size_t(s.groups * (order.tap_outer ? s.taps[0] * s.taps[1] * s.taps[2] : 1));
  if (cpu) {
    const auto blocks = [&](std::int64_t n) { return std::size_t((n + block - 1) / block); };
    launch(queue, kernel, NDRange(blocks(s.columns), blocks(s.rows), planes, 1, 1, 1), from, result.data(), s);
    return result;
  }
  if (order.tap_outer) {
    const auto tiles = [](std::int64_t n) { return std::size_t((n + 31) / 32); };
    launch(queue, kernel, NDRange(tiles(s.columns) * 32, tiles(s.rows) * lines, planes, 32, lines, 1), from,
           result.data(), s);
    return result;
  }
  const std::size_t width = kernel.work_group(64);
  launch(queue, kernel, NDRange(std::size_t(s.columns), std::size_t(s.rows), std::size_t(s.groups), width, 1, 1), from,
         result.data(), s);
  return result;
}

}  // namespace dlprim
