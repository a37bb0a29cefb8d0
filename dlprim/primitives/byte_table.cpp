// SPDX-License-Identifier: MIT
#include <dlprim/primitives/byte_table.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>

#include "blocks_of_bytes.hpp"
#include "check.hpp"
#include "grid.hpp"

namespace dlprim {

namespace {

// The struct of kernels/quantized/gate.cl.
struct GateParameters {
  cl_ulong positions, share, of_image, channels;
  float x_zero, gate_zero, factor, y_zero;
};

struct GateKey {
  std::uint8_t x, gate, y, unused;
};

bool lies_last(const TensorView& t) {
  std::int64_t next = t.size(1);
  if (t.stride(1) != 1) return false;
  for (int i = t.dims - 1; i != 1; i = i == 2 ? 0 : i - 1) {
    if (t.size(i) > 1 && t.stride(i) != next) return false;
    next *= t.size(i);
    if (i == 0) break;
  }
  return true;
}

// What a work-item of a CPU takes of so many, a multiple of `unit`.
std::int64_t share_of(const Device& device, std::int64_t count, std::int64_t least, std::int64_t unit) {
  const std::int64_t wanted = 4 * std::int64_t(device.info().compute_units) * (device.info().cpu ? 1 : 256);
  return divide_up(std::max(least, divide_up(count, wanted)), unit) * unit;
}

}  // namespace

void look_up_bytes(Queue& queue, const TensorView& x, const TensorView& table, const TensorView& y) {
  DLPRIM_EXPECT(is_byte(x.dtype) && is_byte(y.dtype) && fills_block(x) && lies_like(x, y), "look_up_bytes",
                "blocks of bytes that lie alike, got ", x, " and ", y);
  DLPRIM_EXPECT(table.dtype == y.dtype && table.dims == 1 && table.size(0) == 256 && table.stride(0) == 1,
                "look_up_bytes", "a table of 256 elements, got ", table);
  if (y.numel() == 0) return;
  static KernelCache<std::uint8_t> cache;
  Kernel& kernel = cache.get(queue.device(), 0, [] { return KernelSource("quantized/table.cl", "byte_table"); });
  const std::int64_t share = share_of(queue.device(), y.numel(), queue.device().info().cpu ? 4096 : 8, 8);
  const bool cpu = queue.device().info().cpu;
  launch(queue, kernel, NDRange(std::size_t(divide_up(y.numel(), share)), cpu ? 1 : kernel.work_group(64)), x.data,
         table.data, y.data, cl_ulong(y.numel()), cl_ulong(share));
}

bool can_gate_bytes(const Device& device, const TensorView& x, const TensorView& gate, const TensorView& y) {
  if (!device.info().cpu || !is_byte(x.dtype) || !is_byte(gate.dtype) || !is_byte(y.dtype)) return false;
  if (x.dims < 3 || gate.dims != x.dims || !std::ranges::equal(x.shape(), y.shape()) || x.size(1) < 16) return false;
  for (int i = 0; i < x.dims; i++)
    if (gate.size(i) != (i < 2 ? x.size(i) : 1)) return false;
  return lies_last(x) && lies_last(y) && lies_last(gate);
}

void gate_bytes(Queue& queue, const TensorView& x, const TensorView& gate, const TensorView& y,
                const GatedBytes& options) {
  DLPRIM_EXPECT(can_gate_bytes(queue.device(), x, gate, y), "gate_bytes",
                "bytes with their channels side by side, a number for each, on a CPU, got ", x, " and ", gate);
  if (y.numel() == 0) return;
  const GateKey key{std::uint8_t(x.dtype), std::uint8_t(gate.dtype), std::uint8_t(y.dtype), 0};
  static KernelCache<GateKey> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    const auto type = [](std::uint8_t t) { return DataType(t) == DataType::int8 ? "char" : "uchar"; };
    KernelSource source("quantized/gate.cl", "gate_bytes");
    source.define("X", type(key.x)).define("G", type(key.gate)).define("Y", type(key.y));
    return source.define("LOWEST_BYTE", lowest_byte(DataType(key.y)));
  });
  const std::int64_t positions = x.numel() / x.size(1);
  const std::int64_t share = share_of(queue.device(), positions, divide_up(std::int64_t(4096), x.size(1)), 1);
  const GateParameters p{cl_ulong(positions), cl_ulong(share),  cl_ulong(positions / x.size(0)),
                         cl_ulong(x.size(1)), options.zeros[0], options.zeros[1],
                         options.factor,      options.y_zero};
  launch(queue, kernel, NDRange(std::size_t(divide_up(positions, share)), 1), x.data, gate.data, y.data, p);
}

}  // namespace dlprim
