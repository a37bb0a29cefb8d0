// SPDX-License-Identifier: MIT
// Products with weights of 8 and 4 bits. Layouts, names and conditions are those of the CUDA device; floating factors
// may have any dtype that kernels multiply.
#include <ATen/ops/empty.h>
#include <dlprim/primitives/quantized.hpp>

#include "generated/functions/quantized.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

dlprim::TensorView scales_view(const at::Tensor& tensor, int64_t n, int64_t groups, int64_t stride_n, int64_t stride_g,
                               const char* op) {
  const int64_t sizes[] = {n, groups}, strides[] = {stride_n, stride_g};
  return dlprim::TensorView(buffer_of(tensor), data_type_of(tensor, op), sizes, strides);
}

bool is_factor(at::ScalarType type) { return type == at::kFloat || type == at::kHalf || type == at::kBFloat16; }

at::Tensor product(const at::Tensor& x, const dlprim::PackedWeights& weights, const char* op) {
  at::Tensor out = at::empty({x.size(0), weights.n}, x.options());
  dlprim::packed_product(current_queue(), view_of(x, op), weights, view_of(out, op));
  return out;
}

}  // namespace

at::Tensor _weight_int8pack_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scales) {
  constexpr const char* op = "_weight_int8pack_mm";
  TORCH_CHECK(self.dim() == 2, "x must be 2D");
  TORCH_CHECK(mat2.dim() == 2, "w must be 2D");
  TORCH_CHECK(scales.dim() == 1, "scale must be 1D");
  TORCH_CHECK(self.size(1) == mat2.size(1), "K dimension mismatch: x.size(1) != w.size(1)");
  TORCH_CHECK(mat2.size(0) == scales.size(0), "Output dim mismatch: w.size(0) != scale.size(0)");
  TORCH_CHECK(mat2.scalar_type() == at::kChar, op, ": expected w of dtype Char, got ", mat2.scalar_type());
  const at::Tensor x = (is_factor(self.scalar_type()) ? self : self.to(at::kFloat)).contiguous();
  const at::Tensor w = mat2.contiguous();
  const at::Tensor scale = is_factor(scales.scalar_type()) ? scales : scales.to(at::kFloat);
  dlprim::PackedWeights weights{dlprim::WeightFormat::int8, w.size(0), w.size(1)};
  weights.data = buffer_of(w), weights.group = std::max<int64_t>(1, w.size(1));
  weights.scales = scales_view(scale, w.size(0), w.size(1) > 0, scale.stride(0), 0, op);
  return product(x, weights, op).to(self.scalar_type());
}

at::Tensor _convert_weight_to_int4pack(const at::Tensor& self, int64_t innerKTiles) {
  constexpr const char* op = "_convert_weight_to_int4pack";
  TORCH_CHECK(self.dim() == 2, op, ": expected a matrix, got ", self.dim(), "D");
  TORCH_CHECK(self.scalar_type() == at::kByte, op, ": expected dtype Byte, got ", self.scalar_type());
  TORCH_CHECK(self.is_contiguous(), op, ": expected a contiguous tensor");
  TORCH_CHECK(innerKTiles == 2 || innerKTiles == 4 || innerKTiles == 8, op, ": expected innerKTiles 2, 4 or 8, got ",
              innerKTiles);
  const int64_t n = self.size(0), k = self.size(1) * 2;
  TORCH_CHECK(k % (innerKTiles * 16) == 0, op, ": expected twice the columns to be a multiple of ", innerKTiles * 16,
              ", got ", k);
  at::Tensor out =
      at::empty({(n + 7) / 8, k / (innerKTiles * 16), 32, innerKTiles / 2}, self.options().dtype(at::kInt));
  if (out.numel() != 0) dlprim::interleave_int4(current_queue(), buffer_of(out), buffer_of(self), n, k, innerKTiles);
  return out;
}

at::Tensor _weight_int4pack_mm(const at::Tensor& self, const at::Tensor& mat2, int64_t qGroupSize,
                               const at::Tensor& qScaleAndZeros) {
  constexpr const char* op = "_weight_int4pack_mm";
  TORCH_CHECK(is_factor(self.scalar_type()), op, ": expected self of dtype BFloat16, Half or Float, got ",
              self.scalar_type());
  TORCH_CHECK(self.dim() == 2 && self.is_contiguous(), op, ": expected self to be a contiguous matrix");
  TORCH_CHECK(mat2.scalar_type() == at::kInt && mat2.dim() == 4 && mat2.is_contiguous(), op,
              ": expected mat2 to be a contiguous tensor of dtype Int and four dimensions");
  const int64_t tiles = mat2.size(3) * 2, n = mat2.size(0) * 8, k = self.size(1);
  TORCH_CHECK(tiles == 2 || tiles == 4 || tiles == 8, op, ": expected mat2.size(3) to be 1, 2 or 4, got ",
              mat2.size(3));
  TORCH_CHECK(k % (tiles * 16) == 0 && mat2.size(1) == k / (tiles * 16) && mat2.size(2) == 32, op,
              ": expected mat2 of sizes [n / 8, ", k / (tiles * 16), ", 32, ", tiles / 2, "], got ", mat2.sizes());
  TORCH_CHECK(qGroupSize == 32 || qGroupSize == 64 || qGroupSize == 128 || qGroupSize == 256, op,
              ": expected qGroupSize 32, 64, 128 or 256, got ", qGroupSize);
  TORCH_CHECK(k >= qGroupSize && k % qGroupSize == 0, op,
              ": expected self.size(1) to be a multiple of qGroupSize, got ", k, " and ", qGroupSize);
  TORCH_CHECK(qScaleAndZeros.dim() == 3 && qScaleAndZeros.size(0) == k / qGroupSize && qScaleAndZeros.size(1) == n &&
                  qScaleAndZeros.size(2) == 2 && is_factor(qScaleAndZeros.scalar_type()),
              op, ": expected floating qScaleAndZeros of sizes [", k / qGroupSize, ", ", n, ", 2], got ",
              qScaleAndZeros.scalar_type(), " ", qScaleAndZeros.sizes());
  dlprim::PackedWeights weights{dlprim::WeightFormat::int4_tiles, n, k};
  weights.data = buffer_of(mat2), weights.group = qGroupSize, weights.tiles = tiles, weights.middle = 8;
  weights.zero_points = dlprim::ZeroPoints::added;
  const at::Tensor scales = qScaleAndZeros.select(2, 0), zeros = qScaleAndZeros.select(2, 1);
  weights.scales = scales_view(scales, n, k / qGroupSize, scales.stride(1), scales.stride(0), op);
  weights.zeros = scales_view(zeros, n, k / qGroupSize, zeros.stride(1), zeros.stride(0), op);
  return product(self, weights, op);
}

at::Tensor _weight_int4pack_mm_with_scales_and_zeros(const at::Tensor& self, const at::Tensor& mat2, int64_t qGroupSize,
                                                     const at::Tensor& qScale, const at::Tensor& qZeros) {
  constexpr const char* op = "_weight_int4pack_mm_with_scales_and_zeros";
  TORCH_CHECK(is_factor(self.scalar_type()), op, " : expect A to be either 32-bit or 16-bit float tensor.");
  TORCH_CHECK(self.is_contiguous(), op, " : expect A to be contiguous.");
  TORCH_CHECK(self.dim() == 2, op, " : expect A to be 2D tensor.");
  TORCH_CHECK(mat2.scalar_type() == at::kInt, op, " : expect B to be int32 tensor.");
  TORCH_CHECK(qZeros.scalar_type() == at::kChar, op, " : expect qZeros to be int8 tensor currently.");
  TORCH_CHECK(mat2.dim() == 2, op, " : expect B to 2d tensor.");
  TORCH_CHECK(qGroupSize > 1 && qGroupSize % 32 == 0, op,
              " : expect qGroupSize to be multiple of 32 and greater than 1, got ", qGroupSize);
  const int64_t n = mat2.size(0), k = self.size(1), groups = (k + qGroupSize - 1) / qGroupSize;
  TORCH_CHECK(mat2.size(1) * 8 == k, op, ": expect B to have a word for eight of ", k, " weights, got ", mat2.size(1));
  for (const at::Tensor& each : {qScale, qZeros})
    TORCH_CHECK(each.dim() == 2 && each.size(1) == n && each.size(0) == groups, op, ": expect ",
                each.is_same(qScale) ? "qScale" : "qZeros", " to be 2d tensor with sizes [", groups, ", ", n, "]");
  TORCH_CHECK(is_factor(qScale.scalar_type()), op, ": expect a floating qScale, got ", qScale.scalar_type());
  const at::Tensor packed = mat2.contiguous();
  dlprim::PackedWeights weights{dlprim::WeightFormat::int4, n, k};
  weights.data = buffer_of(packed), weights.group = qGroupSize;
  weights.zero_points = dlprim::ZeroPoints::subtracted;
  weights.scales = scales_view(qScale, n, groups, qScale.stride(1), qScale.stride(0), op);
  weights.zeros = scales_view(qZeros, n, groups, qZeros.stride(1), qZeros.stride(0), op);
  return product(self, weights, op);
}

}  // namespace pytorch_ocl::ops
