// SPDX-License-Identifier: MIT
// What operators of ONNX Runtime's domain share.
#pragma once
#include "array.hpp"
#include "inner.hpp"

namespace dlprim {

constexpr const char* contrib_domain = "com.microsoft";

/// Images [N, spatial..., C] as [N, C, spatial...] and back: views.
Tensor channels_second(const Tensor& x);
Tensor channels_behind(const Tensor& x);

/// rint(x / scale) + zero within the limits of `type`, an integer of 8 or 16 bits. Scale and zero broadcast to x.
Tensor quantized(const Call& call, const Tensor& x, const Tensor& scale, const Tensor& zero, DataType type);

/// The first or second number of 4 bits in each byte, as int8; and both, next to each other along the last dimension,
/// of which `count` are kept.
Tensor half_of(const Call& call, const Tensor& t, int i);
Tensor unpacked(const Call& call, const Tensor& t, std::int64_t count);

/// Weights [n, k] of 4 or 8 bits with scales for blocks along k. What is packed has two numbers of 4 bits in a byte.
struct FewBits {
  std::int64_t n = 0, k = 0, block = 0, bits = 4;  ///< k is whole blocks
  Tensor data, scales, zeros;  ///< as the primitive takes them; without zeros the middle stands for 0
};
/// Of weights as files have them, scales [n, blocks] and zero points [n, blocks], of 0 or more or floating, or undefined.
FewBits few_bits(const Call& call, FewBits sizes, const Tensor& weights, const Tensor& scales, const Tensor& zeros);
/// x [rows, k] times the transposed weights, plus `bias` [n] where it is defined.
Tensor few_bits_product(const Call& call, const Tensor& x, const FewBits& weights, const Tensor& bias);

/// Throws ValidationError for a value of an attribute other than the one that is understood.
void expect_attribute(const AttributeReader& reader, const char* name, std::int64_t understood);

}  // namespace dlprim
