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

/// Throws ValidationError for a value of an attribute other than the one that is understood.
void expect_attribute(const AttributeReader& reader, const char* name, std::int64_t understood);

}  // namespace dlprim
