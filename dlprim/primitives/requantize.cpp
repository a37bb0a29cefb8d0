// SPDX-License-Identifier: MIT
#include <dlprim/primitives/requantize.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>

#include "blocks_of_bytes.hpp"
#include "check.hpp"
#include "grid.hpp"

namespace dlprim {

namespace {

// The struct of kernels/quantized/requantize.cl.
struct Parameters {
  cl_ulong count, row, share, size;
  float scale, factor0, factor1, offset, zero, unused = 0;
};

struct Key {
  std::uint8_t x0, x1, y, inputs, in_memory, repeated;
};

// Whether t is a vector along the last dimension of y, which is row-major.
bool is_row(const TensorView& t, const TensorView& y) {
  if (t.dims != 1 || y.dims < 2 || t.size(0) != y.size(y.dims - 1) || (t.size(0) > 1 && t.stride(0) != 1)) return false;
  return y.is_contiguous();
}

}  // namespace

bool can_requantize(const Device& device, std::span<const TensorView> x, const TensorView& y) {
  if (!device.info().cpu || !is_byte(y.dtype) || x.empty() || x.size() > 2 || !fills_block(y)) return false;
  const auto fits = [&](const TensorView& t) { return is_byte(t.dtype) || t.dtype == DataType::float32; };
  if (!std::ranges::all_of(x, fits) || !lies_like(x[0], y)) return false;
  return lies_like(x.back(), y) || is_row(x.back(), y);
}

void requantize(Queue& queue, std::span<const TensorView> x, const TensorView& y, const Requantize& options) {
  DLPRIM_EXPECT(can_requantize(queue.device(), x, y), "requantize",
                "one or two tensors that lie like a block of bytes on a CPU, got ", y);
  if (y.numel() == 0) return;
  const Key key{std::uint8_t(x[0].dtype),
                std::uint8_t(x.back().dtype),
                std::uint8_t(y.dtype),
                std::uint8_t(x.size()),
                std::uint8_t(options.scale_memory.memory != nullptr),
                !lies_like(x.back(), y)};
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("quantized/requantize.cl", "requantize");
    source.define("X0", tag(DataType(key.x0))).define("X1", tag(DataType(key.x1))).define("INPUTS", key.inputs);
    source.define("IN_MEMORY", key.in_memory).define("REPEATED", key.repeated);
    const bool sign = DataType(key.y) == DataType::int8;
    return source.define("LOWEST_BYTE", lowest_byte(DataType(key.y))).define("Y", sign ? "char" : "uchar");
  });
  constexpr std::int64_t least = 4096;
  const std::int64_t wanted = 4 * std::int64_t(queue.device().info().compute_units), size = y.numel();
  const std::int64_t part = divide_up(std::max(least, divide_up(size, wanted)), std::int64_t(16)) * 16;
  const std::int64_t row = key.repeated ? x.back().size(0) : part, count = divide_up(size, row);
  const std::int64_t share = std::max<std::int64_t>(1, part / row);
  const Parameters p{cl_ulong(count),    cl_ulong(row),      cl_ulong(share), cl_ulong(size), options.scale,
                     options.factors[0], options.factors[1], options.offset,  options.zero};
  launch(queue, kernel, NDRange(std::size_t(divide_up(count, share)), 1), x[0].data, x.back().data, y.data,
         key.in_memory ? options.scale_memory : y.data, key.in_memory ? options.zero_memory : y.data, p);
}

}  // namespace dlprim
