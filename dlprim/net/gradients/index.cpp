// SPDX-License-Identifier: MIT
#include <dlprim/primitives/index.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

struct IndexAttributes {
  explicit IndexAttributes(const AttributeReader& reader) : axis(reader.integer("axis", 0)) {}
  std::int64_t axis;
};

const IndexAttributes& attributes_of(const Call& call) { return call.attributes<IndexAttributes>(); }

constexpr IndexOptions wrapping{true};

void gather_op(GradientCall& call) {
  Queue& queue = call.queue();
  const int axis = call.shape(0).axis(attributes_of(call).axis);
  const Tensor& index = call.input(1);
  Shape flat = call.shape(0);
  flat[axis] = index.numel();
  const Tensor dy = reshape(queue, call.gradient(), flat), dx = filled(queue, dy.dtype(), call.shape(0), 0);
  if (dy.numel())
    index_update(queue, dx.view(queue), axis, reshape(queue, index, {index.numel()}).view(queue), dy.view(queue),
                 Update::add, wrapping);
  call.add(0, dx);
}

void gather_elements(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor dy = call.gradient(), dx = filled(queue, dy.dtype(), call.shape(0), 0);
  const int axis = call.shape(0).axis(attributes_of(call).axis);
  if (dy.numel()) scatter(queue, dx.view(queue), axis, call.in(1), dy.view(queue), Update::add, wrapping);
  call.add(0, dx);
}

}  // namespace

void index(GradientRegistry& registry) {
  registry.add<IndexAttributes>("Gather", gather_op, "x1");
  registry.add<IndexAttributes>("GatherElements", gather_elements, "x1");
}

}  // namespace dlprim::gradients
