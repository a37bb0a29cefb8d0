// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// Matrices [rows, columns] of which two of four neighbors in a row are kept ("2:4"), in float16, bfloat16, int8, uint8 (for
/// floats of 8 bits, where 0x80 is a zero) or float32, of which one of two is kept.
struct TwoOfFour {
  DataType type;
  std::int64_t rows, columns;
  BufferRef values;  ///< [rows, columns / 2]
  BufferRef words;  ///< four bits for every four elements (two of float32), in words of `word_bytes`
  int word_bytes = 2;  ///< 2 or 4
  bool interleaved = false;  ///< words in the order of NVIDIA's CUTLASS, else row after row
};

/// How a mask says what is kept: bytes [rows / 8, columns / 8, 4, 2], the first two dimensions of any strides. A byte stands
/// for two rows of a tile of 4 x 4, the first row in the lower four bits; tiles of a block of 8 x 8 row after row.
/// `transposed`: the mask is that of the transpose.
struct TileMask {
  BufferRef data;
  std::int64_t row_stride = 0, column_stride = 0;
  bool transposed = false;
};

/// out = matrix, with zeros. `out` is contiguous.
void expand(Queue& queue, const TwoOfFour& matrix, const TensorView& out);

/// Writes matrix.values and matrix.words: what is not zero in `dense` (of any strides), or what a mask keeps. Where more
/// than two of four are, the first are kept. Columns fill words: a multiple of 16 for words of two bytes, 8 of float32,
/// 32 for those of four; rows are a multiple of 32 or 16 where words are interleaved.
void compress(Queue& queue, const TwoOfFour& matrix, const TensorView& dense, const TileMask* mask = nullptr);

/// A mask that keeps at most two in each row and column of every tile, the largest (by size where `absolute`) first.
/// dense [rows, columns] of float16, bfloat16 or float32, both multiples of 8.
void choose_tiles(Queue& queue, const TensorView& dense, const TileMask& mask, bool absolute);

/// out = dense where the mask keeps it, else 0; elements of 1 or 2 bytes, `out` contiguous.
void apply_mask(Queue& queue, const TensorView& out, const TensorView& dense, const TileMask& mask);

}  // namespace dlprim
