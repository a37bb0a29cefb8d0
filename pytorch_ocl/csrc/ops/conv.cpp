// SPDX-License-Identifier: MIT
// Convolution and its gradients, transposed or not; PyTorch has checked the shapes. The operators named after an
// algorithm of the CPU or of CUDA are convolutions like any other here.
#include <ATen/native/ConvUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/conv.hpp>
#include <torch/library.h>

#include "generated/functions/conv.h"
#include "generated/structured/slow_conv_transpose2d_out.h"
#include "ops/epilogue.hpp"
#include "ops/precision.hpp"
#include "runtime/errors.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

dlprim::ConvOptions conv_options(at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                 int64_t groups) {
  dlprim::ConvOptions options;
  std::copy(stride.begin(), stride.end(), options.stride.begin());
  std::copy(padding.begin(), padding.end(), options.padding.begin());
  std::copy(dilation.begin(), dilation.end(), options.dilation.begin());
  options.groups = groups, options.allow_tf32 = allows_tf32();
  return options;
}

void check(const at::Tensor& input, const at::Tensor& weight) {
  TORCH_CHECK(input.dim() >= 3 && input.dim() <= 5, "convolution: expected 1 to 3 spatial dimensions, got ",
              input.dim() - 2);
  TORCH_CHECK_NOT_IMPLEMENTED(input.scalar_type() != at::kBool, "convolution: not implemented for 'Bool'");
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
              weight.toString(), ") should be the same");
}

// Channels last where an operand is stored so, as other backends answer.
at::MemoryFormat format_of(const at::Tensor& a, const at::Tensor& b) {
  const auto format = a.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? b.suggest_memory_format() : format;
}

// Copies what has one element for many positions, as the gradient of a sum has, where kernels want rows of memory:
// those for CPUs, and for groups; others copy in their own ways.
at::Tensor in_rows(dlprim::Queue& queue, const at::Tensor& images, int64_t groups, at::MemoryFormat format) {
  const bool wanted = groups > 1 || queue.device().info().cpu;
  for (int64_t i = 0; i < images.dim() && wanted; i++)
    if (images.size(i) > 1 && images.stride(i) == 0) return images.contiguous(format);
  return images;
}

at::Tensor empty(at::IntArrayRef sizes, const at::Tensor& like, at::MemoryFormat format) {
  return at::empty(sizes, like.options().memory_format(std::nullopt), format);
}

dlprim::TensorView view_or_none(const at::Tensor& tensor) {
  return tensor.defined() ? view_of(tensor, "convolution") : dlprim::TensorView();
}

// One image without a batch is taken, too.
at::Tensor convolve(const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef kernel_size,
                    const std::optional<at::Tensor>& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                    at::IntArrayRef dilation, bool transposed = false, at::IntArrayRef output_padding = {0}) {
  TORCH_CHECK(weight.dim() >= 3 && weight.sizes().slice(2) == kernel_size,
              "convolution: expected a weight of kernel size ", kernel_size, ", got a weight of ", weight.sizes());
  const bool batch = input.dim() == weight.dim();
  const at::Tensor output = at::convolution(batch ? input : input.unsqueeze(0), weight, bias, stride, padding, dilation,
                                            transposed, output_padding, 1);
  return batch ? output : output.squeeze(0);
}

at::Tensor& give(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

// activation(convolution + residual) for compiled graphs; a residual has the result's shape.
at::Tensor convolution_activation(const at::Tensor& input, const at::Tensor& weight,
                                  const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                  at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                                  const std::optional<at::Tensor>& residual, c10::string_view activation) {
  const char* op = "convolution_activation";
  check(input, weight);
  for (const std::optional<at::Tensor>& other : {std::optional(weight), bias, residual})
    TORCH_CHECK(!other || (other->device() == input.device() && other->scalar_type() == input.scalar_type()), op,
                ": expected tensors of one dtype on one device");
  const c10::DeviceGuard guard(input.device());
  const auto sizes = at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  TORCH_CHECK(!residual || residual->sizes() == sizes, op, ": expected a residual of ", sizes);
  const at::Tensor output = empty(sizes, input, format_of(input, weight));
  translated([&] {
    dlprim::conv_forward(current_queue(input.device()), view_of(input), view_of(weight),
                         view_or_none(bias.value_or(at::Tensor())), view_of(output),
                         conv_options(stride, padding, dilation, groups), activation_of(op, activation),
                         view_or_none(residual.value_or(at::Tensor())));
  });
  return output;
}

}  // namespace

void structured_slow_conv_transpose2d_out::impl(const at::Tensor& self, const at::Tensor& weight,
                                                at::IntArrayRef kernel_size, at::OptionalTensorRef bias,
                                                at::IntArrayRef stride, at::IntArrayRef padding,
                                                at::IntArrayRef output_padding, at::IntArrayRef dilation,
                                                const at::Tensor& out) {
  const auto added = bias.has_value() ? std::optional<at::Tensor>(*bias) : std::nullopt;
  out.copy_(convolve(self, weight, kernel_size, added, stride, padding, dilation, true, output_padding));
}

at::Tensor ops::slow_conv_transpose3d(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel_size,
                                      const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                      at::IntArrayRef padding, at::IntArrayRef output_padding,
                                      at::IntArrayRef dilation) {
  return convolve(self, weight, kernel_size, bias, stride, padding, dilation, true, output_padding);
}

at::Tensor& ops::slow_conv_transpose3d_out(const at::Tensor& self, const at::Tensor& weight,
                                           at::IntArrayRef kernel_size, const std::optional<at::Tensor>& bias,
                                           at::IntArrayRef stride, at::IntArrayRef padding,
                                           at::IntArrayRef output_padding, at::IntArrayRef dilation, at::Tensor& out) {
  return give(convolve(self, weight, kernel_size, bias, stride, padding, dilation, true, output_padding), out);
}

at::Tensor ops::slow_conv_dilated2d(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel_size,
                                    const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                    at::IntArrayRef padding, at::IntArrayRef dilation) {
  return convolve(self, weight, kernel_size, bias, stride, padding, dilation);
}

at::Tensor ops::slow_conv_dilated3d(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel_size,
                                    const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                    at::IntArrayRef padding, at::IntArrayRef dilation) {
  return convolve(self, weight, kernel_size, bias, stride, padding, dilation);
}

at::Tensor ops::_slow_conv2d_forward(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel_size,
                                     const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                     at::IntArrayRef padding) {
  TORCH_CHECK(self.dim() == 4, "Expected 4D input tensor, but got: ", self.sizes());
  return convolve(self, weight, kernel_size, bias, stride, padding, {1, 1});
}

at::Tensor& ops::_slow_conv2d_forward_output(const at::Tensor& self, const at::Tensor& weight,
                                             at::IntArrayRef kernel_size, const std::optional<at::Tensor>& bias,
                                             at::IntArrayRef stride, at::IntArrayRef padding, at::Tensor& output) {
  return give(_slow_conv2d_forward(self, weight, kernel_size, bias, stride, padding), output);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> ops::_slow_conv2d_backward_output_mask(
    const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef,
    at::IntArrayRef stride, at::IntArrayRef padding, std::array<bool, 3> output_mask) {
  return at::convolution_backward(grad_output, self, weight, std::nullopt, stride, padding, {1, 1}, false, {0, 0}, 1,
                                  output_mask);
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> ops::_slow_conv2d_backward_grad_input(
    const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel_size,
    at::IntArrayRef stride, at::IntArrayRef padding, at::Tensor& grad_input, at::Tensor& grad_weight,
    at::Tensor& grad_bias) {
  const auto [of_input, of_weight, of_bias] =
      _slow_conv2d_backward_output_mask(grad_output, self, weight, kernel_size, stride, padding, {true, true, true});
  return {give(of_input, grad_input), give(of_weight, grad_weight), give(of_bias, grad_bias)};
}

at::Tensor ops::convolution_overrideable(const at::Tensor& input, const at::Tensor& weight,
                                         const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                         at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                         at::IntArrayRef output_padding, int64_t groups) {
  check(input, weight);
  const auto options = conv_options(stride, padding, dilation, groups);
  const auto sizes = transposed
                         ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride,
                                                       dilation, groups)
                         : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  auto& queue = current_queue(input.device());
  const auto format = format_of(input, weight);
  const at::Tensor output = empty(sizes, input, format), images = in_rows(queue, input, groups, format);
  const at::Tensor added = bias.value_or(at::Tensor());
  TORCH_CHECK(!added.defined() || added.scalar_type() == input.scalar_type(), "Input type (", input.toString(),
              ") and bias type (", added.toString(), ") should be the same");
  if (transposed)
    dlprim::conv_backward_data(queue, view_of(images), view_of(weight), view_or_none(added), view_of(output), options);
  else dlprim::conv_forward(queue, view_of(images), view_of(weight), view_or_none(added), view_of(output), options);
  return output;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> ops::convolution_backward_overrideable(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef, int64_t groups,
    std::array<bool, 3> output_mask) {
  check(input, weight);
  check(grad_output, weight);
  const auto options = conv_options(stride, padding, dilation, groups);
  auto& queue = current_queue(input.device());
  const auto format = format_of(input, weight);
  const at::Tensor images = in_rows(queue, input, groups, format),
                   gradient = in_rows(queue, grad_output, groups, format);
  at::Tensor grad_input, grad_weight, grad_bias;
  if (output_mask[0]) {
    grad_input = empty(input.sizes(), input, format);
    if (transposed) dlprim::conv_forward(queue, view_of(gradient), view_of(weight), {}, view_of(grad_input), options);
    else dlprim::conv_backward_data(queue, view_of(gradient), view_of(weight), {}, view_of(grad_input), options);
  }
  if (output_mask[1]) {
    grad_weight = empty(weight.sizes(), weight, format_of(weight, weight));
    dlprim::conv_backward_weights(queue, view_of(transposed ? gradient : images),
                                  view_of(transposed ? images : gradient), view_of(grad_weight), options);
  }
  if (output_mask[2]) {
    grad_bias = at::empty({grad_output.size(1)}, grad_output.options());
    dlprim::conv_backward_bias(queue, view_of(gradient), view_of(grad_bias));
  }
  return {grad_input, grad_weight, grad_bias};
}

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def(
      "convolution_activation(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
      "int groups, Tensor? residual, str activation) -> Tensor");
}

TORCH_LIBRARY_IMPL(pytorch_ocl, PrivateUse1, m) { m.impl("convolution_activation", &convolution_activation); }

}  // namespace pytorch_ocl
