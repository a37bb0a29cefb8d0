// SPDX-License-Identifier: MIT
// Products with packed weights by matrix units as NVIDIA's.
#include <dlprim/runtime/settings.hpp>
#include <dlprim/runtime/static_local_memory.hpp>

#include <algorithm>

#include "quantized_weights.hpp"

namespace dlprim::packed {

namespace {

constexpr std::int64_t most_rows = 32;  // of x

struct Key {
  FormatKey format;
  std::uint8_t row_tiles, tiles, warps, piece, steps, bias, shifted, quads;
  std::uint16_t group;
};

std::int64_t word_numbers(const PackedWeights& w) { return 32 / row(w.format).bits; }

// Whether each of four lanes reads a group of scales: sixteen bytes, where less at a time would not keep memory busy.
bool reads_quads(const PackedWeights& w, std::int64_t m) {
  return w.format == WeightFormat::int4 && w.group == 32 && w.k % 128 == 0 && m <= 2;
}

// Words of a row that a lane reads at a time: four lanes' lie in one group of scales. 0: no number will do.
std::int64_t piece_of(const PackedWeights& w, std::int64_t m) {
  if (reads_quads(w, m)) return 4;
  if (w.format == WeightFormat::int4_tiles) return w.tiles / 2;
  const std::int64_t least = row(w.format).bits == 8 ? 2 : 1;
  for (std::int64_t piece = 4; piece >= least; piece /= 2) {
    const std::int64_t step = 4 * piece * word_numbers(w);
    if (w.k % step == 0 && (w.group >= w.k || w.group % step == 0)) return piece;
  }
  return 0;
}

// Tiles of 16 rows of weights, warps and steps under way: the fastest of nine on an H200. Where weights have too few rows
// for the compute units, more warps share each row. `local`: bytes of local memory that sums may take.
void shape(Key& key, const PackedWeights& w, std::int64_t units, std::size_t local) {
  const bool wide = w.n >= 64 * units, bytes = row(w.format).bits == 8, many = key.row_tiles > 2;
  key.warps = std::uint8_t(wide || many ? 8 : 16);
  key.tiles = std::uint8_t(bytes && !wide && !many ? 1 : 2);
  if (wide && many && !bytes && local > 4 * 512 * std::size_t(key.warps * key.row_tiles) + 2048) key.tiles = 4;
  const bool one_step = wide && !(bytes && many) && !(w.format == WeightFormat::int4 && key.row_tiles == 1);
  key.steps = std::uint8_t(key.tiles == 1 ? 4 : one_step ? 1 : 2);
  if (key.quads) key.tiles = key.steps = 1;
}

KernelSource source_of(const Key& key) {
  KernelSource source("quantized/units.cl", "packed_units");
  define(source, key.format);
  source.define("MT", key.row_tiles).define("R", key.tiles).define("WARPS", key.warps).define("PIECE", key.piece);
  source.define("U", key.steps).define("GROUP", key.group).define("SHIFTED", key.shifted);
  source.define("QUADS", key.quads);
  return key.bias ? source.define("BIAS") : source;
}

}  // namespace

const char* decline_units(const DeviceInfo& device, const TensorView& x, const PackedWeights& w) {
  if (!settings.gpu_forms && device.nv_compute_capability < 80) return "the device has no matrix units that it can use";
  if (x.dtype != DataType::float16 && x.dtype != DataType::bfloat16) return "only for 16-bit floats";
  if (x.sizes[0] > most_rows) return "too many rows";
  if (device.max_work_group < 512 || device.local_memory < 49152) return "the device's work-groups are too small";
  if (w.format == WeightFormat::table8) return "no kernel for the format";
  if (w.k == 0 || w.k >= (std::int64_t(1) << 31) || w.n == 0) return "no weights, or too many in a row";
  if (!aligned(x.data) || !aligned(w.data)) return "memory is not aligned";
  if (w.group < w.k && (w.k % w.group || w.group > 0xffff)) return "groups do not divide rows";
  if (w.format == WeightFormat::int4_tiles && (w.group & (w.group - 1))) return "groups do not divide tiles";
  if (row(w.format).table && w.k % w.group) return "a scale belongs to two rows";
  const bool sums_alone = w.format == WeightFormat::int8 || row(w.format).table;
  if (x.sizes[0] == 1 && sums_alone && !settings.gpu_forms) return "one row is quicker without";
  if (piece_of(w, x.sizes[0]) == 0) return "steps do not divide rows or groups";
  return nullptr;
}

void multiply_by_units(Queue& queue, const TensorView& x, const PackedWeights& w, const TensorView& out,
                       const TensorView& bias) {
  const std::int64_t m = x.sizes[0], units = queue.device().info().compute_units;
  const bool tiled = w.format == WeightFormat::int4_tiles;
  Key key{};
  key.format = format_key(w, x.dtype), key.bias = bias.defined();
  key.row_tiles = std::uint8_t((m + 7) / 8), key.piece = std::uint8_t(piece_of(w, m));
  key.quads = reads_quads(w, m);
  key.group = std::uint16_t(w.group < w.k || tiled ? w.group : 0);
  key.shifted =
      w.zero_points != ZeroPoints::none || w.middle != 0 || row(w.format).bits == 4 || x.dtype == DataType::float16;
  shape(key, w, units, static_local_memory(queue.device()));
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] { return source_of(key); });
  const std::size_t items = 32 * std::size_t(key.warps), rows = 16 * std::size_t(key.tiles);
  const Traffic traffic{std::uint64_t(w.n * w.k) * std::uint64_t(row(w.format).bits) / 8};
  launch(queue, kernel, NDRange((std::size_t(w.n) + rows - 1) / rows * items, items), traffic, x.data, w.data,
         w.scales.data, w.zeros.data, w.table.data, bias.data, out.data, parameters(w, m));
}

}  // namespace dlprim::packed
