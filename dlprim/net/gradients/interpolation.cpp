// SPDX-License-Identifier: MIT
#include "../interpolation.hpp"

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

void interpolation_op(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor dy = call.gradient(), dx(queue, dy.dtype(), call.shape(0));
  resample_backward(queue, dy.view(queue), dx.view(queue), call.attributes<InterpolationAttributes>().resampling);
  call.add(0, dx);
}

}  // namespace

void interpolation(GradientRegistry& registry) {
  registry.add<InterpolationAttributes>("Interpolation", interpolation_op);
}

}  // namespace dlprim::gradients
