// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// How weights lie in memory in few bits. A stored number q stands for scale * q, or what zero points make of it.
enum class WeightFormat : std::uint8_t {
  int8,        ///< bytes [n, k], q = -128 .. 127
  int4,        ///< bytes [n, k / 2], the first of two numbers in the low bits, q = 0 .. 15
  int4_tiles,  ///< int32 [ceil(n / 8), k / (16 t), 32, t / 2], t = 2, 4 or 8, as interleave_int4 makes them; q = 0 .. 15
  table4,  ///< bytes, two numbers each, the first in the high bits, which name entries of a table of 16
  table8,  ///< bytes that name entries of a table of 256
};

/// What zero points z do.
enum class ZeroPoints : std::uint8_t {
  none,
  subtracted,  ///< a weight is scale * (q - z)
  added,  ///< a weight is scale * (q - middle) + z
};

/// A matrix of weights [n, k].
struct PackedWeights {
  WeightFormat format = WeightFormat::int8;
  std::int64_t n = 0, k = 0;
  BufferRef data{};  ///< contiguous
  TensorView scales{};  ///< [n, groups], any strides, any floating dtype but float64
  TensorView zeros{};  ///< as scales, floating or int8; only with zero points
  TensorView table{};  ///< of the table formats: contiguous float32
  std::int64_t group = 0;  ///< weights along k that share a scale
  float middle = 0;  ///< subtracted from q
  ZeroPoints zero_points = ZeroPoints::none;
  std::int64_t tiles = 0;  ///< t of int4_tiles
};

/// out [m, n] = x [m, k] w^T, plus `bias` [n] if it is defined. x, out and bias are contiguous and of one dtype: float32,
/// float16 or bfloat16; sums are in float32. Up to eight rows of x, 32 in 16 bits where matrix units decode as they go
/// (NVIDIA), read the weights once, as they are stored; for more, weights are unpacked into temporary memory. For the table formats, scales [n, groups] are contiguous and n * k may be
/// divided into groups without regard to rows: then `group` need not divide k. Throws ValidationError.
void packed_product(Queue& queue, const TensorView& x, const PackedWeights& w, const TensorView& out,
                    const TensorView& bias = {});

/// out [n, k], contiguous, of any floating dtype but float64: the weights as numbers. Throws ValidationError.
void unpack(Queue& queue, const PackedWeights& w, const TensorView& out);

/// Lays 4-bit weights, bytes [n, k / 2] with the first of two numbers in the high bits, out as WeightFormat::int4_tiles.
/// k is a multiple of 16 `tiles`; rows above n are 0.
void interleave_int4(Queue& queue, BufferRef out, BufferRef weights, std::int64_t n, std::int64_t k,
                     std::int64_t tiles);

/// Quantizes `x`, contiguous and of any floating dtype but float64, by blocks of `block` elements: scales[i] is the
/// largest magnitude of block i (at least 1e-38 in a last block that is not full), and an element becomes the number of
/// the entry of `table` nearest to its quotient by the scale. `table` (float32, 16 or 256 entries) ascends; `names`, if
/// defined, are the bytes stored for its entries. 16 entries: two numbers in a byte, the first in the high bits.
void quantize_blocks(Queue& queue, BufferRef out, const TensorView& scales, const TensorView& x,
                     const TensorView& table, BufferRef names, std::int64_t block);

}  // namespace dlprim
