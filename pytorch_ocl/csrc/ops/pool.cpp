// SPDX-License-Identifier: MIT
// Sliding pooling: maximum and average over windows, in two and three dimensions.
#include <ATen/native/Pool.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <dlprim/primitives/pool.hpp>

#include "generated/functions/pool.h"
#include "generated/structured/avg_pool2d_backward_grad_input.h"
#include "generated/structured/avg_pool2d_out.h"
#include "generated/structured/avg_pool3d_backward_grad_input.h"
#include "generated/structured/avg_pool3d_out.h"
#include "generated/structured/max_pool2d_with_indices_backward_grad_input.h"
#include "generated/structured/max_pool2d_with_indices_out.h"
#include "max_pooling.hpp"

namespace pytorch_ocl {

namespace {

// Arguments of one or `axes` numbers, as the last axes of d, h, w.
void set_axes(std::array<int, 3>& values, at::IntArrayRef given, int axes) {
  for (int axis = 0; axis < axes; axis++)
    values[std::size_t(3 - axes + axis)] = int(given.size() == 1 ? given[0] : given[std::size_t(axis)]);
}

dlprim::PoolWindow sliding(int axes, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                           at::IntArrayRef dilation = 1) {
  dlprim::PoolWindow window;
  set_axes(window.kernel, kernel, axes);
  set_axes(window.stride, stride.empty() ? kernel : stride, axes);
  set_axes(window.pad, padding, axes);
  set_axes(window.dilation, dilation, axes);
  return window;
}

dlprim::PoolWindow average(int axes, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                           bool count_include_pad, std::optional<int64_t> divisor) {
  TORCH_CHECK(divisor.value_or(1) != 0, "divisor must be not zero");
  dlprim::PoolWindow window = sliding(axes, kernel, stride, padding);
  window.count_include_pad = count_include_pad;
  window.divisor = int(divisor.value_or(0));
  return window;
}

// Sizes of max_pool3d's results, with PyTorch's checks.
std::vector<int64_t> max_pool3d_sizes(const at::Tensor& self, const dlprim::PoolWindow& window, bool ceil_mode) {
  const auto& [kernel, stride, pad, dilation] = std::tie(window.kernel, window.stride, window.pad, window.dilation);
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "max_pool3d: Expected 4D or 5D tensor, got ", self.sizes());
  std::array<int64_t, 3> in{}, out{};
  for (int axis = 0; axis < 3; axis++) {
    const auto a = std::size_t(axis);
    in[a] = self.size(axis - 3);
    out[a] = at::native::pooling_output_shape<int64_t>(in[a], kernel[a], pad[a], stride[a], dilation[a], ceil_mode);
  }
  at::native::pool3d_shape_check(self, self.size(-4), kernel[0], kernel[1], kernel[2], stride[0], stride[1], stride[2],
                                 pad[0], pad[1], pad[2], dilation[0], dilation[1], dilation[2], in[0], in[1], in[2],
                                 out[0], out[1], out[2], "max_pool3d_with_indices", /*check_input_size=*/true);
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end() - 3);
  sizes.insert(sizes.end(), out.begin(), out.end());
  return sizes;
}

// Checks lengths before anything is read from the arrays.
dlprim::PoolWindow max_pool3d_window(at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                                     at::IntArrayRef dilation) {
  auto check = [](at::IntArrayRef given, const char* name, bool may_be_empty) {
    TORCH_CHECK(given.size() == 1 || given.size() == 3 || (may_be_empty && given.empty()), "max_pool3d: ", name,
                " must either be a single int, or a tuple of three ints");
  };
  check(kernel, "kernel_size", false);
  check(stride, "stride", true);
  check(padding, "padding", false);
  check(dilation, "dilation", false);
  return sliding(3, kernel, stride, padding, dilation);
}

// A new tensor of four or five dimensions in the memory format of `self`, which may lack a batch as well.
at::Tensor result_as(const at::Tensor& self, at::IntArrayRef sizes, at::ScalarType type) {
  const bool batch = self.dim() == 5;
  std::vector<int64_t> all = sizes.vec();
  if (!batch) all.insert(all.begin(), 1);
  const auto last = at::MemoryFormat::ChannelsLast3d;
  const auto format = batch                                                            ? self.suggest_memory_format()
                      : !self.is_contiguous() && self.unsqueeze(0).is_contiguous(last) ? last
                                                                                       : at::MemoryFormat::Contiguous;
  const at::Tensor result = at::empty(all, self.options().dtype(type).memory_format(format));
  return batch ? result : result.squeeze(0);
}

}  // namespace

void structured_max_pool2d_with_indices_out::impl(const at::Tensor& self, at::IntArrayRef kernel_size,
                                                  at::IntArrayRef stride, at::IntArrayRef padding,
                                                  at::IntArrayRef dilation, bool ceil_mode, const at::Tensor& out,
                                                  const at::Tensor& indices) {
  max_forward(2, self, sliding(2, kernel_size, stride, padding, dilation), out, indices, "max_pool2d");
}

void structured_max_pool2d_with_indices_backward_grad_input::impl(const at::Tensor& grad_output, const at::Tensor& self,
                                                                  at::IntArrayRef kernel_size, at::IntArrayRef stride,
                                                                  at::IntArrayRef padding, at::IntArrayRef dilation,
                                                                  bool ceil_mode, const at::Tensor& indices,
                                                                  const at::Tensor& grad_input) {
  max_backward(2, grad_output, indices, sliding(2, kernel_size, stride, padding, dilation), grad_input,
               "max_pool2d_backward", "gradOutput");
}

void structured_avg_pool2d_out::impl(const at::Tensor& self, int64_t kH, int64_t kW, int64_t dH, int64_t dW,
                                     int64_t padH, int64_t padW, bool ceil_mode, bool count_include_pad,
                                     std::optional<int64_t> divisor_override, const at::Tensor& out) {
  dlprim::average_pool(current_queue(self.device()), batched(self, 4, "avg_pool2d"), batched(out, 4, "avg_pool2d"),
                       average(2, {kH, kW}, {dH, dW}, {padH, padW}, count_include_pad, divisor_override));
}

void structured_avg_pool2d_backward_grad_input::impl(const at::Tensor& grad_output, const at::Tensor& self,
                                                     at::IntArrayRef kernel_size, at::IntArrayRef stride,
                                                     at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                                                     std::optional<int64_t> divisor_override,
                                                     const at::Tensor& grad_input) {
  const char* op = "avg_pool2d_backward";
  dlprim::average_pool_backward(current_queue(self.device()), batched(grad_output, 4, op), batched(grad_input, 4, op),
                                average(2, kernel_size, stride, padding, count_include_pad, divisor_override));
}

void structured_avg_pool3d_out::impl(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                                     at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                                     std::optional<int64_t> divisor_override, const at::Tensor& out) {
  dlprim::average_pool(current_queue(self.device()), batched(self, 5, "avg_pool3d"), batched(out, 5, "avg_pool3d"),
                       average(3, kernel_size, stride, padding, count_include_pad, divisor_override));
}

void structured_avg_pool3d_backward_grad_input::impl(const at::Tensor& grad_output, const at::Tensor& self,
                                                     at::IntArrayRef kernel_size, at::IntArrayRef stride,
                                                     at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                                                     std::optional<int64_t> divisor_override,
                                                     const at::Tensor& grad_input) {
  const char* op = "avg_pool3d_backward";
  dlprim::average_pool_backward(current_queue(self.device()), batched(grad_output, 5, op), batched(grad_input, 5, op),
                                average(3, kernel_size, stride, padding, count_include_pad, divisor_override));
}

namespace ops {

std::tuple<at::Tensor&, at::Tensor&> max_pool3d_with_indices_out(const at::Tensor& self, at::IntArrayRef kernel_size,
                                                                 at::IntArrayRef stride, at::IntArrayRef padding,
                                                                 at::IntArrayRef dilation, bool ceil_mode,
                                                                 at::Tensor& out, at::Tensor& indices) {
  const dlprim::PoolWindow window = max_pool3d_window(kernel_size, stride, padding, dilation);
  const auto sizes = max_pool3d_sizes(self, window, ceil_mode);
  at::native::resize_output(out, sizes);
  at::native::resize_output(indices, sizes);
  max_forward(3, self, window, out, indices, "max_pool3d");
  return {out, indices};
}

std::tuple<at::Tensor, at::Tensor> max_pool3d_with_indices(const at::Tensor& self, at::IntArrayRef kernel_size,
                                                           at::IntArrayRef stride, at::IntArrayRef padding,
                                                           at::IntArrayRef dilation, bool ceil_mode) {
  const dlprim::PoolWindow window = max_pool3d_window(kernel_size, stride, padding, dilation);
  const auto sizes = max_pool3d_sizes(self, window, ceil_mode);
  at::Tensor out = result_as(self, sizes, self.scalar_type()), indices = result_as(self, sizes, at::kLong);
  max_forward(3, self, window, out, indices, "max_pool3d");
  return {out, indices};
}

at::Tensor& max_pool3d_with_indices_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                        at::IntArrayRef kernel_size, at::IntArrayRef stride,
                                                        at::IntArrayRef padding, at::IntArrayRef dilation,
                                                        bool ceil_mode, const at::Tensor& indices,
                                                        at::Tensor& grad_input) {
  const dlprim::PoolWindow window = max_pool3d_window(kernel_size, stride, padding, dilation);
  const auto sizes = max_pool3d_sizes(self, window, ceil_mode);
  TORCH_CHECK(grad_output.sizes() == at::IntArrayRef(sizes) && indices.sizes() == at::IntArrayRef(sizes),
              "max_pool3d_backward: expected grad_output and indices of sizes ", at::IntArrayRef(sizes), ", got ",
              grad_output.sizes(), " and ", indices.sizes());
  at::native::resize_output(grad_input, self.sizes());
  max_backward(3, grad_output, indices, window, grad_input, "max_pool3d_backward", "gradOutput");
  return grad_input;
}

at::Tensor max_pool3d_with_indices_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                            at::IntArrayRef kernel_size, at::IntArrayRef stride,
                                            at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode,
                                            const at::Tensor& indices) {
  at::Tensor grad_input = result_as(self, self.sizes(), self.scalar_type());
  return max_pool3d_with_indices_backward_grad_input(grad_output, self, kernel_size, stride, padding, dilation,
                                                     ceil_mode, indices, grad_input);
}

}  // namespace ops

}  // namespace pytorch_ocl
