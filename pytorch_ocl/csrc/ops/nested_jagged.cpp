// SPDX-License-Identifier: MIT
// Jagged nested tensors: rows of different lengths, one after the other, made rows of one length and back.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>

#include "generated/functions/nested_jagged.h"

namespace pytorch_ocl::ops {

namespace {

at::Tensor only(const char* op, at::TensorList offsets) {
  TORCH_CHECK(offsets.size() == 1, op, ": only a single jagged dim is supported, got ", offsets.size());
  TORCH_CHECK(offsets[0].dim() == 1 && offsets[0].numel() > 0, op, ": expected offsets of 1 dim, got ",
              offsets[0].sizes());
  TORCH_CHECK(offsets[0].scalar_type() == at::kLong || offsets[0].scalar_type() == at::kInt, op,
              ": expected offsets of dtype Long or Int, got ", offsets[0].scalar_type());
  return offsets[0].to(at::kLong);
}

// A mask of leading dimensions as it applies to `like`.
at::Tensor before(const at::Tensor& mask, const at::Tensor& like) {
  std::vector<int64_t> view = mask.sizes().vec();
  view.resize(std::size_t(like.dim()), 1);
  return mask.view(view);
}

}  // namespace

at::Tensor _jagged_to_padded_dense_forward_symint(const at::Tensor& values, at::TensorList offsets,
                                                  c10::SymIntArrayRef max_lengths, double padding_value) {
  const char* op = "_jagged_to_padded_dense_forward";
  const at::Tensor starts = only(op, offsets);
  TORCH_CHECK(max_lengths.size() == 1, op, ": expected one maximal length, got ", max_lengths.size());
  TORCH_CHECK(values.dim() > 0, op, ": expected values of at least 1 dim");
  const int64_t batch = starts.size(0) - 1, length = max_lengths[0].guard_int(__FILE__, __LINE__);
  TORCH_CHECK(length >= 0, op, ": expected a maximal length of at least 0, got ", length);
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes[0] = length;
  sizes.insert(sizes.begin(), batch);
  if (values.numel() == 0 || batch == 0 || length == 0) return at::full(sizes, padding_value, values.options());
  const at::Tensor place = at::arange(length, starts.options()).add(starts.narrow(0, 0, batch).unsqueeze(1));
  const at::Tensor beyond = place.ge(starts.narrow(0, 1, batch).unsqueeze(1));
  const at::Tensor rows = values.index_select(0, place.clamp(0, values.size(0) - 1).view({-1})).view(sizes);
  return rows.masked_fill(before(beyond, rows), padding_value);
}

at::Tensor _padded_dense_to_jagged_forward_symint(const at::Tensor& dense, at::TensorList offsets,
                                                  std::optional<c10::SymInt> total_L) {
  const char* op = "_padded_dense_to_jagged_forward";
  const at::Tensor starts = only(op, offsets);
  TORCH_CHECK(dense.dim() > 1, op, ": expected a dense tensor of at least 2 dims, got ", dense.dim());
  TORCH_CHECK(dense.size(0) == starts.size(0) - 1, op, ": expected ", starts.size(0) - 1, " rows, got ", dense.size(0));
  const int64_t total =
      total_L ? total_L->guard_int(__FILE__, __LINE__) : starts.select(0, starts.size(0) - 1).item<int64_t>();
  std::vector<int64_t> sizes = dense.sizes().slice(1).vec();
  sizes[0] = total;
  const int64_t batch = dense.size(0), length = dense.size(1);
  if (c10::multiply_integers(sizes) == 0 || dense.numel() == 0) return at::zeros(sizes, dense.options());
  const at::Tensor place = at::arange(total, starts.options());
  const at::Tensor row =
      at::searchsorted(starts.narrow(0, 1, batch).contiguous(), place, false, /*right=*/true).clamp_max(batch - 1);
  const at::Tensor within = place.sub(starts.index_select(0, row));
  const at::Tensor beyond =
      within.lt(0).logical_or_(within.ge(length)).logical_or_(place.ge(starts.narrow(0, batch, 1)));
  const at::Tensor flat = row.mul(length).add_(within.clamp(0, length - 1));
  const at::Tensor values = dense.flatten(0, 1).index_select(0, flat);
  return values.masked_fill(before(beyond, values), 0);
}

}  // namespace pytorch_ocl::ops
