// SPDX-License-Identifier: MIT
#include <dlprim/primitives/semi_structured.hpp>
#include <dlprim/runtime/launch.hpp>

#include "check.hpp"

namespace dlprim {

namespace {

struct Key {
  DataType type;
  std::uint8_t kernel, word, interleaved, masked, swapped, absolute;
};

enum Which : std::uint8_t { expanding, compressing, choosing, applying };

/// Sizes of semi_structured.cl.
struct Sizes {
  cl_long rows, columns, row, col, mask_row, mask_col;
};

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  constexpr const char* names[] = {"expand", "compress", "choose", "apply"};
  return cache.get(queue.device(), key, [&] {
    const bool bytes = size_of(key.type) == 1;
    KernelSource source("semi_structured.cl", names[key.kernel]);
    source.define("T", tag(key.type))
        .define("UNIT", bytes ? "u8" : "u16")
        .define("WORD", key.word == 4 ? "u32" : "u16");
    source.define("INTERLEAVED", std::int64_t(key.interleaved)).define("MASKED", std::int64_t(key.masked));
    source.define("SWAPPED", std::int64_t(key.swapped)).define("ABSOLUTE", std::int64_t(key.absolute));
    const bool integers = key.type == DataType::int8;
    source.define("NEGATIVE_ZERO", std::int64_t(integers ? 0 : bytes ? 0x80 : 0x8000));
    return source.define("PAIRED", std::int64_t(key.type == DataType::float32));
  });
}

std::int64_t units(DataType type) { return type == DataType::float32 ? 2 : 1; }  // of an element

void check(const TwoOfFour& m, const TensorView& dense, const char* op) {
  const bool known = m.type == DataType::float16 || m.type == DataType::bfloat16 || m.type == DataType::float32 ||
                     size_of(m.type) == 1;
  DLPRIM_EXPECT(known && dense.dtype == m.type, op, "float16, bfloat16, float32 or bytes, got ", dense);
  DLPRIM_EXPECT(dense.dims == 2 && dense.sizes[0] == m.rows && dense.sizes[1] == m.columns, op, "a matrix [", m.rows,
                ", ", m.columns, "], got ", dense);
  const std::int64_t wide = 8 * m.word_bytes / units(m.type), high = m.interleaved ? 64 / m.word_bytes : 1;
  DLPRIM_EXPECT((m.word_bytes == 2 || m.word_bytes == 4) && m.columns % wide == 0 && m.rows % high == 0, op,
                "rows a multiple of ", high, " and columns of ", wide, ", got ", dense);
}

NDRange range(std::int64_t count) { return NDRange(std::size_t(count), 64); }

Sizes sizes_of(const TensorView& dense, std::int64_t units, const TileMask* mask) {
  return {dense.sizes[0],   dense.sizes[1] * units,      dense.strides[0] * units,
          dense.strides[1], mask ? mask->row_stride : 0, mask ? mask->column_stride : 0};
}

}  // namespace

void expand(Queue& queue, const TwoOfFour& m, const TensorView& out) {
  check(m, out, "expand");
  DLPRIM_EXPECT(out.is_contiguous(), "expand", "a contiguous result");
  if (out.numel() == 0) return;
  const Sizes p = sizes_of(out, units(m.type), nullptr);
  launch(queue, kernel_for(queue, {m.type, expanding, std::uint8_t(m.word_bytes), m.interleaved, 0, 0, 0}),
         range(p.rows * p.columns / 4), m.values, m.words, out.data, p);
}

void compress(Queue& queue, const TwoOfFour& m, const TensorView& dense, const TileMask* mask) {
  check(m, dense, "compress");
  DLPRIM_EXPECT(units(m.type) == 1 || (dense.strides[1] == 1 && !mask), "compress",
                "float32 row after row and without a mask");
  if (dense.numel() == 0) return;
  const Sizes p = sizes_of(dense, units(m.type), mask);
  const Key key{
      m.type, compressing, std::uint8_t(m.word_bytes), m.interleaved, mask != nullptr, mask && mask->transposed, 0};
  launch(queue, kernel_for(queue, key), range(p.rows * p.columns / (8 * m.word_bytes)), dense.data,
         mask ? mask->data : dense.data, m.values, m.words, p);
}

void choose_tiles(Queue& queue, const TensorView& dense, const TileMask& mask, bool absolute) {
  DLPRIM_EXPECT(dense.dims == 2 && is_floating(dense.dtype) && dense.dtype != DataType::float64 &&
                    dense.sizes[0] % 8 == 0 && dense.sizes[1] % 8 == 0,
                "choose_tiles", "a matrix of floats, sizes multiples of 8, got ", dense);
  if (dense.numel() == 0) return;
  const Sizes p = sizes_of(dense, 1, &mask);
  launch(queue, kernel_for(queue, {dense.dtype, choosing, 2, 0, 1, 0, absolute}), range(dense.numel() / 16), dense.data,
         mask.data, p);
}

void apply_mask(Queue& queue, const TensorView& out, const TensorView& dense, const TileMask& mask) {
  DLPRIM_EXPECT(dense.dims == 2 && out.dims == 2 && out.dtype == dense.dtype && out.sizes == dense.sizes &&
                    out.is_contiguous() && size_of(dense.dtype) <= 2 && dense.sizes[0] % 8 == 0 &&
                    dense.sizes[1] % 8 == 0,
                "apply_mask", "two matrices alike of elements of 1 or 2 bytes, sizes multiples of 8, got ", dense);
  if (dense.numel() == 0) return;
  const Sizes p = sizes_of(dense, 1, &mask);
  launch(queue, kernel_for(queue, {dense.dtype, applying, 2, 0, 1, 0, 0}), range(dense.numel()), dense.data, mask.data,
         out.data, p);
}

}  // namespace dlprim
