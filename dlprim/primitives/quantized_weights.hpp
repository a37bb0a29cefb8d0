// SPDX-License-Identifier: MIT
// What the kernels of packed weights have in common.
#pragma once
#include <dlprim/primitives/quantized.hpp>
#include <dlprim/runtime/launch.hpp>

namespace dlprim::packed {

struct FormatRow {
  int bits;
  std::int64_t chunk;  // weights that a work-item reads at a time
  int table;           // entries
};

inline const FormatRow& row(WeightFormat format) {
  static constexpr FormatRow rows[] = {{8, 16, 0}, {4, 32, 0}, {4, 0, 0}, {4, 32, 16}, {8, 0, 256}};
  return rows[int(format)];
}

inline bool aligned(const BufferRef& data) { return data.offset % 16 == 0; }

// What all kernels are made of.
struct FormatKey {
  std::uint8_t type, scale, zero, format, zeros, tiles;
};

FormatKey format_key(const PackedWeights& w, DataType type);
void define(KernelSource& source, const FormatKey& key);

// The layout of struct Parameters in quantized/scales.clh.
struct ProductParameters {
  std::uint64_t n;
  std::uint32_t k, m;
  std::int64_t scale_n, scale_k, zero_n, zero_k;
  float middle, unused;
};

ProductParameters parameters(const PackedWeights& w, std::int64_t m);

// Why matrix units cannot multiply the weights as they lie, or would not be quicker; null if they can.
const char* decline_units(const DeviceInfo& device, const TensorView& x, const PackedWeights& w);
// packed_product by quantized/units.cl.
void multiply_by_units(Queue& queue, const TensorView& x, const PackedWeights& w, const TensorView& out,
                       const TensorView& bias);

// The same for CPUs, by vectors of 16 weights: quantized/rows.cl.
const char* decline_rows(const DeviceInfo& device, const TensorView& x, const PackedWeights& w);
void multiply_rows(Queue& queue, const TensorView& x, const PackedWeights& w, const TensorView& out,
                   const TensorView& bias);

}  // namespace dlprim::packed
