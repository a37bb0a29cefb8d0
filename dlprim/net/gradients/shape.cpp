// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

struct ShapeAttributes {
  explicit ShapeAttributes(const AttributeReader& reader)
      : perm(reader.integers("perm")), has_perm(reader.given("perm")), axis(reader.integer("axis", 1)) {}
  std::vector<std::int64_t> perm;
  bool has_perm;
  std::int64_t axis;
};

const ShapeAttributes& attributes_of(const Call& call) { return call.attributes<ShapeAttributes>(); }

void same_elements(GradientCall& call) { call.add(0, reshape(call.queue(), call.gradient(), call.shape(0))); }

void transpose_op(GradientCall& call) {
  const int rank = call.shape(0).size();
  std::vector<std::int64_t> order = attributes_of(call).perm, inverse(static_cast<std::size_t>(rank));
  for (int d = 0; d < rank; d++)
    inverse[attributes_of(call).has_perm ? std::size_t(call.shape(0).axis(order[std::size_t(d)]))
                                         : std::size_t(rank - 1 - d)] = d;
  call.add(0, permute(call.gradient(), inverse));
}

// Operators that give views of their input: of a gradient of zeros, they give the positions to fill.
void views_of_input(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor dx = filled(queue, call.dtype(0), call.shape(0), 0);
  const std::vector<Tensor> places = call.run_again(dx);
  for (int i = 0; i < call.outputs(); i++)
    if (const Tensor dy = call.gradient(i); dy.defined() && dy.numel())
      copy(queue, places[std::size_t(i)].view(queue), dy.view(queue));
  call.add(0, dx);
}

void expand_op(GradientCall& call) { call.add(0, call.gradient()); }

void concat_op(GradientCall& call) {
  const Tensor dy = call.gradient();
  const int dim = call.shape(0).axis(attributes_of(call).axis);
  std::int64_t start = 0;
  for (int i = 0; i < call.inputs(); i++) {
    const std::int64_t length = call.shape(i)[dim];
    call.add(i, narrow(dy, dim, start, length));
    start += length;
  }
}

void tile(GradientCall& call) {
  Queue& queue = call.queue();
  const Shape &x = call.shape(0), &y = call.output_shape(0);
  Shape parts, once;
  for (int d = 0; d < x.size(); d++) {
    parts.push_back(x[d] ? y[d] / x[d] : 0), parts.push_back(x[d]);
    once.push_back(1), once.push_back(x[d]);
  }
  call.add(0, reshape(queue, sum_to(queue, reshape(queue, call.gradient(), parts), once), x));
}

// The other one of DepthToSpace and SpaceToDepth, with the same attributes.
struct Opposite {
  explicit Opposite(const AttributeReader& reader)
      : op(reader.node().type == "DepthToSpace" ? "SpaceToDepth" : "DepthToSpace", reader.node().attributes) {}
  Inner op;
};

void opposite(GradientCall& call) { call.add(0, call.run(call.attributes<Opposite>().op, {call.gradient()})[0]); }

}  // namespace

void shape(GradientRegistry& registry) {
  for (const char* type : {"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
    registry.add<ShapeAttributes>(type, same_elements);
  registry.add<ShapeAttributes>("Transpose", transpose_op);
  registry.add<Inner>("Slice", views_of_input, "x1 x2 x3 x4");
  registry.add<Inner>("Split", views_of_input, "x1");
  registry.add<ShapeAttributes>("Expand", expand_op);
  registry.add<ShapeAttributes>("Concat", concat_op);
  registry.add<ShapeAttributes>("Tile", tile);
  registry.add<Opposite>("DepthToSpace", opposite);
  registry.add<Opposite>("SpaceToDepth", opposite);
}

}  // namespace dlprim::gradients
