// SPDX-License-Identifier: MIT
// torchvision's deformable convolution: columns of shifted positions times the weights, some images at a time.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <dlprim/primitives/deform_conv.hpp>

#include "ops/vision.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::vision {

namespace {

constexpr int64_t most_columns = int64_t(256) << 20;  // bytes at a time

// A call's tensors, contiguous, and its numbers.
struct Problem {
  Tensor input, weight, offset, mask;
  dlprim::Deformation how;
  int64_t groups, out_height, out_width;

  int64_t batch() const { return input.size(0); }
  int64_t rows() const { return input.size(1) * how.kernel[0] * how.kernel[1]; }
  int64_t places() const { return out_height * out_width; }
  // Images whose columns are made at a time.
  int64_t step() const {
    const int64_t bytes = rows() * places() * int64_t(input.element_size());
    return std::clamp<int64_t>(most_columns / std::max<int64_t>(bytes, 1), 1, std::max<int64_t>(batch(), 1));
  }
  // [1, groups, out channels of a group, rows of a group]
  Tensor weights() const { return weight.reshape({1, groups, weight.size(0) / groups, rows() / groups}); }
  dlprim::DeformedImage image(int64_t first, int64_t count) const {
    auto part = [&](const Tensor& t) { return view_of(t.narrow(0, first, count), "deform_conv2d"); };
    return {part(input), part(offset), mask.defined() ? part(mask) : dlprim::TensorView()};
  }
};

void check_types(const Tensor& input, std::initializer_list<const Tensor*> others) {
  TORCH_CHECK(at::isFloatingType(input.scalar_type()), "\"deform_conv2d\" not implemented for '", input.scalar_type(),
              "'");
  for (const Tensor* other : others)
    TORCH_CHECK(other->scalar_type() == input.scalar_type(), "deform_conv2d: expected all tensors to have dtype ",
                input.scalar_type(), ", got ", other->scalar_type());
}

Problem problem(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask, const Tensor& bias,
                const dlprim::Deformation& numbers, int64_t groups, int64_t offset_groups, bool use_mask) {
  TORCH_CHECK(input.dim() == 4 && offset.dim() == 4 && weight.dim() == 4 && (!use_mask || mask.dim() == 4),
              "deform_conv2d: expected input, offset, weight and mask of 4 dims, got ", input.sizes(), ", ",
              offset.sizes(), ", ", weight.sizes(), " and ", mask.sizes());
  check_types(input, {&weight, &offset, &bias});
  if (use_mask) check_types(input, {&mask});
  Problem p{input.contiguous(),
            weight.contiguous(),
            offset.contiguous(),
            use_mask ? mask.contiguous() : Tensor(),
            numbers,
            groups,
            0,
            0};
  int64_t out[2];
  for (int d = 0; d < 2; d++) {
    p.how.kernel[d] = weight.size(2 + d);
    TORCH_CHECK(p.how.kernel[d] > 0, "weight_h: ", weight.size(2), " weight_w: ", weight.size(3));
    TORCH_CHECK(p.how.stride[d] > 0, "stride_h: ", p.how.stride[0], " stride_w: ", p.how.stride[1]);
    TORCH_CHECK(p.how.pad[d] >= 0, "pad_h: ", p.how.pad[0], " pad_w: ", p.how.pad[1]);
    TORCH_CHECK(p.how.dilation[d] > 0, "dil_h: ", p.how.dilation[0], " dil_w: ", p.how.dilation[1]);
    const int64_t reach = p.how.dilation[d] * (p.how.kernel[d] - 1) + 1;
    out[d] = (input.size(2 + d) + 2 * p.how.pad[d] - reach) / p.how.stride[d] + 1;
  }
  p.out_height = out[0], p.out_width = out[1];
  const int64_t taps = p.how.kernel[0] * p.how.kernel[1];
  TORCH_CHECK(
      groups > 0 && weight.size(1) * groups == input.size(1) && weight.size(0) % groups == 0,
      "deform_conv2d: expected input channels of groups * weight.size(1) and a multiple of groups weights, got ",
      input.size(1), " channels, ", groups, " groups and weight ", weight.sizes());
  TORCH_CHECK(offset_groups > 0 && input.size(1) % offset_groups == 0,
              "deform_conv2d: expected input channels that offset_groups divides, got ", input.size(1), " and ",
              offset_groups);
  TORCH_CHECK(offset.size(1) == offset_groups * 2 * taps, "offset.shape[1] is not valid: got: ", offset.size(1),
              " expected: ", offset_groups * 2 * taps);
  TORCH_CHECK(out[0] > 0 && out[1] > 0, "Calculated output size too small - out_h: ", out[0], " out_w: ", out[1]);
  TORCH_CHECK(offset.size(0) == input.size(0) && offset.size(2) == out[0] && offset.size(3) == out[1],
              "offset output dims: (", offset.size(2), ", ", offset.size(3), ") - computed output dims: (", out[0],
              ", ", out[1], "), of ", input.size(0), " images, got ", offset.size(0));
  TORCH_CHECK(!use_mask || (mask.size(0) == input.size(0) && mask.size(1) == offset_groups * taps &&
                            mask.size(2) == out[0] && mask.size(3) == out[1]),
              "deform_conv2d: expected a mask of ", input.size(0), " x ", offset_groups * taps, " x ", out[0], " x ",
              out[1], ", got ", mask.sizes());
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == weight.size(0), "deform_conv2d: expected a bias of ", weight.size(0),
              " elements, got ", bias.sizes());
  return p;
}

Tensor columns_of(const Problem& p, int64_t first, int64_t count) {
  const Tensor columns = at::empty({count, p.rows(), p.places()}, p.input.options());
  dlprim::deformed_columns(current_queue(p.input.device()), p.image(first, count), view_of(columns), p.how);
  return columns.view({count, p.groups, p.rows() / p.groups, p.places()});
}

}  // namespace

Tensor deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                     const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
                     int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const Problem p = problem(input, weight, offset, mask, bias,
                            {{1, 1}, {stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}}, groups,
                            offset_groups, use_mask);
  const Tensor out = at::empty({p.batch(), weight.size(0), p.out_height, p.out_width}, input.options());
  if (out.numel() == 0) return out;
  for (int64_t first = 0; first < p.batch(); first += p.step()) {
    const int64_t count = std::min(p.step(), p.batch() - first);
    out.narrow(0, first, count)
        .copy_(at::matmul(p.weights(), columns_of(p, first, count))
                   .view({count, weight.size(0), p.out_height, p.out_width}));
  }
  return out.add_(bias.view({1, -1, 1, 1}));
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> deform_conv2d_backward(
    const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
    const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h,
    int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const char* op = "deform_conv2d_backward";
  at::globalContext().alertNotDeterministic("deform_conv2d_backward_ocl");
  const Problem p = problem(input, weight, offset, mask, bias,
                            {{1, 1}, {stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}}, groups,
                            offset_groups, use_mask);
  TORCH_CHECK(grad.sizes() == at::IntArrayRef({p.batch(), weight.size(0), p.out_height, p.out_width}), op,
              ": expected a gradient of the result's shape, got ", grad.sizes());
  const auto type = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor sums = at::zeros(input.sizes(), input.options().dtype(type)), grad_weight = at::zeros_like(weight);
  const Tensor grad_offset = at::zeros_like(p.offset),
               grad_mask = use_mask ? at::zeros_like(p.mask) : at::zeros_like(mask);
  const Tensor all = grad.contiguous();
  for (int64_t first = 0; all.numel() > 0 && first < p.batch(); first += p.step()) {
    const int64_t count = std::min(p.step(), p.batch() - first);
    auto part = [&](const Tensor& t) { return view_of(t.narrow(0, first, count), op); };
    const Tensor g = all.narrow(0, first, count).reshape({count, groups, weight.size(0) / groups, p.places()});
    grad_weight.add_(at::matmul(g, columns_of(p, first, count).transpose(2, 3)).sum(0).view_as(weight));
    const Tensor columns = at::matmul(p.weights().transpose(2, 3), g).view({count, p.rows(), p.places()});
    dlprim::deformed_columns_backward(current_queue(input.device()), view_of(columns, op), p.image(first, count),
                                      part(sums), part(grad_offset), use_mask ? part(grad_mask) : dlprim::TensorView(),
                                      p.how);
  }
  return {sums.to(input.scalar_type()), grad_weight, grad_offset, grad_mask, all.sum({0, 2, 3})};
}

}  // namespace pytorch_ocl::vision
