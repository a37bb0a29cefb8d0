// SPDX-License-Identifier: MIT
#include <dlprim/primitives/softmax.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// Up to operator set 12 all dimensions from the axis on are one row.
void run(GradientCall& call, SoftmaxKind kind) {
  Queue& queue = call.queue();
  const bool flat = call.version() < 13;
  Shape shape = call.shape(0);
  int axis = shape.axis(call.integer("axis", flat ? 1 : -1), flat && shape.size() < 2 ? 1 : 0);
  if (flat) shape = {shape.product(0, axis), shape.product(axis, shape.size())}, axis = 1;
  auto seen = [&](const Tensor& t) { return reshape(queue, contiguous(queue, t), shape); };
  const Tensor dy = seen(call.gradient()), y = seen(call.output(0)), dx(queue, dy.dtype(), shape);
  if (dx.numel()) softmax_backward(queue, kind, dx.view(queue), dy.view(queue), y.view(queue), axis);
  call.add(0, reshape(queue, dx, call.shape(0)));
}

void softmax_op(GradientCall& call) { run(call, SoftmaxKind::softmax); }
void log_softmax_op(GradientCall& call) { run(call, SoftmaxKind::log_softmax); }

}  // namespace

void softmax(GradientRegistry& registry) {
  registry.add("Softmax", softmax_op, "y0");
  registry.add("LogSoftmax", log_softmax_op, "y0");
}

}  // namespace dlprim::gradients
