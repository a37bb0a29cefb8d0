// SPDX-License-Identifier: MIT
// Gradients of operators that choose elements: they go back to where the elements came from.
#include <dlprim/primitives/index.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

struct SortAttributes {
  explicit SortAttributes(const AttributeReader& reader) : axis(reader.find<std::int64_t>("axis")) {}
  std::optional<std::int64_t> axis;
};

const SortAttributes& attributes_of(const Call& call) { return call.attributes<SortAttributes>(); }

// Adds dy's slices at `index` along the axis, or to the flat input where the node names none.
void add_slices(GradientCall& call, const Tensor& index) {
  Queue& queue = call.queue();
  const Shape& x = call.shape(0);
  const Shape shape = attributes_of(call).axis.has_value() ? x : Shape{x.total_size()};
  const Tensor dy = call.gradient(), dx = filled(queue, dy.dtype(), shape, 0);
  const int dim = shape.axis(attributes_of(call).axis.value_or(0));
  if (dy.numel()) index_update(queue, dx.view(queue), dim, index.view(queue), dy.view(queue), Update::add);
  call.add(0, reshape(queue, dx, x));
}

void top_k(GradientCall& call) {
  const Tensor dy = call.gradient(), zeros = filled(call.queue(), dy.dtype(), call.shape(0), 0);
  const std::int64_t axis = attributes_of(call).axis.value_or(-1);
  call.add(0, call.run(inner<"ScatterElements", "axis">(axis), {zeros, call.output(1), dy})[0]);
}

void unique(GradientCall& call) { add_slices(call, call.output(1)); }

void compress(GradientCall& call) {
  const Shape& x = call.shape(0);
  const std::int64_t size =
      attributes_of(call).axis.has_value() ? x[x.axis(attributes_of(call).axis.value_or(0))] : x.total_size();
  const std::vector<std::int64_t> condition = call.read_integers(1);
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < size && i < std::int64_t(condition.size()); i++)
    if (condition[std::size_t(i)]) index.push_back(i);
  add_slices(call, Tensor::from_integers(index));
}

// Positions are scattered as the elements were: -1 where the cache stayed.
void tensor_scatter(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor dy = call.gradient();
  const std::int64_t count = call.shape(1).total_size();
  std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < positions.size(); i++) positions[i] = std::int64_t(i);
  std::vector<Tensor> inputs{filled(queue, DataType::int64, call.shape(0), -1),
                             reshape(queue, Tensor::from_integers(positions), call.shape(1))};
  if (call.has(2)) inputs.push_back(call.input(2));
  const Tensor from = call.run(call.attributes<Inner>(), inputs)[0];
  call.add(0, apply(queue, "y0 = x1 < 0 ? x0 : 0;", {dy, from}, {}, dy.dtype(), dy.dtype()));
  const Tensor index = reshape(queue, apply(queue, "y0 = x0 < 0 ? (long)w0 : x0;", {from}, {count}), {from.numel()});
  const Tensor sums = filled(queue, dy.dtype(), {count + 1}, 0);
  if (dy.numel())
    index_update(queue, sums.view(queue), 0, index.view(queue),
                 reshape(queue, contiguous(queue, dy), {dy.numel()}).view(queue), Update::add);
  call.add(1, reshape(queue, narrow(sums, 0, 0, count), call.shape(1)));
}

}  // namespace

void sort(GradientRegistry& registry) {
  registry.add<SortAttributes>("TopK", top_k, "y1", 2);
  registry.add<SortAttributes>("Unique", unique, "y1", 2);
  registry.add<SortAttributes>("Compress", compress, "x1");
  registry.add<Inner>("TensorScatter", tensor_scatter, "x2");
}

}  // namespace dlprim::gradients
