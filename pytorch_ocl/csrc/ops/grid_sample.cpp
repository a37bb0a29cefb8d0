// SPDX-License-Identifier: MIT
// Grid sampling and channel shuffling.
#include <dlprim/primitives/grid_sample.hpp>

#include <ATen/Context.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "generated/functions/upsample.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

dlprim::GridSampling how(int64_t mode, int64_t padding, bool align_corners) {
  return {dlprim::GridSampling::Mode(mode), dlprim::GridSampling::Padding(padding), align_corners};
}

at::Tensor sample(const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding, bool align_corners) {
  std::vector<int64_t> sizes{input.size(0), input.size(1)};
  sizes.insert(sizes.end(), grid.sizes().begin() + 1, grid.sizes().end() - 1);
  at::Tensor out = at::empty(sizes, input.options());
  if (out.numel() > 0)
    dlprim::grid_sample(current_queue(input.device()), view_of(input, "grid_sampler"), view_of(grid, "grid_sampler"),
                        view_of(out, "grid_sampler"), how(mode, padding, align_corners));
  return out;
}

std::tuple<at::Tensor, at::Tensor> gradients(const at::Tensor& grad_output, const at::Tensor& input,
                                             const at::Tensor& grid, int64_t mode, int64_t padding, bool align_corners,
                                             std::array<bool, 2> output_mask) {
  const char* op = "grid_sampler_backward";
  at::globalContext().alertNotDeterministic("grid_sampler_backward_ocl");
  const auto sum_type = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor grad_input, grad_grid;
  if (output_mask[0]) grad_input = at::zeros(input.sizes(), input.options().dtype(sum_type));
  if (output_mask[1]) grad_grid = at::empty(grid.sizes(), grid.options());
  if (grad_output.numel() > 0)
    dlprim::grid_sample_backward(current_queue(input.device()), view_of(grad_output, op), view_of(input, op),
                                 view_of(grid, op), output_mask[0] ? view_of(grad_input, op) : dlprim::TensorView(),
                                 output_mask[1] ? view_of(grad_grid, op) : dlprim::TensorView(),
                                 how(mode, padding, align_corners));
  if (grad_output.numel() == 0 && output_mask[1]) grad_grid.zero_();
  return {output_mask[0] ? grad_input.to(input.scalar_type()) : grad_input, grad_grid};
}

}  // namespace

at::Tensor grid_sampler_2d(const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding,
                           bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_2d(input, grid);
  return sample(input, grid, mode, padding, align_corners);
}

std::tuple<at::Tensor, at::Tensor> grid_sampler_2d_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                            const at::Tensor& grid, int64_t mode, int64_t padding,
                                                            bool align_corners, std::array<bool, 2> output_mask) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_2d(input, grid);
  return gradients(grad_output, input, grid, mode, padding, align_corners, output_mask);
}

at::Tensor grid_sampler_3d(const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding,
                           bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_3d(input, grid, mode);
  return sample(input, grid, mode, padding, align_corners);
}

std::tuple<at::Tensor, at::Tensor> grid_sampler_3d_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                            const at::Tensor& grid, int64_t mode, int64_t padding,
                                                            bool align_corners, std::array<bool, 2> output_mask) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_3d(input, grid, mode);
  return gradients(grad_output, input, grid, mode, padding, align_corners, output_mask);
}

at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
  TORCH_CHECK(self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ", self.size(1),
              " channels and ", groups, " groups.");
  std::vector<int64_t> split{self.size(0), groups, self.size(1) / groups};
  split.insert(split.end(), self.sizes().begin() + 2, self.sizes().end());
  return self.reshape(split).transpose(1, 2).reshape(self.sizes()).contiguous(self.suggest_memory_format());
}

}  // namespace pytorch_ocl::ops
