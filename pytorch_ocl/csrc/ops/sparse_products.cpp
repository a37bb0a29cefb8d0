// SPDX-License-Identifier: MIT
// Products of sparse tensors of coordinates with dense and with sparse ones.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_convert_indices_from_coo_to_csr.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "generated/functions/sparse.h"
#include "ops/sparse_rows.hpp"

namespace pytorch_ocl::sparse {

namespace {

void check_matrix(const char* op, const at::Tensor& mat1, const at::Tensor& mat2) {
  TORCH_CHECK(mat1.is_sparse() && mat2.layout() == at::kStrided, op, ": expected a sparse mat1 and a dense mat2, got ",
              mat1.layout(), " and ", mat2.layout());
  TORCH_CHECK(mat1.sparse_dim() == 2, op, ": matrices expected, got ", mat1.sparse_dim(), "D tensor");
  TORCH_CHECK(mat1.dense_dim() == 0, op, ": scalar values expected, got ", mat1.dense_dim(), "D values");
}

at::Tensor& product(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                    const at::Scalar& alpha, at::Tensor& out) {
  check_matrix("addmm", mat1, mat2);
  TORCH_CHECK(self.layout() == at::kStrided && out.layout() == at::kStrided,
              "addmm: expected a dense input and result, got ", self.layout(), " and ", out.layout());
  const at::Tensor base = checked_base("addmm", self, mat1, mat2);
  if (!out.is_same(self)) at::native::resize_output(out, base.sizes());
  if (mat1._nnz() == 0) return scaled_base(base, beta, out);
  multiply_rows("addmm_sparse", rows_of_sparse(mat1), mat2, base, out, beta, alpha);
  return out;
}

// Rows of a coalesced matrix that hold entries, and their products with a dense matrix.
std::pair<at::Tensor, at::Tensor> rows_times(const at::Tensor& matrix, const at::Tensor& dense) {
  const at::Tensor indices = matrix._indices();
  const Runs runs = runs_of(indices.select(0, 0).contiguous());
  const at::Tensor out = at::empty({runs.keys.size(0), dense.size(1)}, dense.options());
  if (out.numel() > 0)
    multiply_rows("hspmm", {runs.starts, indices.select(0, 1).contiguous(), matrix._values().contiguous()}, dense, {},
                  out, 0, 1);
  return {runs.keys, out};
}

}  // namespace

at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  return product(self, mat1, mat2, beta, alpha, out);
}

at::Tensor addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  check_matrix("addmm", mat1, mat2);
  at::Tensor out = at::empty({0}, mat2.options());
  return product(self, mat1, mat2, beta, alpha, out);
}

at::Tensor& addmm_(at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                   const at::Scalar& alpha) {
  return product(self, mat1, mat2, beta, alpha, self);
}

// The matrices along the diagonal of one, times the dense matrices one below the other.
at::Tensor& bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  TORCH_CHECK(self.is_sparse() && mat2.layout() == at::kStrided,
              "bmm_sparse: expected a sparse and a dense tensor, got ", self.layout(), " and ", mat2.layout());
  TORCH_CHECK(self.dense_dim() == 0, "bmm_sparse: Tensor 'self' must have 0 dense dims, but has ", self.dense_dim());
  TORCH_CHECK(self.sparse_dim() == 3, "bmm_sparse: Tensor 'self' must have 3 sparse dims, but has ", self.sparse_dim());
  TORCH_CHECK(mat2.dim() == 3, "bmm_sparse: Tensor 'mat2' must have 3 dims, but has ", mat2.dim());
  TORCH_CHECK(self.size(0) == mat2.size(0), "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
  TORCH_CHECK(self.size(2) == mat2.size(1), "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
  const int64_t batch = self.size(0), height = self.size(1), inner = self.size(2), width = mat2.size(2);
  at::native::resize_output(out, {batch, height, width});
  if (out.numel() == 0) return out;
  if (self._nnz() == 0) return out.zero_();
  const at::Tensor entries = self.coalesce(), indices = entries._indices(), number = indices.select(0, 0);
  const at::Tensor rows = number.mul(height).add_(indices.select(0, 1));
  const EntriesByRow stacked{at::_convert_indices_from_coo_to_csr(rows, batch * height),
                             number.mul(inner).add_(indices.select(0, 2)),
                             entries._values().resolve_conj().contiguous()};
  const at::Tensor result = at::empty({batch * height, width}, out.options());
  multiply_rows("bmm_sparse", stacked, mat2.reshape({batch * inner, width}), {}, result, 0, 1);
  return out.copy_(result.view({batch, height, width}));
}

at::Tensor bmm(const at::Tensor& self, const at::Tensor& mat2) {
  at::Tensor out = at::empty({0}, mat2.options());
  return bmm_out(self, mat2, out);
}

at::Tensor _sparse_sparse_matmul(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.is_sparse() && other.is_sparse(), "sparse_sparse_matmul: expected sparse tensors, got ",
              self.layout(), " and ", other.layout());
  TORCH_CHECK(self.dim() == 2 && other.dim() == 2 && self.dense_dim() == 0 && other.dense_dim() == 0,
              "sparse_sparse_matmul: expected 2-D tensors without dense dimensions, got ", self.sizes(), " and ",
              other.sizes());
  TORCH_CHECK(self.size(1) == other.size(0), "mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", other.size(0), "x", other.size(1), ")");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "mat1 dtype ", self.scalar_type(),
              " does not match mat2 dtype ", other.scalar_type());
  const int64_t width = other.size(1);
  const auto [positions, values] = multiply_sparse_rows(rows_of_sparse(self), rows_of_sparse(other), width);
  const int64_t divisor = std::max<int64_t>(width, 1);
  return at::_sparse_coo_tensor_unsafe(at::stack({positions.div(divisor, "floor"), positions.remainder(divisor)}),
                                       values, {self.size(0), width})
      ._coalesced_(true);
}

at::Tensor& hspmm_out(const at::Tensor& mat1, const at::Tensor& mat2, at::Tensor& out) {
  check_matrix("hspmm", mat1, mat2);
  TORCH_CHECK(mat2.dim() == 2, "hspmm: Argument #3: matrices expected, got ", mat2.dim(), "D tensor");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "hspmm: Argument #3: Expected dim 0 size ", mat1.size(1), ", got ",
              mat2.size(0));
  const auto [rows, values] = rows_times(mat1.coalesce(), mat2);
  out.sparse_resize_and_clear_({mat1.size(0), mat2.size(1)}, 1, 1);
  at::sparse::alias_into_sparse(out, rows.unsqueeze(0), values);
  return out._coalesced_(true);
}

at::Tensor hspmm(const at::Tensor& mat1, const at::Tensor& mat2) {
  at::Tensor out = at::empty({0}, mat1.options());
  return hspmm_out(mat1, mat2, out);
}

at::Tensor& sspaddmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                         const at::Scalar& alpha, at::Tensor& out) {
  check_matrix("sspaddmm", mat1, mat2);
  TORCH_CHECK(self.is_sparse() && out.is_sparse(), "sspaddmm: expected a sparse input and result");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "sspaddmm: Argument #3: Expected dim 0 size ", mat1.size(1), ", got ",
              mat2.size(0));
  const int64_t width = mat2.size(1);
  TORCH_CHECK(self.sizes() == at::IntArrayRef({mat1.size(0), width}), "sspaddmm: Argument #1: Expected sizes [",
              mat1.size(0), ", ", width, "], got ", self.sizes());
  const auto [rows, values] = rows_times(mat1.coalesce(), mat2);
  const int64_t count = rows.size(0);
  const at::Tensor columns = at::arange(width, rows.options()).expand({count, width}).reshape({-1});
  const at::Tensor places = at::stack({rows.unsqueeze(1).expand({count, width}).reshape({-1}), columns});
  const at::Tensor indices = at::cat({self._indices(), places}, 1);
  const at::Tensor all = at::cat({self._values().mul(beta), values.reshape({-1}).mul(alpha)});
  out.sparse_resize_and_clear_(self.sizes(), 2, 0);
  at::sparse::alias_into_sparse(out, indices, all);
  return out._coalesced_(false);
}

// Entries whose index along `dim` is asked for, once for each time it is.
at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  TORCH_CHECK_INDEX(self.dim() > 0, "index_select() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK_INDEX(index.dim() == 1 && (index.scalar_type() == at::kLong || index.scalar_type() == at::kInt),
                    "index_select() argument index must be 1-D integer tensor.");
  const int64_t d = at::maybe_wrap_dim(dim, self.dim()), size = self.size(d), dims = self.sparse_dim();
  const at::Tensor wide = index.to(at::kLong);
  const at::Tensor wrapped = at::where(wide.lt(0), wide.add(size), wide);
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes[std::size_t(d)] = index.size(0);
  if (d >= dims)
    return at::_sparse_coo_tensor_unsafe(self._indices(), self._values().index_select(d - dims + 1, wrapped), sizes)
        ._coalesced_(self.is_coalesced());
  const at::Tensor asked =
      at::arange(size, wrapped.options()).index_select(0, wrapped);  // reports what is out of range
  const auto [sorted, order] = asked.sort(std::optional<bool>(true), 0, false);
  const at::Tensor indices = self._indices(), have = indices.select(0, d).contiguous();
  const at::Tensor first = at::searchsorted(sorted, have), last = at::searchsorted(sorted, have, false, true);
  const auto [entry, place] = repeated(last.sub(first));
  const at::Tensor chosen = indices.index_select(1, entry);
  chosen.select(0, d).copy_(order.index_select(0, first.index_select(0, entry).add_(place)));
  return at::_sparse_coo_tensor_unsafe(chosen, self._values().index_select(0, entry), sizes);
}

}  // namespace pytorch_ocl::sparse
