// SPDX-License-Identifier: MIT
// Sparse tensors of coordinates: what PyTorch writes anew for each device. The rest is its host code
// (operators/sparse.yaml).
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_sparse_broadcast_to.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>

#include "generated/functions/sparse.h"
#include "ops/sparse_rows.hpp"

namespace pytorch_ocl::sparse {

namespace {

at::Tensor indices_of(const at::Tensor& positions, at::IntArrayRef sizes, int64_t sparse_dims) {
  if (sparse_dims == 0) return at::empty({0, positions.size(0)}, positions.options());
  std::vector<at::Tensor> rows;
  rows.resize(std::size_t(sparse_dims));
  at::Tensor rest = positions;
  for (int64_t d = sparse_dims - 1; d >= 0; d--) {
    rows[std::size_t(d)] = rest.remainder(sizes[std::size_t(d)]);
    rest = rest.div(sizes[std::size_t(d)], "floor");
  }
  return at::stack(rows);
}

// Sparse dimensions as one, in front of the dense ones.
at::Tensor rows_of(const at::Tensor& dense, int64_t sparse_dims) {
  std::vector<int64_t> sizes = dense.sizes().slice(std::size_t(sparse_dims)).vec();
  sizes.insert(sizes.begin(), c10::multiply_integers(dense.sizes().slice(0, std::size_t(sparse_dims))));
  return dense.reshape(sizes);
}

at::Tensor& set(at::Tensor& out, at::IntArrayRef sizes, const at::Tensor& indices, const at::Tensor& values,
                bool coalesced) {
  out.sparse_resize_and_clear_(sizes, indices.size(0), values.dim() - 1);
  at::sparse::alias_into_sparse(out, indices, values.to(out.scalar_type()));
  return out._coalesced_(coalesced);
}

void check_result(const char* op, at::ScalarType common, const at::Tensor& out) {
  TORCH_CHECK(at::canCast(common, out.scalar_type()), op, ": result type ", common,
              " can't be cast to the desired output type ", out.scalar_type());
}

at::Tensor& add_to_dense(const at::Tensor& dense, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(!out.is_sparse(), "add: expected a dense result of a dense and a sparse tensor");
  TORCH_CHECK(dense.sizes() == other.sizes(), "add: expected 'self' and 'other' to have same size, but self has size ",
              dense.sizes(), " while other has size ", other.sizes(),
              " (FYI: dense-sparse addition does not currently support broadcasting)");
  const at::ScalarType common = at::result_type(dense, other);
  check_result("add", common, out);
  at::Tensor sum =
      dense.to(common, false, /*copy=*/!(out.is_same(dense) && dense.scalar_type() == common)).contiguous();
  if (other._nnz() > 0 && other.numel() > 0)
    rows_of(sum, other.sparse_dim())
        .index_add_(0, flat_positions(other._indices(), other.sizes()), other._values().to(common), alpha);
  if (sum.is_same(out)) return out;
  if (!out.is_same(dense)) out.resize_(dense.sizes());
  return out.copy_(sum);
}

// The elements of two coalesced tensors that both have. Dense dimensions are broadcast.
at::Tensor& multiply_sparse(const at::Tensor& a, const at::Tensor& b, at::ScalarType common, at::Tensor& out) {
  const auto depth = std::size_t(a.sparse_dim());
  TORCH_CHECK(
      a.dim() == b.dim() && a.sparse_dim() == b.sparse_dim() && a.sizes().slice(0, depth) == b.sizes().slice(0, depth),
      "mul: expects sparse inputs with equal dimensionality, number of sparse dimensions, and shape of sparse "
      "dimensions, got ",
      a.sizes(), " and ", b.sizes(), " with ", a.sparse_dim(), " and ", b.sparse_dim(), " sparse dimensions");
  const std::vector<int64_t> sizes = at::infer_size(a.sizes(), b.sizes());
  const at::Tensor x = a.coalesce(), y = b.coalesce();
  const at::Tensor at_x = flat_positions(x._indices(), x.sizes()), at_y = flat_positions(y._indices(), y.sizes());
  if (at_x.numel() == 0 || at_y.numel() == 0) {
    std::vector<int64_t> none(sizes.begin() + a.sparse_dim(), sizes.end());
    none.insert(none.begin(), 0);
    return set(out, sizes, x._indices().narrow(1, 0, 0), at::empty(none, x._values().options().dtype(common)), true);
  }
  const at::Tensor place = at::searchsorted(at_y, at_x).clamp_max(at_y.size(0) - 1);
  const at::Tensor both = at_y.index_select(0, place).eq(at_x).nonzero().view({-1});
  const at::Tensor left = x._values().to(common).index_select(0, both);
  const at::Tensor right = y._values().to(common).index_select(0, place.index_select(0, both));
  return set(out, sizes, x._indices().index_select(1, both), left.mul(right), true);
}

}  // namespace

at::Tensor _coalesce(const at::Tensor& self) {
  if (self._nnz() < 2) return at::Tensor(self.clone())._coalesced_(true);
  const Runs runs = runs_of(flat_positions(self._indices(), self.sizes()));
  const at::Tensor sums = sums_of_runs(runs, self._values());
  return at::_sparse_coo_tensor_unsafe(indices_of(runs.keys, self.sizes(), self.sparse_dim()), sums, self.sizes())
      ._coalesced_(true);
}

at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  if (!self.is_sparse()) return add_to_dense(self, other, alpha, out);
  TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  TORCH_CHECK(out.is_sparse(), "add: expected a sparse result of two sparse tensors");
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
              " != ", other.sizes());
  const bool alone = other._nnz() == 0 || self._nnz() == 0;  // then dense and sparse dimensions may differ
  TORCH_CHECK(alone || self.sparse_dim() == other.sparse_dim(),
              "add: expected 'self' and 'other' to have same number of sparse "
              "dimensions, got ",
              self.sparse_dim(), " and ", other.sparse_dim());
  const at::ScalarType common = at::result_type(self, other);
  check_result("add", common, out);
  if (alone) {
    const bool first = other._nnz() == 0;
    const at::Tensor& there = first ? self : other;
    const at::Tensor values = there._values().to(common);
    return set(out, there.sizes(), there._indices().clone(), first ? values.clone() : values.mul(alpha),
               there.is_coalesced());
  }
  const bool coalesced = self.is_coalesced() && other.is_coalesced();
  const at::Tensor sum = at::_sparse_coo_tensor_unsafe(
      at::cat({self._indices(), other._indices()}, 1),
      at::cat({self._values().to(common), other._values().to(common).mul(alpha)}), self.sizes());
  const at::Tensor result = coalesced ? sum.coalesce() : sum;
  return set(out, self.sizes(), result._indices(), result._values(), coalesced);
}

at::Tensor& mul_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  TORCH_CHECK(out.is_sparse(), "mul: expected a sparse result");
  const at::ScalarType common = at::result_type(self, other);
  check_result("mul", common, out);
  if (self.is_sparse() && other.is_sparse() && other.dim() > 0 && self.dim() > 0)
    return multiply_sparse(self, other, common, out);
  const bool first = self.is_sparse() && (!other.is_sparse() || self.dim() >= other.dim());
  const at::Tensor &given = first ? self : other, &factor = first ? other : self;
  const at::Tensor dense = factor.is_sparse() ? factor.to_dense() : factor;
  const std::vector<int64_t> sizes = at::infer_size(given.sizes(), dense.sizes());
  const at::Tensor sparse =
      given.sizes() == sizes ? given : at::_sparse_broadcast_to(given.coalesce(), sizes).coalesce();
  const at::Tensor values = sparse._values().to(common);
  const at::Tensor factors = dense.dim() == 0 ? dense
                                              : rows_of(dense.expand(sparse.sizes()), sparse.sparse_dim())
                                                    .index_select(0, flat_positions(sparse._indices(), sparse.sizes()));
  return set(out, sparse.sizes(), sparse._indices().clone(), values.mul(factors), sparse.is_coalesced());
}

}  // namespace pytorch_ocl::sparse
