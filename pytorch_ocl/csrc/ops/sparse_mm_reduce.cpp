// SPDX-License-Identifier: MIT
// torch.sparse.mm(matrix, dense, reduce): products with rows of a sparse matrix that are summed, averaged, or of which
// the largest or smallest is taken. Rows without entries give 0.
#include <ATen/native/ReductionType.h>
#include <ATen/ops/_convert_indices_from_csr_to_coo.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sparse_sampled_addmm.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "generated/functions/sparse_csr.h"

namespace pytorch_ocl::sparse_csr {

namespace {

using at::native::ReductionType;

bool picks_one(ReductionType kind) { return kind == ReductionType::MAX || kind == ReductionType::MIN; }

ReductionType checked_kind(c10::string_view reduce) {
  const ReductionType kind = at::native::get_reduction_enum(reduce);
  TORCH_CHECK(kind != ReductionType::PROD, "sparse mm reduce: reduction type prod not supported.");
  return kind;
}

void check_operands(const at::Tensor& self, const at::Tensor& other) {
  const char* op = "torch.sparse.mm with reduce";
  TORCH_CHECK(self.layout() == at::kSparseCsr && other.layout() == at::kStrided, op,
              ": Expected a matrix in sparse csr layout and a strided one, got ", self.layout(), " and ",
              other.layout());
  TORCH_CHECK(self.dim() == 2 && other.dim() == 2 && self.values().dim() == 1, op, ": Expected matrices, got ",
              self.dim(), "-D and ", other.dim(), "-D tensors");
  TORCH_CHECK(self.size(1) == other.size(0), op, ": mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", other.size(0), "x", other.size(1), ")");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), op, ": Expected operands of one dtype, got ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "\"", op, "\" not implemented for '",
                              self.scalar_type(), "'");
}

// How many entries each row has, at least 1, as a column.
at::Tensor divisors(const at::Tensor& self) { return self.crow_indices().diff().clamp_min(1).unsqueeze(1); }

// The largest or smallest product of each row and, where `number` is wanted, the first entry that gives it (the number
// of entries for rows without any). All products are in memory at once: entries times columns of `other`.
std::pair<at::Tensor, at::Tensor> picked(const at::Tensor& self, const at::Tensor& other, bool largest, bool number) {
  const at::Tensor place = at::_convert_indices_from_csr_to_coo(self.crow_indices(), self.col_indices()).to(at::kLong);
  const at::Tensor products = other.index_select(0, place.select(0, 1)).mul_(self.values().unsqueeze(1));
  const at::Tensor row = place.select(0, 0).unsqueeze(1).expand_as(products);
  at::Tensor out = at::zeros({self.size(0), other.size(1)}, other.options());
  out.scatter_reduce_(0, row, products, largest ? "amax" : "amin", /*include_self=*/false);
  if (!number) return {out, at::Tensor()};
  const int64_t entries = self._nnz();
  const at::Tensor best = out.index_select(0, place.select(0, 0));
  const at::Tensor found = products.eq(best).logical_or_(products.isnan());
  const at::Tensor numbers = at::arange(entries, place.options()).unsqueeze(1);
  const at::Tensor candidates = at::where(found, numbers, entries);
  return {out, at::full(out.sizes(), entries, place.options()).scatter_reduce_(0, row, candidates, "amin")};
}

// One more, 0: that of "no entry".
at::Tensor with_zero(const at::Tensor& tensor) { return at::cat({tensor, at::zeros({1}, tensor.options())}); }

}  // namespace

std::tuple<at::Tensor, at::Tensor> _sparse_mm_reduce_impl(const at::Tensor& self, const at::Tensor& other,
                                                          c10::string_view reduce) {
  const ReductionType kind = checked_kind(reduce);
  check_operands(self, other);
  const auto index = self.col_indices().options();
  at::Tensor number = at::empty({0}, index);
  if (self._nnz() == 0) return {at::zeros({self.size(0), other.size(1)}, other.options()), number};
  if (!picks_one(kind)) {
    const at::Tensor sums = at::mm(self, other);
    return {kind == ReductionType::MEAN ? sums.div(divisors(self)) : sums, number};
  }
  const bool wanted = at::GradMode::is_enabled() && (self.requires_grad() || other.requires_grad());
  const auto [out, entry] = picked(self, other, kind == ReductionType::MAX, wanted);
  return {out, wanted ? entry.to(index.dtype()) : number};
}

std::tuple<at::Tensor, at::Tensor> _sparse_mm_reduce_impl_backward(const at::Tensor& self, const at::Tensor& grad_out,
                                                                   const at::Tensor& weight, c10::string_view reduce,
                                                                   const at::Tensor& arg_out,
                                                                   std::array<bool, 2> output_mask) {
  const ReductionType kind = checked_kind(reduce);
  const auto like_self = [&](const at::Tensor& values) {
    return at::_sparse_compressed_tensor_unsafe(self.crow_indices().clone(), self.col_indices().clone(), values,
                                                self.sizes(), self.options().requires_grad(false));
  };
  at::Tensor grad_self, grad_weight;
  if (self._nnz() == 0) {
    if (output_mask[0]) grad_self = like_self(at::zeros_like(self.values()));
    if (output_mask[1]) grad_weight = at::zeros_like(weight);
    return {grad_self, grad_weight};
  }
  if (!picks_one(kind)) {
    const at::Tensor grad = kind == ReductionType::MEAN ? grad_out.div(divisors(self)) : grad_out;
    if (output_mask[0])
      grad_self = at::sparse_sampled_addmm(like_self(at::zeros_like(self.values())), grad, weight.t(), 0);
    if (output_mask[1]) grad_weight = at::mm(self.transpose(0, 1), grad);
    return {grad_self, grad_weight};
  }
  const at::Tensor entry = arg_out.to(at::kLong), flat = entry.reshape({-1});
  const at::Tensor row = with_zero(self.col_indices()).to(at::kLong).index_select(0, flat).view(entry.sizes());
  if (output_mask[0]) {
    const at::Tensor products = weight.gather(0, row).mul_(grad_out).reshape({-1});
    const at::Tensor values = with_zero(at::zeros_like(self.values())).scatter_add_(0, flat, products);
    grad_self = like_self(values.narrow(0, 0, self._nnz()).clone());
  }
  if (output_mask[1]) {
    const at::Tensor factors = with_zero(self.values()).index_select(0, flat).view(entry.sizes());
    grad_weight = at::zeros_like(weight).scatter_add_(0, row, factors.mul_(grad_out));
  }
  return {grad_self, grad_weight};
}

}  // namespace pytorch_ocl::sparse_csr
