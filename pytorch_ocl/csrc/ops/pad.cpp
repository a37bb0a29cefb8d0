// SPDX-License-Identifier: MIT
// Padding by reflection and replication, sliding windows.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Padding.h>
#include <ATen/native/UnfoldBackward.h>
#include <ATen/native/im2col_shape_check.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <dlprim/primitives/pad.hpp>
#include <torch/headeronly/version.h>

#include "generated/functions/pad.h"
#include "generated/structured/reflection_pad1d_backward_grad_input.h"
#include "generated/structured/reflection_pad1d_out.h"
#include "generated/structured/reflection_pad3d_backward_grad_input.h"
#include "generated/structured/reflection_pad3d_out.h"
#include "generated/structured/replication_pad1d_backward_grad_input.h"
#include "generated/structured/replication_pad1d_out.h"
#include "generated/structured/replication_pad2d_out.h"
#include "generated/structured/replication_pad3d_out.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

using dlprim::PadMode;

// A dense tensor as [batch, depth, height, width], of which the last `dims` are the padded ones.
at::Tensor as_volumes(const at::Tensor& dense, int dims) {
  std::vector<int64_t> sizes(4, 1);
  for (int d = 0; d < dims; d++) sizes[std::size_t(3 - d)] = dense.size(-1 - d);
  const int64_t volume = sizes[1] * sizes[2] * sizes[3];
  sizes[0] = volume == 0 ? 0 : dense.numel() / volume;
  return dense.view(sizes);
}

std::array<int64_t, 3> before_of(at::IntArrayRef padding) {
  std::array<int64_t, 3> before{};
  for (std::size_t d = 0; d < padding.size() / 2; d++) before[2 - d] = padding[2 * d];
  return before;
}

// Calls `write` with a contiguous tensor whose contents end up in out.
template <class Write>
void into_dense(const at::Tensor& out, Write write) {
  if (out.numel() == 0) return;
  const at::Tensor dense = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  write(dense);
  if (!dense.is_same(out)) out.copy_(dense);
}

void pad(const at::Tensor& out, const at::Tensor& self, at::IntArrayRef padding, PadMode mode) {
  const int dims = int(padding.size() / 2);
  into_dense(out, [&](const at::Tensor& dense) {
    dlprim::pad(current_queue(out.device()), view_of(as_volumes(dense, dims), "pad"),
                view_of(as_volumes(self.contiguous(), dims), "pad"), before_of(padding), mode);
  });
}

void pad_backward(const at::Tensor& grad_input, const at::Tensor& grad_output, at::IntArrayRef padding, PadMode mode) {
  const int dims = int(padding.size() / 2);
  for (int d = 0; d < dims; d++) {
    const int64_t size = grad_input.size(-1 - d) + padding[std::size_t(2 * d)] + padding[std::size_t(2 * d + 1)];
    TORCH_CHECK(grad_output.size(-1 - d) == size, "pad_backward: expected grad_output of size ", size, " at dimension ",
                grad_output.dim() - 1 - d, ", got ", grad_output.size(-1 - d));
  }
  if (grad_output.numel() == 0) {
    grad_input.zero_();
    return;
  }
  into_dense(grad_input, [&](const at::Tensor& dense) {
    dlprim::pad_backward(current_queue(dense.device()), view_of(as_volumes(dense, dims), "pad_backward"),
                         view_of(as_volumes(grad_output.contiguous(), dims), "pad_backward"), before_of(padding), mode);
  });
}

at::Tensor padded_gradient(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef padding,
                           PadMode mode) {
  const at::Tensor grad_input = at::empty_like(self, at::MemoryFormat::Contiguous);
  pad_backward(grad_input, grad_output, padding, mode);
  return grad_input;
}

at::Tensor& padded_gradient_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef padding,
                                PadMode mode, at::Tensor& grad_input) {
  grad_input.resize_(self.sizes());
  pad_backward(grad_input, grad_output, padding, mode);
  return grad_input;
}

dlprim::Windows windows_of(at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                           at::IntArrayRef stride, const char* op) {
  auto pair = [&](at::IntArrayRef values, const char* what) {
    TORCH_CHECK(values.size() == 2, op, ": expected two numbers as ", what, ", got ", values);
    return std::array<int64_t, 2>{values[0], values[1]};
  };
  return {pair(kernel, "kernel_size"), pair(stride, "stride"), pair(padding, "padding"), pair(dilation, "dilation")};
}

std::array<int64_t, 2> window_counts(const dlprim::Windows& w, int64_t height, int64_t width) {
  const int64_t size[] = {height, width};
  std::array<int64_t, 2> counts;
  for (std::size_t d = 0; d < 2; d++)
    counts[d] = (size[d] + 2 * w.padding[d] - (w.dilation[d] * (w.kernel[d] - 1) + 1)) / w.stride[d] + 1;
  return counts;
}

// The overlapping windows of one dimension are windows of images one row high.
void unfold_backward_kernel(at::Tensor& grad_in, const at::Tensor& grad, int64_t dim, int64_t size, int64_t step) {
  if (grad.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, grad_in.dim());
  if (grad_in.dim() == 0) {
    grad_in.copy_(grad.reshape({}));
    return;
  }
  const at::Tensor columns = grad.movedim(dim, -1).contiguous();  // [others, size, windows]
  const int64_t windows = grad.size(dim), length = grad_in.size(dim), batch = columns.numel() / (windows * size);
  at::Tensor moved = grad_in.movedim(dim, -1);
  const at::Tensor image = at::empty(moved.sizes(), moved.options());
  const dlprim::Windows w{{1, size}, {1, step}};
  dlprim::fold(current_queue(grad.device()), view_of(image.view({batch, 1, length}), "unfold_backward"),
               view_of(columns.view({batch, 1, size, 1, windows}), "unfold_backward"), w);
  moved.copy_(image);
}

}  // namespace

#define PAD(name, mode)                                                                                              \
  void structured_##name##_out::impl(const at::Tensor& self, at::ArrayRef<int64_t> padding, const at::Tensor& out) { \
    pad(out, self, padding, mode);                                                                                   \
  }                                                                                                                  \
  static_assert(true)
#define PAD_BACKWARD(name, mode)                                                                                    \
  void structured_##name##_backward_grad_input::impl(const at::Tensor& grad_output, const at::Tensor&,              \
                                                     at::ArrayRef<int64_t> padding, const at::Tensor& grad_input) { \
    pad_backward(grad_input, grad_output, padding, mode);                                                           \
  }                                                                                                                 \
  static_assert(true)
#define PAD_BACKWARD_FUNCTIONS(name, mode)                                                                     \
  at::Tensor name##_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef padding) { \
    return padded_gradient(grad_output, self, padding, mode);                                                  \
  }                                                                                                            \
  at::Tensor& name##_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,                \
                                         at::IntArrayRef padding, at::Tensor& grad_input) {                    \
    return padded_gradient_out(grad_output, self, padding, mode, grad_input);                                  \
  }                                                                                                            \
  static_assert(true)

PAD(reflection_pad1d, PadMode::reflect);
PAD(reflection_pad3d, PadMode::reflect);
PAD(replication_pad1d, PadMode::replicate);
PAD(replication_pad2d, PadMode::replicate);
PAD(replication_pad3d, PadMode::replicate);
PAD_BACKWARD(reflection_pad1d, PadMode::reflect);
PAD_BACKWARD(reflection_pad3d, PadMode::reflect);
PAD_BACKWARD(replication_pad1d, PadMode::replicate);

namespace ops {

PAD_BACKWARD_FUNCTIONS(reflection_pad2d, PadMode::reflect);
PAD_BACKWARD_FUNCTIONS(replication_pad2d, PadMode::replicate);
PAD_BACKWARD_FUNCTIONS(replication_pad3d, PadMode::replicate);

at::Tensor& reflection_pad2d_out(const at::Tensor& self, at::IntArrayRef padding, at::Tensor& out) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  at::native::padding::check_valid_input<2>(self, padding);
#else
  at::native::padding::check_valid_input(self, padding, 2);
#endif
  std::vector<int64_t> sizes = self.sizes().vec();
  for (std::size_t d = 0; d < 2; d++) {
    int64_t& size = sizes[sizes.size() - 1 - d];
    TORCH_CHECK(padding[2 * d] < size && padding[2 * d + 1] < size,
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (",
                padding[2 * d], ", ", padding[2 * d + 1], ") at dimension ", sizes.size() - 1 - d, " of input ",
                self.sizes());
    size += padding[2 * d] + padding[2 * d + 1];
    TORCH_CHECK(size >= 1, "input (", self.sizes(), ") is too small for the padding ", padding);
  }
  out.resize_(sizes);
  pad(out, self, padding, PadMode::reflect);
  return out;
}

at::Tensor reflection_pad2d(const at::Tensor& self, at::IntArrayRef padding) {
  at::Tensor out = at::empty({0}, self.options());
  return reflection_pad2d_out(self, padding, out);
}

at::Tensor& im2col_out(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                       at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out) {
  const dlprim::Windows w = windows_of(kernel_size, dilation, padding, stride, "im2col");
  at::native::im2col_shape_check(self, at::Tensor(), kernel_size[0], kernel_size[1], dilation[0], dilation[1],
                                 padding[0], padding[1], stride[0], stride[1]);
  const bool batched = self.dim() == 4;
  const int64_t batch = batched ? self.size(0) : 1, channels = self.size(-3), height = self.size(-2),
                width = self.size(-1);
  const auto counts = window_counts(w, height, width);
  const int64_t rows = channels * w.kernel[0] * w.kernel[1], windows = counts[0] * counts[1];
  if (batched) out.resize_({batch, rows, windows});
  else out.resize_({rows, windows});
  into_dense(out, [&](const at::Tensor& dense) {
    const int64_t images = batch * channels;
    dlprim::unfold(current_queue(self.device()),
                   view_of(dense.view({images, w.kernel[0], w.kernel[1], counts[0], counts[1]}), "im2col"),
                   view_of(self.contiguous().view({images, height, width}), "im2col"), w);
  });
  return out;
}

at::Tensor im2col(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride) {
  at::Tensor out = at::empty({0}, self.options());
  return im2col_out(self, kernel_size, dilation, padding, stride, out);
}

at::Tensor& col2im_out(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size,
                       at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out) {
  const dlprim::Windows w = windows_of(kernel_size, dilation, padding, stride, "col2im");
  TORCH_CHECK(output_size.size() == 2, "It is expected output_size equals to 2, but got size ", output_size.size());
  at::native::col2im_shape_check(self, at::Tensor(), output_size[0], output_size[1], kernel_size[0], kernel_size[1],
                                 dilation[0], dilation[1], padding[0], padding[1], stride[0], stride[1]);
  const bool batched = self.dim() == 3;
  const int64_t batch = batched ? self.size(0) : 1, channels = self.size(-2) / (w.kernel[0] * w.kernel[1]);
  const auto counts = window_counts(w, output_size[0], output_size[1]);
  if (batched) out.resize_({batch, channels, output_size[0], output_size[1]});
  else out.resize_({channels, output_size[0], output_size[1]});
  into_dense(out, [&](const at::Tensor& dense) {
    const int64_t images = batch * channels;
    dlprim::fold(current_queue(self.device()), view_of(dense.view({images, output_size[0], output_size[1]}), "col2im"),
                 view_of(self.contiguous().view({images, w.kernel[0], w.kernel[1], counts[0], counts[1]}), "col2im"),
                 w);
  });
  return out;
}

at::Tensor col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size,
                  at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride) {
  at::Tensor out = at::empty({0}, self.options());
  return col2im_out(self, output_size, kernel_size, dilation, padding, stride, out);
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(unfold_backward_stub, &pytorch_ocl::unfold_backward_kernel)
}
