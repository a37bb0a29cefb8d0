// SPDX-License-Identifier: MIT
// Softmax along a dimension of sparse tensors of coordinates, over the entries there are, and gradients of sums.
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "generated/functions/sparse.h"
#include "ops/sparse_rows.hpp"

namespace pytorch_ocl::sparse {

namespace {

at::Tensor with_values(const at::Tensor& like, const at::Tensor& values) {
  return at::_sparse_coo_tensor_unsafe(like._indices().clone(), values, like.sizes())._coalesced_(like.is_coalesced());
}

// Positions along the sparse dimensions that `keep` names.
at::Tensor positions_along(const at::Tensor& indices, at::IntArrayRef sizes, const std::vector<int64_t>& keep) {
  at::Tensor result = at::zeros({indices.size(1)}, indices.options());
  for (const int64_t d : keep) result.mul_(sizes[std::size_t(d)]).add_(indices.select(0, d));
  return result;
}

/// The entries of a coalesced tensor that one softmax is taken over: those that differ along a sparse dimension only.
struct Pools {
  Runs runs;
  at::Tensor pool_of;  // of each entry

  Pools(const at::Tensor& entries, int64_t dim) {
    std::vector<int64_t> keep;
    for (int64_t d = 0; d < entries.sparse_dim(); d++)
      if (d != dim) keep.push_back(d);
    runs = runs_of(positions_along(entries._indices(), entries.sizes(), keep));
    const at::Tensor in_order = at::repeat_interleave(runs.starts.diff(), std::optional<int64_t>(runs.order.size(0)));
    pool_of = at::empty_like(in_order).index_copy_(0, runs.order, in_order);
  }
  // Of [pools, ...], the row of each entry's pool.
  at::Tensor spread(const at::Tensor& of_pools) const { return of_pools.index_select(0, pool_of); }
  at::Tensor sums(const at::Tensor& values) const { return spread(sums_of_runs(runs, values)); }
  at::Tensor largest(const at::Tensor& values) const {
    std::vector<int64_t> sizes = values.sizes().vec(), view(sizes.size(), 1);
    sizes[0] = runs.keys.size(0), view[0] = values.size(0);
    const at::Tensor most = at::full(sizes, -std::numeric_limits<double>::infinity(), values.options());
    return spread(most.scatter_reduce_(0, pool_of.view(view).expand(values.sizes()), values, "amax"));
  }
};

at::Tensor softmax(const at::Tensor& self, int64_t dim, bool half_to_float, bool log) {
  TORCH_CHECK(!half_to_float, "softmax with half to float conversion is not supported for sparse tensors");
  const at::Tensor entries = self.coalesce();
  const int64_t d = at::maybe_wrap_dim(dim, self.dim()), dims = entries.sparse_dim();
  const at::Tensor values = entries._values();
  if (values.numel() == 0) return with_values(entries, values.clone());
  if (d >= dims) {
    const int64_t along = d - dims + 1;
    return with_values(entries, log ? at::_log_softmax(values, along, false) : at::_softmax(values, along, false));
  }
  const Pools pools(entries, d);
  const at::Tensor most = pools.largest(values);
  const at::Tensor moved = values.sub(at::where(most.eq(-std::numeric_limits<double>::infinity()), 0, most));
  const at::Tensor powers = moved.exp(), sums = pools.sums(powers);
  return with_values(entries, log ? moved.sub(sums.log()) : powers.div(sums));
}

// The values of `grad` at the positions of the coalesced `entries`, 0 where it has none.
at::Tensor values_at(const at::Tensor& grad, const at::Tensor& entries) {
  const at::Tensor given = grad.coalesce();
  const at::Tensor have = flat_positions(given._indices(), given.sizes());
  const at::Tensor want = flat_positions(entries._indices(), entries.sizes());
  const at::Tensor values = given._values();
  if (have.numel() == 0) return at::zeros_like(entries._values());
  const at::Tensor place = at::searchsorted(have, want).clamp_max(have.size(0) - 1);
  std::vector<int64_t> view(std::size_t(values.dim()), 1);
  view[0] = want.size(0);
  const at::Tensor found = have.index_select(0, place).eq(want).view(view);
  return values.index_select(0, place).masked_fill(found.logical_not(), 0);
}

at::Tensor softmax_backward(const at::Tensor& grad_output, const at::Tensor& output, int64_t dim,
                            const at::Tensor& self, bool log) {
  const at::Tensor out = output.coalesce();
  const int64_t d = at::maybe_wrap_dim(dim, self.dim()), dims = out.sparse_dim();
  const at::Tensor values = out._values();
  if (values.numel() == 0) return with_values(out, values.clone());
  const at::Tensor grad = values_at(grad_output, out);
  if (d >= dims) {
    const int64_t along = d - dims + 1;
    const at::ScalarType type = values.scalar_type();
    return with_values(out, log ? at::_log_softmax_backward_data(grad, values, along, type)
                                : at::_softmax_backward_data(grad, values, along, type));
  }
  const Pools pools(out, d);
  return with_values(
      out, log ? grad.sub(values.exp().mul_(pools.sums(grad))) : grad.sub(pools.sums(grad.mul(values))).mul_(values));
}

}  // namespace

at::Tensor _sparse_softmax(const at::Tensor& self, int64_t dim, bool half_to_float) {
  return softmax(self, dim, half_to_float, false);
}

at::Tensor _sparse_log_softmax(const at::Tensor& self, int64_t dim, bool half_to_float) {
  return softmax(self, dim, half_to_float, true);
}

at::Tensor _sparse_softmax_backward_data(const at::Tensor& grad_output, const at::Tensor& output, int64_t dim,
                                         const at::Tensor& self) {
  return softmax_backward(grad_output, output, dim, self, false);
}

at::Tensor _sparse_log_softmax_backward_data(const at::Tensor& grad_output, const at::Tensor& output, int64_t dim,
                                             const at::Tensor& self) {
  return softmax_backward(grad_output, output, dim, self, true);
}

at::Tensor _sparse_sum_backward(const at::Tensor& grad, const at::Tensor& self, at::IntArrayRef dim) {
  const bool sparse_grad = grad.layout() != at::kStrided;
  if (grad.numel() == 0 || (sparse_grad && grad._nnz() == 0)) return at::zeros_like(self);
  const at::Tensor entries = self.coalesce();
  const auto over = at::dim_list_to_bitset(dim, self.dim());
  std::vector<int64_t> keep;
  for (int64_t d = 0; d < entries.sparse_dim(); d++)
    if (!over[std::size_t(d)]) keep.push_back(d);
  TORCH_CHECK(grad.is_sparse() == !keep.empty(), "_sparse_sum_backward: expected grad to be ",
              keep.empty() ? "dense since all sparse dims are summed" : "sparse");
  const at::Tensor given = keep.empty() ? at::Tensor() : grad.coalesce();
  at::Tensor values = keep.empty() ? grad.unsqueeze(0) : given._values();
  if (!keep.empty() && int64_t(keep.size()) < entries.sparse_dim()) {
    const at::Tensor have = flat_positions(given._indices(), given.sizes());
    const at::Tensor want = positions_along(entries._indices(), entries.sizes(), keep);
    const at::Tensor place = at::searchsorted(have, want).clamp_max(have.size(0) - 1);
    std::vector<int64_t> view(std::size_t(values.dim()), 1);
    view[0] = want.size(0);
    values = values.index_select(0, place).masked_fill(have.index_select(0, place).ne(want).view(view), 0);
  }
  for (int64_t d = entries.sparse_dim(); d < self.dim(); d++)
    if (over[std::size_t(d)]) values = values.unsqueeze(d - entries.sparse_dim() + 1);
  return with_values(entries, values.expand(entries._values().sizes()).contiguous());
}

}  // namespace pytorch_ocl::sparse
