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
  cl_ulong count, share;
  float scale, factor0, factor1, offset, zero, unused = 0;
};

struct Key {
  std::uint8_t x0, x1, y, inputs, in_memory;
};

}  // namespace

bool can_requantize(const Device& device, std::span<const TensorView> x, const TensorView& y) {
  if (!device.info().cpu || !is_byte(y.dtype) || x.empty() || x.size() > 2 || !fills_block(y)) return false;
  return std::ranges::all_of(
      x, [&](const TensorView& t) { return (is_byte(t.dtype) || t.dtype == DataType::float32) && lies_like(t, y); });
}

void requantize(Queue& queue, std::span<const TensorView> x, const TensorView& y, const Requantize& options) {
  DLPRIM_EXPECT(can_requantize(queue.device(), x, y), "requantize",
                "one or two tensors that lie like a block of bytes on a CPU, got ", y);
  if (y.numel() == 0) return;
  const Key key{std::uint8_t(x[0].dtype), std::uint8_t(x.back().dtype), std::uint8_t(y.dtype), std::uint8_t(x.size()),
                std::uint8_t(options.scale_memory.memory != nullptr)};
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("quantized/requantize.cl", "requantize");
    source.define("X0", tag(DataType(key.x0))).define("X1", tag(DataType(key.x1))).define("INPUTS", key.inputs);
    source.define("IN_MEMORY", key.in_memory);
    const bool sign = DataType(key.y) == DataType::int8;
    return source.define("LOWEST_BYTE", sign ? -128 : 0).define("Y", sign ? "char" : "uchar");
  });
  constexpr std::int64_t least = 4096;
  const std::int64_t wanted = 4 * std::int64_t(queue.device().info().compute_units);
  const std::int64_t share = divide_up(std::max(least, divide_up(y.numel(), wanted)), std::int64_t(16)) * 16;
  const Parameters p{cl_ulong(y.numel()), cl_ulong(share), options.scale, options.factors[0],
                     options.factors[1],  options.offset,  options.zero};
  launch(queue, kernel, NDRange(std::size_t(divide_up(y.numel(), share)), 1), x[0].data, x.back().data, y.data,
         key.in_memory ? options.scale_memory : y.data, key.in_memory ? options.zero_memory : y.data, p);
}

}  // namespace dlprim
