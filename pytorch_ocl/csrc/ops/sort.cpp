// SPDX-License-Identifier: MIT
// Sorting, selection by rank, search in sorted sequences.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Sorting.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <dlprim/primitives/sort.hpp>

#include "generated/functions/sort.h"
#include "generated/structured/topk_values.h"
#include "ops/many_dims.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

// A tensor with `dim` moved to the end, as rows.
at::Tensor rows_of(const at::Tensor& self, int64_t dim) {
  const at::Tensor moved = (self.dim() == 0 ? self.unsqueeze(0) : self.movedim(dim, -1)).contiguous();
  const int64_t n = moved.size(-1);
  return moved.view({n == 0 ? 0 : moved.numel() / n, n});
}

at::Tensor order_of(const at::Tensor& keys, bool descending) {
  at::Tensor order = at::empty(keys.sizes(), keys.options().dtype(at::kLong));
  dlprim::sort_order(current_queue(keys.device()), view_of(keys, "sort"), view_of(order, "sort"), descending);
  return order;
}

// Sorts rows; `sorted` and `order` are contiguous and of their size.
void sort_into(const at::Tensor& sorted, const at::Tensor& order, const at::Tensor& keys, bool descending) {
  dlprim::sort_order(current_queue(keys.device()), view_of(keys, "sort"), view_of(order.view(keys.sizes()), "sort"),
                     descending, view_of(sorted.view(keys.sizes()), "sort"));
}

// The first k of order_of.
at::Tensor top_order(const at::Tensor& keys, int64_t k, bool descending) {
  const at::Tensor places = at::empty({keys.size(0), k}, keys.options().dtype(at::kLong));
  dlprim::Queue& queue = current_queue(keys.device());
  if (!dlprim::select_places(queue, view_of(keys, "topk"), view_of(places, "topk"), descending))
    return order_of(keys, descending).narrow(1, 0, k);
  return places.gather(1, order_of(keys.gather(1, places), descending));
}

// Copies rows into a tensor that has their dimension at `dim`.
void put_rows(const at::Tensor& to, const at::Tensor& rows, int64_t dim) {
  const at::Tensor moved = to.dim() == 0 ? to : at::Tensor(to.movedim(dim, -1));
  moved.copy_(rows.reshape(moved.sizes()));
}

void gather_rows(const at::Tensor& to, const at::Tensor& keys, const at::Tensor& order, int64_t dim) {
  if (dim != to.dim() - 1 || !to.is_contiguous() || to.is_alias_of(keys))
    return put_rows(to, keys.gather(1, order), dim);
  at::Tensor rows = to.view(order.sizes());
  at::gather_out(rows, keys, 1, order);
}

void sort_kernel(const at::TensorBase& self, const at::TensorBase& values, const at::TensorBase& indices, int64_t dim,
                 bool descending, bool) {
  if (self.numel() == 0) return;
  const at::Tensor keys = rows_of(at::Tensor(self), dim);
  const bool last = self.dim() == 0 || at::maybe_wrap_dim(dim, self.dim()) == self.dim() - 1;
  const bool direct =
      last && values.is_contiguous() && indices.is_contiguous() && !at::Tensor(values).is_alias_of(keys);
  const at::Tensor sorted = direct ? at::Tensor(values) : at::empty_like(keys);
  const at::Tensor order = direct ? at::Tensor(indices) : at::empty(keys.sizes(), keys.options().dtype(at::kLong));
  sort_into(sorted, order, keys, descending);
  if (direct) return;
  put_rows(at::Tensor(indices), order, dim);
  put_rows(at::Tensor(values), sorted, dim);
}

// The elements of each row that `rank` selects, with their positions.
std::pair<at::Tensor, at::Tensor> select(const at::Tensor& self, int64_t dim, dlprim::Rank rank, int64_t k = 0) {
  const at::Tensor keys = rows_of(self, dim);
  const at::Tensor place = at::empty({keys.size(0), 1}, keys.options().dtype(at::kLong));
  dlprim::select_rank(current_queue(self.device()), view_of(keys, "select"), view_of(place, "select"), rank, k);
  return {keys.gather(1, place), place};
}

// Checks and sizes the results for one element of each row of dimension `dim`.
void prepare_selection(at::Tensor& values, at::Tensor& indices, const at::Tensor& self, int64_t dim, bool keepdim,
                       const char* op) {
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), op, ": expected scalar type ", self.scalar_type(),
              " but got ", values.scalar_type(), " for values");
  TORCH_CHECK(indices.scalar_type() == at::kLong, op, ": expected scalar type Long but got ", indices.scalar_type(),
              " for indices");
  at::native::zero_numel_check_dims(self, dim, op);
  std::vector<int64_t> sizes = self.sizes().vec();
  if (self.dim() > 0) {
    if (keepdim) sizes[std::size_t(dim)] = 1;
    else sizes.erase(sizes.begin() + dim);
  }
  at::native::resize_output(values, sizes);
  at::native::resize_output(indices, sizes);
}

void select_into(at::Tensor& values, at::Tensor& indices, const at::Tensor& self, int64_t dim, bool keepdim,
                 dlprim::Rank rank, const char* op, int64_t k = 0) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  prepare_selection(values, indices, self, dim, keepdim, op);
  if (self.numel() == 0) return;
  const auto [value, index] = select(self, dim, rank, k);
  values.copy_(value.view(values.sizes())), indices.copy_(index.view(indices.sizes()));
}

at::Tensor select_from_all(const at::Tensor& self, dlprim::Rank rank) {
  if (self.numel() == 0)  // integers have what the host makes of NaN, as PyTorch's median
    return at::full({}, std::numeric_limits<float>::quiet_NaN()).to(self.scalar_type()).to(self.device());
  return select(self.reshape({-1}), 0, rank).first.view(at::IntArrayRef());
}

void warn_of_copy(const char* what, const at::Tensor& x) {
  if (!x.defined() || x.is_contiguous()) return;
  TORCH_WARN_ONCE("torch.searchsorted(): ", what, " tensor is non-contiguous, so that a copy of it is made");
}

at::Tensor& search(const at::Tensor& sequence, const at::Tensor& values, bool out_int32, bool right,
                   std::optional<c10::string_view> side, const at::Tensor& sorter, at::Tensor& out) {
  at::native::searchsorted_pre_check(sequence, values, out, out_int32, right, side, sorter);
  warn_of_copy("input value", values);
  warn_of_copy("boundary", sequence);
  warn_of_copy("sorter", sorter);
  at::native::resize_output(out, values.sizes());
  if (values.numel() == 0) return out;
  const at::ScalarType common =
      values.scalar_type() == sequence.scalar_type() ? values.scalar_type() : at::result_type(sequence, values);
  const at::Tensor keys = sequence.to(common).contiguous(), wanted = values.to(common).contiguous();
  const at::Tensor order = sorter.defined() ? sorter.contiguous() : sorter;
  const at::Tensor dense = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  const bool from_right = right || (side && *side == "right");
  const int64_t n = keys.size(-1), last = wanted.dim() - 1;
  dlprim::search_sorted(current_queue(out.device()), view_of(around(dense, last), "searchsorted"),
                        view_of(keys.view({n == 0 ? 1 : keys.numel() / n, n}), "searchsorted"),
                        view_of(around(wanted, last), "searchsorted"),
                        order.defined() ? view_of(around(order, last), "searchsorted") : dlprim::TensorView{},
                        from_right);
  if (!dense.is_same(out)) out.copy_(dense);
  return out;
}

at::Tensor index_result(const at::Tensor& like, bool out_int32) {
  return at::empty({0}, like.options().dtype(out_int32 ? at::kInt : at::kLong));
}

}  // namespace

void structured_topk_values::impl(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool,  // sorted anyway
                                  const at::Tensor& values, const at::Tensor& indices) {
  if (self.dim() == 0) {  // one number, also for k = 0: the results have no dimension that could be empty
    values.copy_(self), indices.zero_();
    return;
  }
  if (values.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, self.dim());
  const at::Tensor keys = rows_of(self, dim), order = top_order(keys, k, largest);
  put_rows(indices, order, dim);
  gather_rows(values, keys, order, dim);
}

namespace ops {

std::tuple<at::Tensor&, at::Tensor&> kthvalue_values(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim,
                                                     at::Tensor& values, at::Tensor& indices) {
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.dim() > 0 ? self.size(wrapped) : 1;
  at::assert_no_overlap(self, values);
  TORCH_CHECK_INDEX(n > 0, "kthvalue(): Expected reduction dim ", wrapped, " to have non-zero size.");
  TORCH_CHECK(k >= 1 && k <= n, "kthvalue(): selected number k out of range for dimension ", wrapped);
  select_into(values, indices, self, wrapped, keepdim, dlprim::Rank::kth, "kthvalue()", k - 1);
  return {values, indices};
}

at::Tensor median(const at::Tensor& self) { return select_from_all(self, dlprim::Rank::median); }
at::Tensor nanmedian(const at::Tensor& self) { return select_from_all(self, dlprim::Rank::nanmedian); }

std::tuple<at::Tensor&, at::Tensor&> median_dim_values(const at::Tensor& self, int64_t dim, bool keepdim,
                                                       at::Tensor& values, at::Tensor& indices) {
  select_into(values, indices, self, dim, keepdim, dlprim::Rank::median, "median()");
  return {values, indices};
}

std::tuple<at::Tensor&, at::Tensor&> nanmedian_dim_values(const at::Tensor& self, int64_t dim, bool keepdim,
                                                          at::Tensor& values, at::Tensor& indices) {
  select_into(values, indices, self, dim, keepdim, dlprim::Rank::nanmedian, "nanmedian()");
  return {values, indices};
}

std::tuple<at::Tensor&, at::Tensor&> mode_values(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                                                 at::Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  prepare_selection(values, indices, self, dim, keepdim, "mode()");
  if (self.numel() == 0) return {values, indices};
  const at::Tensor keys = rows_of(self, dim);
  const bool direct = values.is_contiguous() && indices.is_contiguous() && !values.is_alias_of(keys);
  const at::Tensor value = direct ? values : at::empty_like(values, at::MemoryFormat::Contiguous);
  const at::Tensor index = direct ? indices : at::empty_like(indices, at::MemoryFormat::Contiguous);
  dlprim::select_mode(current_queue(self.device()), view_of(keys, "mode"), view_of(value.view({-1}), "mode"),
                      view_of(index.view({-1}), "mode"));
  if (!direct) values.copy_(value), indices.copy_(index);
  return {values, indices};
}

std::tuple<at::Tensor, at::Tensor> mode(const at::Tensor& self, int64_t dim, bool keepdim) {
  at::Tensor values = at::empty({0}, self.options()), indices = index_result(self, false);
  mode_values(self, dim, keepdim, values, indices);
  return {values, indices};
}

at::Tensor& searchsorted_Tensor_out(const at::Tensor& sorted_sequence, const at::Tensor& self, bool out_int32,
                                    bool right, std::optional<c10::string_view> side,
                                    const std::optional<at::Tensor>& sorter, at::Tensor& out) {
  return search(sorted_sequence, self, out_int32, right, side, sorter.value_or(at::Tensor()), out);
}

at::Tensor searchsorted_Tensor(const at::Tensor& sorted_sequence, const at::Tensor& self, bool out_int32, bool right,
                               std::optional<c10::string_view> side, const std::optional<at::Tensor>& sorter) {
  at::Tensor out = index_result(self, out_int32);
  return searchsorted_Tensor_out(sorted_sequence, self, out_int32, right, side, sorter, out);
}

at::Tensor& searchsorted_Scalar_out(const at::Tensor& sorted_sequence, const at::Scalar& self, bool out_int32,
                                    bool right, std::optional<c10::string_view> side,
                                    const std::optional<at::Tensor>& sorter, at::Tensor& out) {
  const at::Tensor value = at::native::searchsorted_scalar_tensor(self, sorted_sequence.device());
  return searchsorted_Tensor_out(sorted_sequence, value, out_int32, right, side, sorter, out);
}

at::Tensor searchsorted_Scalar(const at::Tensor& sorted_sequence, const at::Scalar& self, bool out_int32, bool right,
                               std::optional<c10::string_view> side, const std::optional<at::Tensor>& sorter) {
  at::Tensor out = index_result(sorted_sequence, out_int32);
  return searchsorted_Scalar_out(sorted_sequence, self, out_int32, right, side, sorter, out);
}

at::Tensor& bucketize_Tensor_out(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right,
                                 at::Tensor& out) {
  TORCH_CHECK(boundaries.dim() == 1, "bucketize(): boundaries tensor must be 1 dimension, but got dim(",
              boundaries.dim(), ")");
  return search(boundaries, self, out_int32, right, {}, {}, out);
}

at::Tensor bucketize_Tensor(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  at::Tensor out = index_result(self, out_int32);
  return bucketize_Tensor_out(self, boundaries, out_int32, right, out);
}

at::Tensor bucketize_Scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  const at::Tensor value = at::native::searchsorted_scalar_tensor(self, boundaries.device());
  return bucketize_Tensor(value, boundaries, out_int32, right);
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(sort_stub, &pytorch_ocl::sort_kernel)
}
