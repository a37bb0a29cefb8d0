// SPDX-License-Identifier: MIT
// Products with packed weights on CPUs.
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <cmath>

#include "dot_products.hpp"
#include "quantized_weights.hpp"

namespace dlprim {

using namespace packed;

namespace {

constexpr std::int64_t most_rows = 8;    // of x
constexpr std::int64_t block = 32;       // weights that are decoded together
constexpr std::int64_t most_own = 64, most_by_bytes = 512;  // rows of weights of a work-item: ROWS of the kernels
constexpr std::int64_t least_by_bytes = 16;  // for which x is worth being made bytes
constexpr std::int64_t slab_bytes = 8192;  // of x as float32, in local memory

struct RowsKey {
  FormatKey format;
  std::uint8_t rows, bias, unit_steps, by_bytes;
  std::uint16_t blocks_a_group, unused_too;
};

bool in_units(const PackedWeights& w) {
  return w.scales.strides[1] == 1 && (w.zero_points == ZeroPoints::none || w.zeros.strides[1] == 1);
}

// Whether the CPU's dot products of bytes serve.
bool by_bytes(const Device& device, const PackedWeights& w) {
  return w.k % (2 * block) == 0 && w.zero_points == ZeroPoints::none && std::abs(w.middle) <= 64 &&
         w.middle == std::trunc(w.middle) && byte_dot(device) != 0;
}

// What rows of x, which share local memory, leave of it for each.
std::int64_t fours(const RowsKey& key) { return key.rows <= 2 ? 1 : key.rows <= 4 ? 2 : 4; }

std::int64_t own_rows(const RowsKey& key) { return key.by_bytes ? most_by_bytes / fours(key) : most_own; }

KernelSource source_of(const Device& device, const RowsKey& key) {
  KernelSource source = key.by_bytes ? KernelSource("quantized/rows_dot.cl", "packed_rows_dot")
                                     : KernelSource("quantized/rows.cl", "packed_rows");
  define(source, key.format);
  if (key.by_bytes) source.define("BYTE_DOT", byte_dot(device));
  source.define("MR", key.rows).define("NR", key.rows == 1 ? 4 : 2).define("ROWS", own_rows(key));
  source.define("SLAB", slab_bytes / 8 / fours(key)).define("BLOCKS_A_GROUP", key.blocks_a_group);
  source.define("UNIT_STEPS", key.unit_steps);
  return key.bias ? source.define("BIAS") : source;
}

}  // namespace

const char* packed::decline_rows(const DeviceInfo& device, const TensorView& x, const PackedWeights& w) {
  if (!device.cpu || settings.gpu_forms) return "for CPUs";
  if (device.platform == "rusticl") return "its compiler takes vectors of 16 apart";
  if (w.format != WeightFormat::int8 && w.format != WeightFormat::int4) return "no kernel for the format";
  if (x.sizes[0] > most_rows) return "too many rows";
  if (w.data.offset % 4) return "memory is not aligned";
  if (w.k == 0 || w.k % block || w.k >= std::int64_t(1) << 31) return "rows are not whole blocks";
  if (w.group < w.k && (w.group % block || w.group / block > 0xffff)) return "groups are not whole blocks";
  return nullptr;
}

void packed::multiply_rows(Queue& queue, const TensorView& x, const PackedWeights& w, const TensorView& out,
                           const TensorView& bias) {
  RowsKey key{};
  key.format = format_key(w, x.dtype), key.rows = std::uint8_t(x.sizes[0]), key.bias = bias.defined();
  key.unit_steps = in_units(w), key.blocks_a_group = std::uint16_t(w.group < w.k ? w.group / block : 0);
  key.by_bytes = by_bytes(queue.device(), w);
  static KernelCache<RowsKey> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] { return source_of(queue.device(), key); });
  // A few work-items for each unit, of whole sets of rows that are multiplied together.
  const std::int64_t wanted = 4 * std::int64_t(queue.device().info().compute_units);
  const std::int64_t own =
      std::clamp<std::int64_t>((w.n + wanted - 1) / wanted, key.by_bytes ? least_by_bytes : 4, own_rows(key)) / 4 * 4;
  const Traffic traffic{std::uint64_t(w.n * w.k) * row(w.format).bits / 8};
  const NDRange range(std::size_t((w.n + own - 1) / own), 1);
  const ProductParameters p = parameters(w, x.sizes[0]);
  if (key.by_bytes)
    return launch(queue, kernel, range, traffic, x.data, w.data, w.scales.data, bias.data, out.data, p, cl_uint(own));
  launch(queue, kernel, range, traffic, x.data, w.data, w.scales.data, w.zeros.data, bias.data, out.data, p,
         cl_uint(own));
}

}  // namespace dlprim
