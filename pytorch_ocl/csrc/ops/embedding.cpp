// SPDX-License-Identifier: MIT
// Gradients of embeddings, and bags of embeddings.
#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <dlprim/primitives/embedding.hpp>

#include "generated/functions/embedding.h"
#include "ops/index.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

bool given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

void check_bag(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, int64_t mode,
               const OptionalTensor& sample_weights) {
  TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2, "embedding_bag: input has to be a 1D or 2D Tensor, got ",
              indices.sizes());
  TORCH_CHECK(indices.dim() == 1, "embedding_bag: input beside offsets has to be a 1D Tensor, got ", indices.sizes());
  TORCH_CHECK(offsets.dim() == 1, "embedding_bag: offsets has to be a 1D Tensor, got ", offsets.sizes());
  for (const at::Tensor* tensor : {&indices, &offsets})
    TORCH_CHECK(tensor->scalar_type() == at::kLong || tensor->scalar_type() == at::kInt,
                "embedding_bag: expected indices and offsets of dtype Long or Int, got ", tensor->scalar_type());
  TORCH_CHECK(weight.dim() == 2, "embedding_bag: weight has to be a 2D Tensor, got ", weight.sizes());
  TORCH_CHECK(mode >= 0 && mode <= 2, "embedding_bag: expected mode 0 (sum), 1 (mean) or 2 (max), got ", mode);
  if (!given(sample_weights)) return;
  TORCH_CHECK(mode == 0, "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
                         "mode='sum'");
  TORCH_CHECK(sample_weights->sizes() == indices.sizes() && sample_weights->scalar_type() == weight.scalar_type(),
              "expected input to have the same shape as per_sample_weights and weight its dtype, got ", indices.sizes(),
              " and ", sample_weights->sizes());
}

// `wants_bags`: whether the second result, the bag of each index, is for the gradient's sake.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> bags_of_rows(
    const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, int64_t mode,
    const OptionalTensor& per_sample_weights, bool include_last_offset, int64_t padding_idx, bool wants_bags) {
  check_bag(weight, indices, offsets, mode, per_sample_weights);
  const at::ScalarType type = c10::promoteTypes(indices.scalar_type(), offsets.scalar_type());
  const at::Tensor rows = indices.to(type).contiguous(), starts = offsets.to(type).contiguous();
  const int64_t bags = std::max<int64_t>(offsets.size(0) - (include_last_offset ? 1 : 0), 0);
  const auto options = rows.options();
  // As many sizes as offsets, the last of no bag, as CUDA has them and torch.compile expects.
  const at::Tensor all_sizes = include_last_offset ? at::zeros_like(starts) : at::empty_like(starts);
  const at::Tensor out = at::empty({bags, weight.size(1)}, weight.options());
  const at::Tensor maxima = mode == 2 ? at::zeros({bags, weight.size(1)}, options) : at::empty({0}, options);
  if (bags == 0) return {out, at::zeros_like(rows), all_sizes, maxima};
  const at::Tensor bag_of = !wants_bags ? at::empty({0}, options)
                                        : at::searchsorted(starts.narrow(0, 0, bags), at::arange(rows.size(0), options),
                                                           type == at::kInt, true)
                                              .sub_(1);
  const at::Tensor dense = weight.contiguous(),
                   scales = given(per_sample_weights) ? per_sample_weights->contiguous() : at::Tensor();
  const at::Tensor sizes = all_sizes.narrow(0, 0, bags);
  const char* op = "embedding_bag";
  dlprim::EmbeddingBag bag{view_of(dense, op), view_of(rows, op),  view_of(starts, op), {},
                           view_of(out, op),   view_of(sizes, op), view_of(maxima, op)};
  if (scales.defined()) bag.sample_weights = view_of(scales, op);
  dlprim::embedding_bag(current_queue(weight.device()), bag, dlprim::BagMode(mode), padding_idx);
  return {out, bag_of, all_sizes, maxima};
}

}  // namespace

at::Tensor embedding_dense_backward(const at::Tensor& grad_output, const at::Tensor& indices, int64_t num_weights,
                                    int64_t padding_idx, bool scale_grad_by_freq) {
  const char* op = "embedding_dense_backward";
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt, op,
              ": expected indices of dtype int64 or int32, got ", indices.scalar_type());
  const int64_t columns = grad_output.size(-1), count = indices.numel();
  const at::Tensor rows = indices.reshape({count});
  const std::optional<int64_t> ignore = padding_idx >= 0 ? std::optional(padding_idx) : std::nullopt;
  at::Tensor grad = grad_output.reshape({count, columns});
  if (scale_grad_by_freq && count > 0) {
    const at::Tensor frequency = at::zeros({num_weights}, grad.options().dtype(at::kFloat));
    update_slices(frequency, 0, rows, at::ones({count}, frequency.options()), dlprim::Update::add, op);
    grad = grad.div(frequency.index_select(0, rows).to(grad.scalar_type()).unsqueeze(1));
  }
  const bool wide = c10::isReducedFloatingType(grad.scalar_type());
  const at::Tensor sums = at::zeros({num_weights, columns}, wide ? grad.options().dtype(at::kFloat) : grad.options());
  update_slices(sums, 0, rows, grad, dlprim::Update::add, op, ignore);
  return wide ? sums.to(grad.scalar_type()) : sums;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _embedding_bag(
    const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool, int64_t mode, bool,
    const OptionalTensor& per_sample_weights, bool include_last_offset, int64_t padding_idx) {
  return bags_of_rows(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, true);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _embedding_bag_forward_only(
    const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool, int64_t mode, bool,
    const OptionalTensor& per_sample_weights, bool include_last_offset, int64_t padding_idx) {
  return bags_of_rows(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, false);
}

at::Tensor _embedding_bag_dense_backward(const at::Tensor& grad, const at::Tensor& indices,
                                         const at::Tensor& offset2bag, const at::Tensor& bag_size,
                                         const at::Tensor& maximum_indices, int64_t num_weights,
                                         bool scale_grad_by_freq, int64_t mode,
                                         const OptionalTensor& per_sample_weights, int64_t padding_idx) {
  const at::Tensor sizes = bag_size.narrow(0, 0, grad.size(0)).unsqueeze(1);
  if (mode == 2) {
    const at::Tensor filled = grad.masked_fill(sizes.eq(0), 0);
    at::Tensor out = at::zeros({num_weights, grad.size(1)}, grad.options());
    return grad.numel() == 0 ? out : out.scatter_add_(0, maximum_indices.to(at::kLong), filled);
  }
  at::Tensor bags = grad;
  if (mode == 1) bags = grad.div(sizes.clamp_min(1).to(grad.scalar_type()));
  at::Tensor rows = bags.index_select(0, offset2bag);
  if (given(per_sample_weights)) rows = rows.mul(per_sample_weights->unsqueeze(1));
  return embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq);
}

at::Tensor _embedding_bag_per_sample_weights_backward(const at::Tensor& grad, const at::Tensor& weight,
                                                      const at::Tensor& indices, const at::Tensor&,
                                                      const at::Tensor& offset2bag, int64_t mode, int64_t padding_idx) {
  TORCH_CHECK(mode == 0, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  const at::Tensor products = grad.index_select(0, offset2bag).mul(weight.index_select(0, indices)).sum(1);
  return padding_idx >= 0 ? products.masked_fill(indices.eq(padding_idx), 0) : products;
}

// A row named twice is written twice, with the same values.
at::Tensor& embedding_renorm_(at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type) {
  TORCH_CHECK(self.dim() == 2, "embedding_renorm_: expected a weight of 2 dims, got ", self.dim());
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
              "embedding_renorm_: expected indices of dtype Long or Int, got ", indices.scalar_type());
  if (indices.numel() == 0) return self;
  const at::Tensor rows = indices.reshape({-1}).to(at::kLong);
  return self.index_copy_(0, rows, self.index_select(0, rows).renorm_(norm_type, 0, max_norm));
}

}  // namespace pytorch_ocl::ops
