// SPDX-License-Identifier: MIT
// Pooling whose windows follow from the output's size: adaptive and fractional; and unpooling.
#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <dlprim/primitives/pool.hpp>

#include "generated/functions/pool.h"
#include "generated/structured/adaptive_max_pool2d_backward_grad_input.h"
#include "generated/structured/adaptive_max_pool2d_out.h"
#include "generated/structured/adaptive_max_pool3d_backward_grad_input.h"
#include "generated/structured/adaptive_max_pool3d_out.h"
#include "generated/structured/fractional_max_pool2d_backward_grad_input.h"
#include "generated/structured/fractional_max_pool2d_output.h"
#include "generated/structured/fractional_max_pool3d_output.h"
#include "max_pooling.hpp"

namespace pytorch_ocl {

namespace {

const dlprim::PoolWindow adaptive{dlprim::PoolWindow::adaptive};

dlprim::PoolWindow fractional(at::IntArrayRef kernel) {
  dlprim::PoolWindow window{dlprim::PoolWindow::fractional};
  for (std::size_t i = 0; i < kernel.size(); i++) window.kernel[3 - kernel.size() + i] = int(kernel[i]);
  return window;
}

// Sizes of an adaptive average, with PyTorch's checks.
std::vector<int64_t> adaptive_sizes(int axes, const at::Tensor& self, at::IntArrayRef output_size, const char* op) {
  TORCH_CHECK(int(output_size.size()) == axes, op, ": internal error: output_size.size() must be ", axes);
  TORCH_CHECK(self.dim() == axes + 1 || self.dim() == axes + 2, op, ": Expected ", axes + 1, "D or ", axes + 2,
              "D tensor, but got ", self.sizes());
  for (int axis = -axes; axis < 0; axis++)
    TORCH_CHECK(self.size(axis) > 0, op,
                ": Expected input to have non-zero size for non-batch dimensions, but input "
                "has sizes ",
                self.sizes(), " with dimension ", self.dim() + axis, " being empty");
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end() - axes);
  sizes.insert(sizes.end(), output_size.begin(), output_size.end());
  return sizes;
}

at::MemoryFormat format_of(int axes, const at::Tensor& self) {
  return self.dim() == axes + 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

void run_average(int axes, const at::Tensor& self, const at::Tensor& out, const char* op) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), op, ": expected dtype ", self.scalar_type(),
              " for `output` but got dtype ", out.scalar_type());
  if (out.numel() > 0)
    dlprim::average_pool(current_queue(self.device()), batched(self, axes + 2, op), batched(out, axes + 2, op),
                         adaptive);
}

at::Tensor& average_out(int axes, const at::Tensor& self, at::IntArrayRef output_size, at::Tensor& out,
                        const char* op) {
  at::native::resize_output(out, adaptive_sizes(axes, self, output_size, op));
  run_average(axes, self, out, op);
  return out;
}

at::Tensor average(int axes, const at::Tensor& self, at::IntArrayRef output_size, const char* op) {
  const at::Tensor out =
      at::empty(adaptive_sizes(axes, self, output_size, op), self.options().memory_format(format_of(axes, self)));
  run_average(axes, self, out, op);
  return out;
}

at::Tensor& average_backward_out(int axes, const at::Tensor& grad_output, const at::Tensor& self,
                                 at::Tensor& grad_input, const char* op) {
  at::native::adaptive_pool_empty_output_check(grad_output, op);
  TORCH_CHECK(grad_output.dim() == self.dim() && (self.dim() == axes + 1 || self.dim() == axes + 2), op, ": Expected ",
              axes + 1, "D or ", axes + 2, "D tensors of equal rank, but got ", grad_output.sizes(), " and ",
              self.sizes());
  TORCH_CHECK(grad_output.scalar_type() == self.scalar_type(), op, ": expected dtype ", self.scalar_type(),
              " for `grad_output` but got dtype ", grad_output.scalar_type());
  at::native::resize_output(grad_input, self.sizes());
  if (grad_input.numel() > 0)
    dlprim::average_pool_backward(current_queue(self.device()), batched(grad_output, axes + 2, op),
                                  batched(grad_input, axes + 2, op), adaptive);
  return grad_input;
}

at::Tensor average_backward(int axes, const at::Tensor& grad_output, const at::Tensor& self, const char* op) {
  at::Tensor grad_input = at::empty(self.sizes(), self.options().memory_format(format_of(axes, self)));
  return average_backward_out(axes, grad_output, self, grad_input, op);
}

at::Tensor& unpool(int axes, const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                   at::Tensor& out, const char* op) {
  at::globalContext().alertNotDeterministic(std::string(op) + "_forward_out");  // which of equal indices stays
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(int(output_size.size()) == axes, "There should be exactly ", axes, " elements in output_size, but got ",
              output_size.size(), " elements.");
  TORCH_CHECK(self.dim() == axes + 1 || self.dim() == axes + 2, "Input to ", op, " should be a ", axes + 1, "d or ",
              axes + 2, "d Tensor, but got a tensor with ", self.dim(), " dimensions.");
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  for (int axis = -axes - 1; axis < 0; axis++)
    TORCH_CHECK(self.size(axis) > 0, op, ": Expected input to have non-zero size for non-batch dimensions, but got ",
                self.sizes());
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end() - axes);
  sizes.insert(sizes.end(), output_size.begin(), output_size.end());
  at::native::resize_output(out, sizes);
  out.zero_();
  if (self.numel() > 0)
    dlprim::max_unpool(current_queue(self.device()), batched(self, axes + 2, op), batched(indices, axes + 2, op),
                       batched(out, axes + 2, op));
  return out;
}

}  // namespace

void structured_adaptive_max_pool2d_out::impl(const at::Tensor& self, at::IntArrayRef output_size,
                                              const at::Tensor& out, const at::Tensor& indices) {
  max_forward(2, self, adaptive, out, indices, "adaptive_max_pool2d");
}

void structured_adaptive_max_pool2d_backward_grad_input::impl(const at::Tensor& grad_output, const at::Tensor& self,
                                                              const at::Tensor& indices, const at::Tensor& grad_input) {
  max_backward(2, grad_output, indices, adaptive, grad_input, "adaptive_max_pool2d_backward");
}

void structured_adaptive_max_pool3d_out::impl(const at::Tensor& self, at::IntArrayRef output_size,
                                              const at::Tensor& out, const at::Tensor& indices) {
  max_forward(3, self, adaptive, out, indices, "adaptive_max_pool3d");
}

void structured_adaptive_max_pool3d_backward_grad_input::impl(const at::Tensor& grad_output, const at::Tensor& self,
                                                              const at::Tensor& indices, const at::Tensor& grad_input) {
  max_backward(3, grad_output, indices, adaptive, grad_input, "adaptive_max_pool3d_backward");
}

void structured_fractional_max_pool2d_output::impl(const at::Tensor& self, at::IntArrayRef kernel_size,
                                                   at::IntArrayRef output_size, const at::Tensor& random_samples,
                                                   const at::Tensor& output, const at::Tensor& indices) {
  at::native::fractional_max_pool_check_shape<2>(self, random_samples);
  max_forward(2, self, fractional(kernel_size), output, indices, "fractional_max_pool2d", random_samples);
}

void structured_fractional_max_pool2d_backward_grad_input::impl(const at::Tensor& grad_output, const at::Tensor& self,
                                                                at::IntArrayRef kernel_size,
                                                                at::IntArrayRef output_size, const at::Tensor& indices,
                                                                const at::Tensor& grad_input) {
  max_backward(2, grad_output, indices, fractional(kernel_size), grad_input, "fractional_max_pool2d_backward");
}

void structured_fractional_max_pool3d_output::impl(const at::Tensor& self, int64_t poolSizeT, int64_t poolSizeH,
                                                   int64_t poolSizeW, int64_t outputT, int64_t outputH, int64_t outputW,
                                                   const at::Tensor& random_samples, int64_t numBatch,
                                                   int64_t numPlanes, int64_t inputT, int64_t inputH, int64_t inputW,
                                                   const at::Tensor& output, const at::Tensor& indices) {
  at::native::fractional_max_pool_check_shape<3>(self, random_samples);
  max_forward(3, self, fractional({poolSizeT, poolSizeH, poolSizeW}), output, indices, "fractional_max_pool3d",
              random_samples);
}

namespace ops {

at::Tensor _adaptive_avg_pool2d(const at::Tensor& self, at::IntArrayRef output_size) {
  return average(2, self, output_size, "adaptive_avg_pool2d");
}

at::Tensor& adaptive_avg_pool2d_out(const at::Tensor& self, at::IntArrayRef output_size, at::Tensor& out) {
  return average_out(2, self, output_size, out, "adaptive_avg_pool2d");
}

at::Tensor _adaptive_avg_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  return average_backward(2, grad_output, self, "adaptive_avg_pool2d_backward");
}

at::Tensor _adaptive_avg_pool3d(const at::Tensor& self, at::IntArrayRef output_size) {
  return average(3, self, output_size, "adaptive_avg_pool3d");
}

at::Tensor& adaptive_avg_pool3d_out(const at::Tensor& self, at::IntArrayRef output_size, at::Tensor& out) {
  return average_out(3, self, output_size, out, "adaptive_avg_pool3d");
}

at::Tensor _adaptive_avg_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  return average_backward(3, grad_output, self, "adaptive_avg_pool3d_backward");
}

at::Tensor& adaptive_avg_pool3d_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                    at::Tensor& grad_input) {
  return average_backward_out(3, grad_output, self, grad_input, "adaptive_avg_pool3d_backward");
}

at::Tensor& fractional_max_pool3d_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                      at::IntArrayRef kernel_size, at::IntArrayRef output_size,
                                                      const at::Tensor& indices, at::Tensor& grad_input) {
  TORCH_CHECK(kernel_size.size() == 3 && output_size.size() == 3 && grad_output.sizes() == indices.sizes() &&
                  grad_output.dim() == self.dim(),
              "fractional_max_pool3d_backward: expected grad_output and indices of equal sizes, got ",
              grad_output.sizes(), " and ", indices.sizes());
  at::native::resize_output(grad_input, self.sizes());
  if (grad_input.numel() > 0)
    max_backward(3, grad_output, indices, fractional(kernel_size), grad_input, "fractional_max_pool3d_backward");
  return grad_input;
}

at::Tensor fractional_max_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                          at::IntArrayRef kernel_size, at::IntArrayRef output_size,
                                          const at::Tensor& indices) {
  at::Tensor grad_input = at::empty({0}, self.options());
  return fractional_max_pool3d_backward_grad_input(grad_output, self, kernel_size, output_size, indices, grad_input);
}

at::Tensor& max_unpool2d_out(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                             at::Tensor& out) {
  return unpool(2, self, indices, output_size, out, "max_unpooling2d");
}

at::Tensor max_unpool2d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size) {
  at::Tensor out = at::empty({0}, self.options());
  return unpool(2, self, indices, output_size, out, "max_unpooling2d");
}

at::Tensor& max_unpool3d_out(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::Tensor& out) {
  TORCH_CHECK(stride.size() == 3 && padding.size() == 3,
              "There should be exactly three elements (depth, height, width) in stride and padding, but got ",
              stride.size(), " and ", padding.size(), " elements.");
  TORCH_CHECK(stride[0] > 0 && stride[1] > 0 && stride[2] > 0,
              "strides should be greater than zero, but got stride: ", stride);
  return unpool(3, self, indices, output_size, out, "max_unpooling3d");
}

at::Tensor max_unpool3d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                        at::IntArrayRef stride, at::IntArrayRef padding) {
  at::Tensor out = at::empty({0}, self.options());
  return max_unpool3d_out(self, indices, output_size, stride, padding, out);
}

}  // namespace ops

}  // namespace pytorch_ocl
