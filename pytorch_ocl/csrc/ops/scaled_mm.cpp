// SPDX-License-Identifier: MIT
// Products of matrices of 8-bit floats with scales, under the conditions of the CUDA device.
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <dlprim/primitives/scaled_gemm.hpp>

#include <algorithm>

#include "generated/functions/quantized.h"
#include "runtime/small_floats.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

bool scales_match(const at::Tensor& scale_a, const at::Tensor& scale_b, int64_t m, int64_t n) {
  if (scale_a.scalar_type() != at::kFloat || scale_b.scalar_type() != at::kFloat) return false;
  if (scale_a.numel() == 1 && scale_b.numel() == 1) return true;
  return scale_a.dim() == 2 && scale_b.dim() == 2 && scale_a.size(0) == m && scale_a.size(1) == 1 &&
         scale_b.size(0) == 1 && scale_b.size(1) == n && scale_a.is_contiguous() && scale_b.is_contiguous();
}

void check_arguments(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                     const OptionalTensor& bias, const OptionalTensor& scale_result, at::ScalarType out) {
  TORCH_CHECK(a.dim() == 2, "mat1 must be a matrix");
  TORCH_CHECK(b.dim() == 2, "mat2 must be a matrix");
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  TORCH_CHECK(k == b.size(0), "mat1 and mat2 shapes cannot be multiplied (", m, "x", k, " and ", b.size(0), "x", n,
              ")");
  TORCH_CHECK_VALUE(scales_match(scale_a, scale_b, m, n),
                    "Invalid scaling configuration. For tensor-wise scaling, both scales must be float32 and hold one "
                    "element; for row-wise scaling, scale_a must be contiguous float32 of shape (",
                    m, ", 1) and scale_b of shape (1, ", n, "). Got scale_a of dtype ", scale_a.scalar_type(),
                    " and shape ", scale_a.sizes(), ", scale_b of dtype ", scale_b.scalar_type(), " and shape ",
                    scale_b.sizes());
  TORCH_CHECK(!scale_result || (scale_result->numel() == 1 && scale_result->scalar_type() == at::kFloat),
              "scale_result must be a float scalar");
  TORCH_CHECK(!bias || bias->numel() == n, "Bias must be size ", n, " but got ", bias ? bias->numel() : 0);
  TORCH_CHECK(k % 16 == 0, "Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape: (", m, "x", k,
              ").");
  TORCH_CHECK(n % 16 == 0, "mat2 shape (", b.size(0), "x", n, ") must be divisible by 16");
  for (const at::Tensor* each : {&a, &b})
    TORCH_CHECK(each->scalar_type() == at::kFloat8_e4m3fn || each->scalar_type() == at::kFloat8_e5m2 ||
                    each->scalar_type() == at::kFloat8_e4m3fnuz || each->scalar_type() == at::kFloat8_e5m2fnuz,
                "Expected ", each == &a ? "mat1" : "mat2", " to be Float8 matrix got ", each->scalar_type());
  TORCH_CHECK(a.scalar_type() != at::kFloat8_e5m2 || b.scalar_type() != at::kFloat8_e5m2,
              "Multiplication of two Float8_e5m2 matrices is not supported");
  TORCH_CHECK(!bias || out != at::kFloat, "Bias is not supported when out_dtype is set to Float32");
}

dlprim::TensorView bytes_of(const at::Tensor& t) {
  const at::IntArrayRef sizes = t.sizes(), strides = t.strides();
  return dlprim::TensorView(buffer_of(t), dlprim::DataType::uint8, std::span(sizes.data(), sizes.size()),
                            std::span(strides.data(), strides.size()));
}

void multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
              const OptionalTensor& bias, const OptionalTensor& scale_result, bool fast_sums, const at::Tensor& out) {
  dlprim::ScaledGemmOptions options;
  options.a_scale = buffer_of(scale_a), options.b_scale = buffer_of(scale_b);
  options.lines = scale_a.numel() > 1 || scale_b.numel() > 1;
  if (bias) options.bias = view_of(bias->reshape({-1}), "_scaled_mm");
  if (scale_result) options.c_scale = buffer_of(*scale_result);
  options.c_kind = small_float(out.scalar_type());
  // As CUDA's, with every version of PyTorch; its conversions give NaN before 2.13.
  if (options.c_kind == dlprim::SmallFloat::e4m3fn) options.c_kind = dlprim::SmallFloat::e4m3fn_saturating;
  options.fast_sums = fast_sums;
  dlprim::scaled_gemm(current_queue(out.device()), bytes_of(a), *small_float(a.scalar_type()), bytes_of(b),
                      *small_float(b.scalar_type()), options.c_kind ? bytes_of(out) : view_of(out, "_scaled_mm"),
                      options);
}

}  // namespace

at::Tensor& _scaled_mm_out(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                           const at::Tensor& scale_b, const OptionalTensor& bias, const OptionalTensor& scale_result,
                           std::optional<at::ScalarType> out_dtype, bool use_fast_accum, at::Tensor& out) {
  check_arguments(self, mat2, scale_a, scale_b, bias, scale_result, out.scalar_type());
  TORCH_CHECK(!out_dtype || *out_dtype == out.scalar_type(), "out_dtype must match output matrix type");
  at::native::resize_output(out, {self.size(0), mat2.size(1)});
  if (out.numel() == 0) return out;
  multiply(self, mat2, scale_a, scale_b, bias, scale_result, use_fast_accum, out);
  return out;
}

at::Tensor _scaled_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                      const at::Tensor& scale_b, const OptionalTensor& bias, const OptionalTensor& scale_result,
                      std::optional<at::ScalarType> out_dtype, bool use_fast_accum) {
  at::Tensor out = at::empty({0}, self.options().dtype(out_dtype.value_or(self.scalar_type())));
  return _scaled_mm_out(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum, out);
}

namespace {

template <class Result, class Scales, class... Others>
Scales scales_of(Result (*)(const at::Tensor&, const at::Tensor&, Scales, Others...));
using Scales = decltype(scales_of(&_scaled_mm_v2));  // another list of tensors since PyTorch 2.15

}  // namespace

// As _scaled_mm, told how the scales are meant: recipes 0 (one for a matrix) and 1 (one for each row, or column of mat2).
at::Tensor& _scaled_mm_v2_out(const at::Tensor& self, const at::Tensor& mat2, Scales scale_a, at::IntArrayRef recipe_a,
                              at::IntArrayRef swizzle_a, Scales scale_b, at::IntArrayRef recipe_b,
                              at::IntArrayRef swizzle_b, const OptionalTensor& bias,
                              std::optional<at::ScalarType> out_dtype, at::IntArrayRef contraction_dim,
                              bool use_fast_accum, at::Tensor& out) {
  const auto plain = [](at::IntArrayRef swizzle) {
    return std::ranges::all_of(swizzle, [](int64_t s) { return s == 0; });
  };
  const bool one = scale_a.size() == 1 && scale_b.size() == 1 && recipe_a.size() == 1 && recipe_b.size() == 1;
  TORCH_CHECK_VALUE(one && recipe_a[0] == recipe_b[0] && (recipe_a[0] == 0 || recipe_a[0] == 1) && plain(swizzle_a) &&
                        plain(swizzle_b),
                    "Invalid scaling configuration. Expected TensorWise scaling of both matrices, or RowWise of both, "
                    "one scale tensor each and no swizzle; got recipes ",
                    recipe_a, " and ", recipe_b);
  const bool rows = recipe_a[0] == 1;
  const at::Tensor a = *scale_a.begin(), b = *scale_b.begin();
  TORCH_CHECK_VALUE((rows ? a.dim() == 2 && b.dim() == 2 && b.numel() > 1 : a.numel() == 1 && b.numel() == 1),
                    "Invalid scaling configuration. Scales of shapes ", a.sizes(), " and ", b.sizes(),
                    " do not fit the recipe ", rows ? "RowWise" : "TensorWise");
  TORCH_CHECK(contraction_dim.empty() ||
                  (contraction_dim.size() == 2 && contraction_dim[0] % 2 != 0 && contraction_dim[1] % 2 == 0),
              "_scaled_mm_v2: expected a contraction over mat1's columns and mat2's rows, got dims ", contraction_dim);
  return ops::_scaled_mm_out(self, mat2, a, b, bias, {}, out_dtype, use_fast_accum, out);
}

at::Tensor _scaled_mm_v2(const at::Tensor& self, const at::Tensor& mat2, Scales scale_a, at::IntArrayRef recipe_a,
                         at::IntArrayRef swizzle_a, Scales scale_b, at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                         const OptionalTensor& bias, std::optional<at::ScalarType> out_dtype,
                         at::IntArrayRef contraction_dim, bool use_fast_accum) {
  at::Tensor out = at::empty({0}, self.options().dtype(out_dtype.value_or(self.scalar_type())));
  return ops::_scaled_mm_v2_out(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype,
                                contraction_dim, use_fast_accum, out);
}

}  // namespace pytorch_ocl::ops
