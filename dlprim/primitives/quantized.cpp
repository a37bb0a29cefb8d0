// SPDX-License-Identifier: MIT
#include <dlprim/primitives/gemm.hpp>
#include <dlprim/primitives/quantized.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>

#include "check.hpp"
#include "quantized_weights.hpp"

namespace dlprim {

using namespace packed;

FormatKey packed::format_key(const PackedWeights& w, DataType type) {
  FormatKey key{};
  key.type = std::uint8_t(type), key.scale = std::uint8_t(w.scales.dtype), key.format = std::uint8_t(w.format);
  key.zero = std::uint8_t(w.zero_points == ZeroPoints::none ? w.scales.dtype : w.zeros.dtype);
  key.zeros = std::uint8_t(w.zero_points), key.tiles = std::uint8_t(w.tiles);
  return key;
}

void packed::define(KernelSource& source, const FormatKey& key) {
  source.define("T", tag(DataType(key.type))).define("SCALE", tag(DataType(key.scale)));
  source.define("ZERO", tag(DataType(key.zero))).define("ZEROS", key.zeros);
  source.define("FORMAT", key.format).define("TILES", key.tiles);
}

ProductParameters packed::parameters(const PackedWeights& w, std::int64_t m) {
  ProductParameters p{};
  p.n = std::uint64_t(w.n), p.k = std::uint32_t(w.k), p.m = std::uint32_t(m), p.middle = w.middle;
  p.scale_n = row(w.format).table ? w.k / w.group : w.scales.strides[0];
  p.scale_k = row(w.format).table ? 1 : w.scales.strides[1];
  p.zero_n = w.zeros.strides[0], p.zero_k = w.zeros.strides[1];
  return p;
}

namespace {

constexpr std::int64_t most_rows = 8;                  // of x for which packed weights are multiplied as they lie
constexpr std::int64_t slab_bytes = std::int64_t(64) << 20;  // of unpacked weights at a time

void check(const PackedWeights& w, const char* op) {
  const auto narrow = [](DataType type) { return is_floating(type) && type != DataType::float64; };
  DLPRIM_EXPECT(w.n >= 0 && w.k >= 0 && w.group > 0, op, "sizes and a group, got [", w.n, ", ", w.k, "] and ", w.group);
  DLPRIM_EXPECT(w.scales.dims == 2 && narrow(w.scales.dtype), op, "floating scales [n, groups], got ", w.scales);
  if (const int entries = row(w.format).table) {
    DLPRIM_EXPECT(w.table.dtype == DataType::float32 && w.table.numel() == entries && w.table.is_contiguous(), op,
                  "a table of ", entries, " float32, got ", w.table);
    DLPRIM_EXPECT(w.scales.is_contiguous() && w.scales.numel() == (w.n * w.k + w.group - 1) / w.group, op,
                  "a scale for every ", w.group, " of ", w.n * w.k, " weights, got ", w.scales);
    DLPRIM_EXPECT(w.zero_points == ZeroPoints::none, op, "no zero points with a table");
    return;
  }
  const std::int64_t groups = (w.k + w.group - 1) / w.group;
  DLPRIM_EXPECT(w.scales.sizes[0] == w.n && w.scales.sizes[1] == groups, op, "scales [", w.n, ", ", groups, "], got ",
                w.scales);
  if (w.zero_points != ZeroPoints::none)
    DLPRIM_EXPECT(w.zeros.dims == 2 && (narrow(w.zeros.dtype) || w.zeros.dtype == DataType::int8) &&
                      w.zeros.sizes[0] == w.n && w.zeros.sizes[1] == groups,
                  op, "zero points [", w.n, ", ", groups, "], got ", w.zeros);
  if (w.format == WeightFormat::int4) DLPRIM_EXPECT(w.k % 2 == 0, op, "an even k, got ", w.k);
  if (w.format == WeightFormat::int4_tiles)
    DLPRIM_EXPECT((w.tiles == 2 || w.tiles == 4 || w.tiles == 8) && w.n % 8 == 0 && w.k % (16 * w.tiles) == 0 &&
                      w.group % 32 == 0 && w.group <= 256,
                  op, "2, 4 or 8 tiles that divide [", w.n, ", ", w.k, "] and groups of 32 to 256, got ", w.tiles,
                  " and ", w.group);
}

struct ProductKey {
  FormatKey format;
  std::uint8_t rows, own_rows, warp, share;
  std::uint16_t lanes, teams, group, bias;
};

// Why the weights cannot be multiplied as they lie; null if they can.
const char* decline(const TensorView& x, const PackedWeights& w) {
  const FormatRow& format = row(w.format);
  if (x.sizes[0] > most_rows) return "too many rows";
  if (w.k == 0 || w.k >= (std::int64_t(1) << 31)) return "no weights, or too many in a row";
  if (!aligned(x.data) || !aligned(w.data)) return "memory is not aligned";
  if (w.format == WeightFormat::int4_tiles)
    return w.k % w.group || (w.group & (w.group - 1)) ? "groups do not divide tiles" : nullptr;
  if (format.chunk == 0) return "no kernel for the format";
  if (w.k % format.chunk) return "rows are not whole chunks";
  if (w.group < w.k && (w.k % w.group || w.group % format.chunk || w.group > 0xffff))
    return "groups are not whole chunks of a row";
  if (format.table && w.k % w.group) return "a scale belongs to two rows";
  return nullptr;
}

ProductKey layout(const DeviceInfo& device, const PackedWeights& w, DataType type, std::int64_t m) {
  const bool tiles = w.format == WeightFormat::int4_tiles;
  ProductKey key{};
  key.format = format_key(w, type);
  key.rows = std::uint8_t(m), key.group = std::uint16_t(w.group < w.k || tiles ? w.group : 0);
  int own = m == 1 ? (w.format == WeightFormat::int8 || tiles ? 4 : 8) : m == 2 ? 4 : m <= 4 ? 2 : 1;
  if (device.cpu && !settings.gpu_forms) {
    key.own_rows = std::uint8_t(std::clamp<int>(own, 2, 4));
    key.lanes = key.teams = key.warp = key.share = 1;
    return key;
  }
  key.warp = 32, key.share = tiles ? 4 : 32;
  const std::int64_t team = 32 / key.share, chunk = tiles ? 4 * w.tiles : row(w.format).chunk;
  const std::int64_t most = std::int64_t(fitting_group(device, 128)), wanted = 16 * std::int64_t(device.compute_units);
  std::int64_t lanes = 32;
  const auto warps = [&] { return (w.n + own * team - 1) / (own * team) * (lanes / 32); };
  while (warps() < wanted && lanes < most && w.k / chunk >= lanes * 2 / 32 * key.share) lanes *= 2;
  while (warps() < wanted && own > 1) own /= 2;
  key.own_rows = std::uint8_t(own), key.lanes = std::uint16_t(lanes);
  key.teams = std::uint16_t(std::max<std::int64_t>(1, most / lanes));
  return key;
}

void multiply_packed(Queue& queue, const TensorView& x, const PackedWeights& w, const TensorView& out,
                     const TensorView& bias) {
  ProductKey key = layout(queue.device().info(), w, x.dtype, x.sizes[0]);
  key.bias = bias.defined();
  static KernelCache<ProductKey> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("quantized/product.cl", "packed_product");
    define(source, key.format);
    source.define("MR", key.rows).define("NR", key.own_rows).define("LANES", key.lanes).define("TEAMS", key.teams);
    source.define("WARP", key.warp).define("SHARE", key.share).define("GROUP", key.group);
    return key.bias ? source.define("BIAS") : source;
  });
  const std::size_t items = std::size_t(key.lanes) * key.teams;
  const std::size_t rows = std::size_t(key.own_rows) * key.teams * (key.warp / key.share);
  const Traffic traffic{std::uint64_t(w.n * w.k) * row(w.format).bits / 8};
  launch(queue, kernel, NDRange((std::size_t(w.n) + rows - 1) / rows * items, items), traffic, x.data, w.data,
         w.scales.data, w.zeros.data, w.table.data, bias.data, out.data, parameters(w, x.sizes[0]));
}

// Rows [first, first + count) of the weights. Where `whole_slabs` holds, for every first that it divides.
PackedWeights rows_of(const PackedWeights& w, std::int64_t first, std::int64_t count) {
  PackedWeights part = w;
  part.n = count;
  part.data.offset += std::size_t(first * w.k * row(w.format).bits / 8);
  if (row(w.format).table) {
    part.scales = TensorView(w.scales.data, w.scales.dtype, {1, (count * w.k + w.group - 1) / w.group});
    part.scales.data.offset += std::size_t(first * w.k / w.group) * size_of(w.scales.dtype);
  } else {
    part.scales = w.scales.narrowed(0, first, count);
    if (w.zero_points != ZeroPoints::none) part.zeros = w.zeros.narrowed(0, first, count);
  }
  return part;
}

// Rows unpacked at a time.
std::int64_t slab_rows(const PackedWeights& w, std::int64_t bytes_a_row) {
  if (row(w.format).table && w.k % (2 * w.group)) return w.n;
  return std::max<std::int64_t>(64, slab_bytes / bytes_a_row / 64 * 64);
}

}  // namespace

void unpack(Queue& queue, const PackedWeights& w, const TensorView& out) {
  check(w, "unpack");
  DLPRIM_EXPECT(
      is_floating(out.dtype) && out.dtype != DataType::float64 && out.is_contiguous() && out.numel() == w.n * w.k,
      "unpack", "a contiguous floating result of ", w.n * w.k, " elements, got ", out);
  if (out.numel() == 0) return;
  const bool flat = row(w.format).table;
  struct Parameters {  // as in unpack.cl
    std::uint64_t count, k, group;
    std::int64_t scale_n, scale_k, zero_n, zero_k;
    float middle;
    std::uint32_t unused;
  } p{};
  p.count = std::uint64_t(w.n * w.k), p.k = flat ? p.count : std::uint64_t(w.k), p.group = std::uint64_t(w.group);
  p.scale_n = flat ? 0 : w.scales.strides[0], p.scale_k = flat ? 1 : w.scales.strides[1];
  p.zero_n = w.zeros.strides[0], p.zero_k = w.zeros.strides[1], p.middle = w.middle;
  struct Key {
    FormatKey format;
    std::uint8_t parts, unused;
  };
  Key key{};
  key.format = format_key(w, out.dtype);
  key.parts = w.format == WeightFormat::int4_tiles ||
              (p.k % 8 == 0 && (w.group % 8 == 0 || p.group >= p.k) && aligned(w.data) && aligned(out.data));
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("quantized/unpack.cl", key.parts ? "unpack_parts" : "unpack_each");
    define(source, key.format);
    return source;
  });
  const std::size_t items = std::size_t(key.parts ? p.count / 8 : p.count);
  const Traffic traffic{p.count * std::uint64_t(row(w.format).bits + 8 * size_of(out.dtype)) / 8};
  launch(queue, kernel, NDRange(items, fitting_group(queue.device().info(), 256)), traffic, w.data, w.scales.data,
         w.zeros.data, w.table.data, out.data, p);
}

void packed_product(Queue& queue, const TensorView& x, const PackedWeights& w, const TensorView& out,
                    const TensorView& bias) {
  constexpr const char* op = "packed_product";
  check(w, op);
  DLPRIM_EXPECT(x.dims == 2 && x.sizes[1] == w.k && x.is_contiguous() &&
                    (x.dtype == DataType::float32 || x.dtype == DataType::float16 || x.dtype == DataType::bfloat16),
                op, "a contiguous floating x [m, ", w.k, "], got ", x);
  DLPRIM_EXPECT(
      out.dims == 2 && out.sizes[0] == x.sizes[0] && out.sizes[1] == w.n && out.dtype == x.dtype && out.is_contiguous(),
      op, "a contiguous result [", x.sizes[0], ", ", w.n, "] of x's dtype, got ", out);
  if (bias.defined())
    DLPRIM_EXPECT(bias.dims == 1 && bias.sizes[0] == w.n && bias.dtype == x.dtype && bias.is_contiguous(), op,
                  "a bias [", w.n, "] of x's dtype, got ", bias);
  if (out.numel() == 0) return;
  if (!decline_units(queue.device().info(), x, w)) return multiply_by_units(queue, x, w, out, bias);
  if (!decline_rows(queue.device().info(), x, w)) return multiply_rows(queue, x, w, out, bias);
  if (!decline(x, w)) return multiply_packed(queue, x, w, out, bias);
  const std::int64_t slab = slab_rows(w, std::max<std::int64_t>(1, w.k) * std::int64_t(size_of(x.dtype)));
  const Workspace memory(queue, std::max<std::size_t>(16, std::size_t(std::min(slab, w.n) * w.k) * size_of(x.dtype)));
  for (std::int64_t first = 0; first < w.n; first += slab) {
    const std::int64_t count = std::min(slab, w.n - first);
    const TensorView unpacked(memory.data(), x.dtype, {count, w.k});
    unpack(queue, rows_of(w, first, count), unpacked);
    TensorView transposed = unpacked;
    std::swap(transposed.sizes[0], transposed.sizes[1]), std::swap(transposed.strides[0], transposed.strides[1]);
    GemmOptions options;
    if (bias.defined()) {
      const std::int64_t sizes[] = {x.sizes[0], count}, strides[] = {0, 1};
      options.addend = TensorView(bias.data, bias.dtype, sizes, strides);
      options.addend.data.offset += std::size_t(first) * size_of(bias.dtype);
      options.beta = 1;
    }
    gemm(queue, x, transposed, out.narrowed(1, first, count), options);
  }
}

void interleave_int4(Queue& queue, BufferRef out, BufferRef weights, std::int64_t n, std::int64_t k,
                     std::int64_t tiles) {
  DLPRIM_EXPECT((tiles == 2 || tiles == 4 || tiles == 8) && n >= 0 && k >= 0 && k % (16 * tiles) == 0,
                "interleave_int4", "2, 4 or 8 tiles of 16 that divide k, got ", tiles, " and ", k);
  const std::uint64_t words = std::uint64_t((n + 7) / 8 * k);  // eight numbers each
  struct Key {
    std::uint32_t unused;
  };
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), Key{}, [] { return KernelSource("quantized/pack.cl", "interleave"); });
  launch(queue, kernel, NDRange(std::size_t(words), fitting_group(queue.device().info(), 256)), out, weights,
         cl_ulong(words), cl_ulong(n), cl_ulong(k / 2), cl_uint(tiles / 2));
}

void quantize_blocks(Queue& queue, BufferRef out, const TensorView& scales, const TensorView& x,
                     const TensorView& table, BufferRef names, std::int64_t block) {
  constexpr const char* op = "quantize_blocks";
  const std::int64_t entries = table.numel(), count = x.numel();
  DLPRIM_EXPECT(is_floating(x.dtype) && x.dtype != DataType::float64 && x.is_contiguous(), op,
                "a contiguous floating tensor, got ", x);
  DLPRIM_EXPECT(table.dtype == DataType::float32 && table.is_contiguous() && (entries == 16 || entries == 256), op,
                "a table of 16 or 256 float32, got ", table);
  DLPRIM_EXPECT(block >= 2 && block % 2 == 0 && block <= 1 << 30, op, "blocks of an even number, got ", block);
  DLPRIM_EXPECT(
      scales.dtype == DataType::float32 && scales.is_contiguous() && scales.numel() == (count + block - 1) / block, op,
      "a float32 scale for each block, got ", scales);
  if (count == 0) return;
  struct Key {
    std::uint8_t type, named;
    std::uint16_t entries, items, unused;
  };
  Key key{};
  key.type = std::uint8_t(x.dtype), key.named = names.memory != nullptr, key.entries = std::uint16_t(entries);
  key.items =
      std::uint16_t(fitting_group(queue.device().info(), std::size_t(std::clamp<std::int64_t>(block / 2, 1, 64))));
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("quantized/pack.cl", "quantize_blocks");
    source.define("T", tag(x.dtype)).define("ENTRIES", key.entries).define("ITEMS", key.items);
    return key.named ? source.define("NAMED") : source;
  });
  launch(queue, kernel, NDRange(std::size_t(scales.numel()) * key.items, key.items), out, scales.data, x.data,
         table.data, names, cl_ulong(count), cl_uint(block));
}

}  // namespace dlprim
