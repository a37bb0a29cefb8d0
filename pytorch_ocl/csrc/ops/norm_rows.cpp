// SPDX-License-Identifier: MIT
// Layer, group and root-mean-square normalization.
#include <ATen/OpMathType.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <dlprim/primitives/norm.hpp>

#include <limits>

#include "generated/functions/norm.h"
#include "ops/many_dims.hpp"
#include "ops/norm.hpp"

namespace pytorch_ocl {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using dlprim::GroupShape;

// As dlprim takes it, which goes by a GroupShape alone.
dlprim::TensorView numbers_of(const Tensor& x, const char* op) {
  return x.defined() ? view_of(flattened(x), op) : dlprim::TensorView{};
}

struct Saved {
  Tensor mean, rstd;
};

void check_parameter(const char* op, const char* name, const Tensor& tensor, at::IntArrayRef expected) {
  TORCH_CHECK(!tensor.defined() || tensor.sizes() == expected, op, ": expected ", name, " of sizes ", expected,
              ", got ", tensor.defined() ? tensor.sizes() : at::IntArrayRef());
}

// Rows of a layer or RMS norm over the last dims.
GroupShape layer_shape(const char* op, const Tensor& input, at::IntArrayRef normalized, double eps, bool center) {
  const int64_t dims = int64_t(normalized.size());
  TORCH_CHECK(dims > 0 && input.dim() >= dims && input.sizes().slice(size_t(input.dim() - dims)) == normalized,
              "Given normalized_shape=", normalized, ", expected input with shape [*, ", normalized,
              "], but got input of size", input.sizes(), " (", op, ")");
  int64_t channels = 1;
  for (int64_t size : normalized) channels *= size;
  return {channels ? input.numel() / channels : 0, channels, 1, 1, center, eps};
}

std::vector<int64_t> statistics_sizes(const Tensor& input, at::IntArrayRef normalized) {
  std::vector<int64_t> sizes = input.sizes().vec();
  for (size_t d = sizes.size() - normalized.size(); d < sizes.size(); d++) sizes[d] = 1;
  return sizes;
}

Tensor forward(const char* op, const GroupShape& shape, const Tensor& input, const Tensor& weight, const Tensor& bias,
               const Saved& saved) {
  const Tensor x = input.contiguous(), y = at::empty_like(x);
  const at::ScalarType type = statistics_type(input, weight.defined() ? weight : bias);
  const Tensor w = parameter(weight, type), b = parameter(bias, type);
  dlprim::group_norm(current_queue(), shape, numbers_of(y, op), numbers_of(saved.mean, op), numbers_of(saved.rstd, op),
                     numbers_of(x, op), numbers_of(w, op), numbers_of(b, op));
  return y;
}

std::tuple<Tensor, Tensor, Tensor> backward(const char* op, const GroupShape& shape, const Tensor& grad_out,
                                            const Tensor& input, const Saved& saved, const Tensor& weight,
                                            at::IntArrayRef parameter_sizes, std::array<bool, 3> mask) {
  const Tensor x = input.contiguous(), gy = grad_out.contiguous();
  const Tensor mean = saved.mean.defined() ? saved.mean.contiguous() : Tensor(), rstd = saved.rstd.contiguous();
  const at::ScalarType type = statistics_type(input, weight);
  Tensor gx, grad_weight, grad_bias;
  const bool sums = mask[1] || mask[2];
  if (sums)
    grad_weight = at::empty(parameter_sizes, input.options().dtype(type)), grad_bias = at::empty_like(grad_weight);
  if (mask[0]) {
    gx = at::empty_like(x);
    const Tensor w = parameter(weight, type);
    dlprim::group_norm_backward(current_queue(), shape, numbers_of(gx, op), numbers_of(gy, op), numbers_of(x, op),
                                numbers_of(mean, op), numbers_of(rstd, op), numbers_of(w, op),
                                numbers_of(grad_weight, op), numbers_of(grad_bias, op));
  } else if (sums) {
    dlprim::group_norm_sums(current_queue(), shape, numbers_of(grad_weight, op), numbers_of(grad_bias, op),
                            numbers_of(gy, op), numbers_of(x, op), numbers_of(mean, op), numbers_of(rstd, op));
  }
  return {gx, mask[1] ? grad_weight : Tensor(), mask[2] ? grad_bias : Tensor()};
}

}  // namespace

namespace ops {

std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Tensor& input, at::IntArrayRef normalized_shape,
                                                     const OptionalTensor& weight, const OptionalTensor& bias,
                                                     double eps) {
  at::native::_check_layer_norm_inputs(input, normalized_shape, value(weight), value(bias));
  const GroupShape shape = layer_shape("layer_norm", input, normalized_shape, eps, true);
  const auto type = at::toOpMathType(input.scalar_type());
  const Tensor mean = at::empty(statistics_sizes(input, normalized_shape), input.options().dtype(type));
  const Saved saved{mean, at::empty_like(mean)};
  return {forward("layer_norm", shape, input, value(weight), value(bias), saved), saved.mean, saved.rstd};
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_backward(const Tensor& grad_out, const Tensor& input,
                                                              at::IntArrayRef normalized_shape, const Tensor& mean,
                                                              const Tensor& rstd, const OptionalTensor& weight,
                                                              const OptionalTensor&, std::array<bool, 3> output_mask) {
  const GroupShape shape = layer_shape("layer_norm_backward", input, normalized_shape, 0, true);
  return backward("layer_norm_backward", shape, grad_out, input, {mean, rstd}, value(weight), normalized_shape,
                  output_mask);
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm(const Tensor& input, const OptionalTensor& weight,
                                                     const OptionalTensor& bias, int64_t N, int64_t C, int64_t HxW,
                                                     int64_t group, double eps) {
  TORCH_CHECK(group > 0 && C % group == 0,
              "group_norm: expected the number of channels to be divisible by num_groups, got ", C, " channels and ",
              group, " groups");
  TORCH_CHECK(input.numel() == N * C * HxW, "group_norm: expected input of ", N * C * HxW, " elements, got ",
              input.numel());
  check_parameter("group_norm", "weight", value(weight), C);
  check_parameter("group_norm", "bias", value(bias), C);
  const auto type = statistics_type(input, weight ? *weight : value(bias));
  const Tensor mean = at::empty({N, group}, input.options().dtype(type));
  const Saved saved{mean, at::empty_like(mean)};
  const GroupShape shape{N, C, HxW, group, true, eps};
  return {forward("group_norm", shape, input, value(weight), value(bias), saved), saved.mean, saved.rstd};
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm_backward(const Tensor& grad_out, const Tensor& input,
                                                              const Tensor& mean, const Tensor& rstd,
                                                              const OptionalTensor& weight, int64_t N, int64_t C,
                                                              int64_t HxW, int64_t group,
                                                              std::array<bool, 3> output_mask) {
  const GroupShape shape{N, C, HxW, group, true, 0};
  return backward("group_norm_backward", shape, grad_out, input, {mean, rstd}, value(weight), C, output_mask);
}

std::tuple<Tensor, Tensor> _fused_rms_norm(const Tensor& input, at::IntArrayRef normalized_shape,
                                           const OptionalTensor& weight, std::optional<double> eps) {
  const bool wide = input.scalar_type() == at::kDouble;
  const double small = wide ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const GroupShape shape = layer_shape("rms_norm", input, normalized_shape, eps.value_or(small), false);
  check_parameter("rms_norm", "weight", value(weight), normalized_shape);
  const Tensor rstd =
      at::empty(statistics_sizes(input, normalized_shape), input.options().dtype(wide ? at::kDouble : at::kFloat));
  return {forward("rms_norm", shape, input, value(weight), {}, {{}, rstd}), rstd};
}

std::tuple<Tensor, Tensor> _fused_rms_norm_backward(const Tensor& grad_out, const Tensor& input,
                                                    at::IntArrayRef normalized_shape, const Tensor& rstd,
                                                    const OptionalTensor& weight, std::array<bool, 2> output_mask) {
  const GroupShape shape = layer_shape("rms_norm_backward", input, normalized_shape, 0, false);
  auto [gx, grad_weight, unused] = backward("rms_norm_backward", shape, grad_out, input, {{}, rstd}, value(weight),
                                            normalized_shape, {output_mask[0], output_mask[1], false});
  return {gx, grad_weight};
}

}  // namespace ops

}  // namespace pytorch_ocl
