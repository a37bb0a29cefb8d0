// SPDX-License-Identifier: MIT
// What PyTorch's host code for sparse tensors asks the device for. Its wheels lack the header that declares these.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/searchsorted.h>

#include "ops/sparse_rows.hpp"

namespace at::native {

using sparse_mask_intersection_out_fn = void (*)(Tensor& res, const Tensor& x, const Tensor& y,
                                                 const std::optional<Tensor>& x_hash_opt);
DECLARE_DISPATCH(sparse_mask_intersection_out_fn, sparse_mask_intersection_out_stub)

using sparse_mask_projection_out_fn = void (*)(Tensor& res, const Tensor& x, const Tensor& y,
                                               const std::optional<Tensor>& x_hash_opt, bool accumulate_matches);
DECLARE_DISPATCH(sparse_mask_projection_out_fn, sparse_mask_projection_out_stub)

using flatten_indices_fn = Tensor (*)(const Tensor& indices, IntArrayRef size);
DECLARE_DISPATCH(flatten_indices_fn, flatten_indices_stub)

}  // namespace at::native

namespace pytorch_ocl {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

void set(at::Tensor& result, const at::Tensor& like, const at::Tensor& values) {
  result.sparse_resize_and_clear_(like.sizes(), like.sparse_dim(), like.dense_dim());
  at::sparse::alias_into_sparse(result, like._indices().clone(), values.to(result.scalar_type()));
  result._coalesced_(false);
}

// Positions of y's entries in x's, which are sorted.
std::pair<at::Tensor, at::Tensor> found(const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor have = flat_positions(x._indices(), x.sizes()), want = flat_positions(y._indices(), y.sizes());
  return {at::searchsorted(have, want), at::searchsorted(have, want, false, /*right=*/true)};
}

at::Tensor of_entries(const at::Tensor& numbers, const at::Tensor& values) {
  std::vector<int64_t> view(std::size_t(values.dim()), 1);
  view[0] = numbers.size(0);
  return numbers.view(view);
}

// The values of x at the positions of y. x is sorted and marked as coalesced; with a hash it may hold positions twice.
void mask_intersection(at::Tensor& result, const at::Tensor& x, const at::Tensor& y, const OptionalTensor& hash) {
  const at::Tensor entries = hash ? at::_sparse_coo_tensor_unsafe(x._indices(), x._values(), x.sizes()).coalesce() : x;
  const auto [first, last] = found(entries, y);
  const at::Tensor values = entries._values().index_select(0, first.clamp_max(entries._nnz() - 1));
  set(result, y, values.masked_fill(of_entries(first.eq(last), values), 0));
}

// The values of y where x, the mask, has the position; as often as it has it, or once.
void mask_projection(at::Tensor& result, const at::Tensor& x, const at::Tensor& y, const OptionalTensor&,
                     bool accumulate) {
  const auto [first, last] = found(x, y);
  const at::Tensor times = accumulate ? last.sub(first) : last.gt(first), values = y._values();
  set(result, y, values.mul(of_entries(times, values).to(values.scalar_type())));
}

at::Tensor flatten_indices(const at::Tensor& indices, at::IntArrayRef sizes) {
  return flat_positions(indices.to(at::kLong), sizes);
}

}  // namespace

}  // namespace pytorch_ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(sparse_mask_intersection_out_stub, &pytorch_ocl::mask_intersection)
REGISTER_PRIVATEUSE1_DISPATCH(sparse_mask_projection_out_stub, &pytorch_ocl::mask_projection)
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub, &pytorch_ocl::flatten_indices)

}  // namespace at::native
