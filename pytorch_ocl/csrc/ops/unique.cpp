// SPDX-License-Identifier: MIT
// Distinct elements.
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <dlprim/primitives/compact.hpp>
#include <dlprim/primitives/sort.hpp>

#include "generated/functions/unique.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

struct Unique {
  at::Tensor rows;     // position of the first row of each kind
  at::Tensor inverse;  // kind of each row
  at::Tensor counts;   // rows of each kind
};

// Lengths of runs that begin at the elements that `compaction` numbers, the first of all n among them.
at::Tensor run_lengths(dlprim::Compaction& compaction, int64_t kinds, int64_t n, const at::TensorOptions& options) {
  const at::Tensor bounds = at::empty({kinds + 1}, options), starts = bounds.narrow(0, 0, kinds);
  compaction.coordinates(view_of(starts.view({kinds, 1}), "unique"), kinds);
  bounds.narrow(0, kinds, 1).fill_(n);
  return bounds.narrow(0, 1, kinds).sub(starts);
}

// Kinds of the rows of `keys` [n, columns]: neighbours only, or all in lexicographic order.
Unique unique_rows(const at::Tensor& keys, bool neighbours, bool return_inverse, bool return_counts) {
  const int64_t n = keys.size(0);
  const auto options = keys.options().dtype(at::kLong);
  Unique result{at::empty({0}, options), at::empty({0}, options), at::empty({0}, options)};
  if (n == 0) return result;
  dlprim::Queue& queue = current_queue(keys.device());
  at::Tensor order;
  if (neighbours) {
    order = at::arange(n, options);
  } else {
    order = at::empty({n}, options);
    const bool one = keys.size(1) == 1;
    if (one)
      dlprim::sort_order(queue, view_of(keys.view({1, n}), "unique"), view_of(order.view({1, n}), "unique"), false);
    else dlprim::sort_rows(queue, view_of(keys, "unique"), view_of(order, "unique"));
  }
  const at::Tensor heads = at::empty({n}, options.dtype(at::kBool));
  dlprim::run_heads(queue, view_of(keys, "unique"), view_of(order, "unique"), view_of(heads, "unique"));
  dlprim::Compaction compaction(queue, view_of(heads, "unique"));
  const int64_t kinds = compaction.count();
  result.rows = at::empty({kinds}, options);
  compaction.select(view_of(result.rows, "unique"), view_of(order, "unique"));
  if (return_inverse) {
    result.inverse = at::empty({n}, options);
    compaction.runs(view_of(result.inverse, "unique"), view_of(order, "unique"));
  }
  if (return_counts) result.counts = run_lengths(compaction, kinds, n, options);
  return result;
}

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Three unique_elements(const at::Tensor& self, bool neighbours, bool return_inverse, bool return_counts) {
  const at::Tensor keys = self.contiguous().view({-1});
  const int64_t n = keys.numel();
  const auto options = keys.options().dtype(at::kLong);
  at::Tensor inverse = at::empty({0}, options), counts = at::empty({0}, options);
  if (n == 0) return {at::empty({0}, keys.options()), return_inverse ? inverse.view(self.sizes()) : inverse, counts};
  dlprim::Queue& queue = current_queue(keys.device());
  at::Tensor sorted = keys;
  dlprim::TensorView order;  // only the inverse needs it
  at::Tensor places;
  if (!neighbours) {
    sorted = at::empty_like(keys);
    if (return_inverse) places = at::empty({1, n}, options), order = view_of(places, "unique");
    dlprim::sort_order(queue, view_of(keys.view({1, n}), "unique"), order, false,
                       view_of(sorted.view({1, n}), "unique"));
  }
  const at::Tensor heads = at::empty({n}, options.dtype(at::kBool));
  dlprim::run_heads(queue, view_of(sorted.view({n, 1}), "unique"), {}, view_of(heads, "unique"));
  dlprim::Compaction compaction(queue, view_of(heads, "unique"));
  const int64_t kinds = compaction.count();
  const at::Tensor values = at::empty({kinds}, keys.options());
  compaction.select(view_of(values, "unique"), view_of(sorted, "unique"));
  if (return_inverse) {
    inverse = at::empty({n}, options);
    compaction.runs(view_of(inverse, "unique"), order);
    inverse = inverse.view(self.sizes());
  }
  if (return_counts) counts = run_lengths(compaction, kinds, n, options);
  return {values, inverse, counts};
}

Three unique_slices(const at::Tensor& self, int64_t dim, bool neighbours, bool return_inverse, bool return_counts) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (self.numel() == 0) {
    TORCH_CHECK(self.dim() > 0 && self.size(dim) == 0,
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    const at::Tensor none = at::empty({0}, self.options().dtype(at::kLong));
    return {self.clone(), none, none};
  }
  const at::Tensor moved = self.movedim(dim, 0).contiguous();
  Unique u = unique_rows(moved.view({moved.size(0), -1}), neighbours, return_inverse, return_counts);
  return {self.index_select(dim, u.rows), u.inverse, u.counts};
}

void isin_kernel(const at::Tensor& elements, const at::Tensor& test_elements, bool invert, const at::Tensor& out) {
  const at::Tensor found = elements.unsqueeze(-1).eq(test_elements.reshape({-1})).any(-1);
  out.copy_(invert ? found.logical_not() : found);
}

}  // namespace

namespace ops {

Three _unique2(const at::Tensor& self, bool, bool return_inverse, bool return_counts) {
  return unique_elements(self, false, return_inverse, return_counts);
}

std::tuple<at::Tensor, at::Tensor> _unique(const at::Tensor& self, bool, bool return_inverse) {
  auto [values, inverse, counts] = unique_elements(self, false, return_inverse, false);
  return {values, inverse};
}

Three unique_dim(const at::Tensor& self, int64_t dim, bool, bool return_inverse, bool return_counts) {
  return unique_slices(self, dim, false, return_inverse, return_counts);
}

Three unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool return_inverse, bool return_counts) {
  return unique_slices(self, dim, true, return_inverse, return_counts);
}

Three unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  if (!dim || (self.dim() == 1 && *dim == 0)) return unique_elements(self, true, return_inverse, return_counts);
  return unique_slices(self, *dim, true, return_inverse, return_counts);
}

at::Tensor repeat_interleave_Tensor(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.size(0) == 0) return at::empty({0}, repeats.options());
  const at::Tensor ends = repeats.cumsum(0);
  if (!output_size) {
    TORCH_CHECK(repeats.min().item<int64_t>() >= 0, "repeats can not be negative");
    output_size = ends[-1].item<int64_t>();
  }
  const at::Tensor positions = at::arange(*output_size, ends.options());
  return at::searchsorted(ends, positions, false, true).to(repeats.scalar_type());
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(isin_default_stub, &pytorch_ocl::isin_kernel)
}
