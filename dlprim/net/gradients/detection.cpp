// SPDX-License-Identifier: MIT
#include "../detection.hpp"

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// Of the images only: boxes are taken as given.
void roi_pooling(GradientCall& call) {
  Queue& queue = call.queue();
  const RegionPooling how = call.attributes<RegionAttributes>().pooling;
  const Tensor x = contiguous(queue, call.input(0)), boxes = contiguous(queue, cast(queue, call.input(1), x.dtype()));
  const Tensor dy = contiguous(queue, cast(queue, call.gradient(), x.dtype()));
  const Tensor dx = filled(queue, x.dtype() == DataType::float64 ? x.dtype() : DataType::float32, x.shape(), 0);
  Tensor numbers;
  if (call.has(2)) numbers = contiguous(queue, cast(queue, call.input(2), DataType::int64));
  region_pool_backward(queue, dy.view(queue), x.view(queue), boxes.view(queue),
                       numbers.defined() ? numbers.view(queue) : TensorView(), dx.view(queue), how);
  call.add(0, dx);
}

}  // namespace

void detection(GradientRegistry& registry) {
  registry.add<RegionAttributes>("RoiAlign", roi_pooling, "x0 x1 x2");
  registry.add<RegionAttributes>("MaxRoiPool", roi_pooling, "x0 x1");
}

}  // namespace dlprim::gradients
