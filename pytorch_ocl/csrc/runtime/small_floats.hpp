// SPDX-License-Identifier: MIT
// Dtypes that are storage only: kernels move their bytes, and convert them to numbers and back.
#pragma once
#include <ATen/core/Tensor.h>
#include <dlprim/primitives/small_floats.hpp>

namespace pytorch_ocl {

/// What the bytes of a dtype stand for; nothing for other dtypes and for those without conversions.
std::optional<dlprim::SmallFloat> small_float(at::ScalarType type) noexcept;
/// Whether a dtype has no conversions: two numbers in a byte, or bits of any meaning.
bool holds_no_numbers(at::ScalarType type) noexcept;
/// Whether a dtype is stored in bytes that kernels do not know.
bool storage_only(at::ScalarType type) noexcept;
/// Whether an operator only moves elements, so that it takes bytes of any meaning.
bool moves_elements(std::string_view op) noexcept;

/// to = from, converted, where one of them is a small float; the sizes are equal.
void convert_small_floats(dlprim::Queue& queue, const at::Tensor& to, const at::Tensor& from);

}  // namespace pytorch_ocl
