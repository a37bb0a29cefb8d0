// SPDX-License-Identifier: MIT
#include "small_floats.hpp"

#include <c10/util/Float8_e4m3fn.h>

#include <algorithm>

#include "tensor.hpp"

namespace pytorch_ocl {

std::optional<dlprim::SmallFloat> small_float(at::ScalarType type) noexcept {
  // Numbers that are too large become NaN before PyTorch 2.13, then the largest.
  static const auto e4m3fn =
      c10::Float8_e4m3fn(1e6f).x == 0x7e ? dlprim::SmallFloat::e4m3fn_saturating : dlprim::SmallFloat::e4m3fn;
  switch (type) {
    case at::kFloat8_e4m3fn: return e4m3fn;
    case at::kFloat8_e5m2: return dlprim::SmallFloat::e5m2;
    case at::kFloat8_e4m3fnuz: return dlprim::SmallFloat::e4m3fnuz;
    case at::kFloat8_e5m2fnuz: return dlprim::SmallFloat::e5m2fnuz;
    case at::kFloat8_e8m0fnu: return dlprim::SmallFloat::e8m0fnu;
    default: return {};
  }
}

bool holds_no_numbers(at::ScalarType type) noexcept { return type == at::kFloat4_e2m1fn_x2 || c10::isBitsType(type); }

bool storage_only(at::ScalarType type) noexcept {
  return small_float(type) || holds_no_numbers(type) || type == at::kComplexHalf;
}

bool moves_elements(std::string_view op) noexcept {
  constexpr std::string_view names[] = {
      "copy_",       "cat",         "where",        "index",           "index_put_",
      "flip",        "tril",        "take",         "gather",          "index_select",
      "index_copy_", "index_fill_", "masked_fill_", "masked_scatter_", "masked_select"};
  return std::find(std::begin(names), std::end(names), op) != std::end(names);
}

void convert_small_floats(dlprim::Queue& queue, const at::Tensor& to, const at::Tensor& from) {
  for (const at::Tensor& each : {to, from})
    TORCH_CHECK_NOT_IMPLEMENTED(!storage_only(each.scalar_type()) || small_float(each.scalar_type()),
                                "\"copy_\" not implemented for '", c10::toString(each.scalar_type()), "'");
  dlprim::convert(queue, view_of(to, "copy_"), small_float(to.scalar_type()), view_of(from, "copy_"),
                  small_float(from.scalar_type()));
}

}  // namespace pytorch_ocl
