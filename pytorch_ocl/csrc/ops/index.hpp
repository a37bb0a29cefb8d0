// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/core/Tensor.h>
#include <dlprim/primitives/index.hpp>

#include <cstdint>
#include <optional>

namespace pytorch_ocl {

/// What an operator (a literal) says of an index out of range, "%lld" standing for the index; lives as long as the
/// process. A negative dim or size is left out.
const char* bounds_message(const char* op, std::int64_t dim, std::int64_t size);

/// Updates the slices of `self` along `dim` that `index` (int64 or int32, at most one dimension) names by those of
/// `source`; 16-bit floats are rounded once, and with deterministic algorithms updates take place in order. `op`
/// (a literal) is named in the IndexError for an index out of range; slices of index `ignore` are skipped.
void update_slices(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                   dlprim::Update update, const char* op, std::optional<int64_t> ignore = {});

}  // namespace pytorch_ocl
