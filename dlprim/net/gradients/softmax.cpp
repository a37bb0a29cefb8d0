// SPDX-License-Identifier: MIT
#include <dlprim/primitives/softmax.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

struct SoftmaxAttributes {
  explicit SoftmaxAttributes(const AttributeReader& reader) : axis(reader.find<std::int64_t>("axis")) {}
  std::optional<std::int64_t> axis;
};

const SoftmaxAttributes& attributes_of(const Call& call) { return call.attributes<SoftmaxAttributes>(); }

// Up to operator set 12 all dimensions from the axis on are one row.
void run(GradientCall& call, SoftmaxKind kind) {
  Queue& queue = call.queue();
  const bool flat = call.version() < 13;
  Shape shape = call.shape(0);
  int axis = shape.axis(attributes_of(call).axis.value_or(flat ? 1 : -1), flat && shape.size() < 2 ? 1 : 0);
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
  registry.add<SoftmaxAttributes>("Softmax", softmax_op, "y0");
  registry.add<SoftmaxAttributes>("LogSoftmax", log_softmax_op, "y0");
}

}  // namespace dlprim::gradients
