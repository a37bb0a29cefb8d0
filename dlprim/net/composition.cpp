// SPDX-License-Identifier: MIT
#include "composition.hpp"

#include "gradient.hpp"
#include "training.hpp"

namespace dlprim {

Composition::Part Composition::input(int i) {
  if (!call.has(i)) return {};
  const Part part{call.input(i), values_};
  if (!recorded_) return {part.tensor, -1};
  values_++;
  executor_.slot(part.id) = Value{part.tensor, nullptr};
  inputs_[part.id] = i;
  return part;
}

Composition::Part Composition::constant(double value, DataType type) {
  return {filled(call.queue(), type, {}, value), -1};
}

int Composition::place(const Part& part) {
  if (!part.defined() || part.id >= 0) return part.id;
  const int id = values_++;
  executor_.slot(id) = Value{part.tensor, nullptr};
  return id;
}

Composition::Part Composition::operator()(const Inner& op, const std::vector<Part>& inputs) {
  Node node = recorded_ ? op.training_node() : op.node();
  for (const Part& part : inputs) node.inputs.push_back(place(part));
  node.outputs.resize(std::max<std::size_t>(1, node.outputs.size()));
  for (int& id : node.outputs) id = values_++;
  executor_.run(node);
  const int id = node.outputs[0];
  const Part result{executor_.value(id).tensor, recorded_ ? id : -1};
  if (recorded_) {
    graph_.nodes.push_back(std::move(node));
  } else {
    for (int used = 0; used < values_; used++) executor_.slot(used) = {};
    values_ = 0;
  }
  return result;
}

Composition::Part Composition::reshape(const Part& x, const Shape& shape) {
  return x.shape() == shape ? x : (*this)("Reshape"_op, {x, constant(Tensor::from_integers(shape.sizes()))});
}

Composition::Part Composition::narrow(const Part& x, int dim, std::int64_t start, std::int64_t length,
                                      std::int64_t step) {
  auto one = [&](std::int64_t value) { return constant(Tensor::from_integers(std::vector{value})); };
  return (*this)("Slice"_op, {x, one(start), one(start + (length - 1) * step + 1), one(dim), one(step)});
}

Composition::Part Composition::cast(const Part& x, DataType type) {
  return x.tensor.dtype() == type ? x : (*this)(inner<"Cast", "to", DataType>(type), {x});
}

void Composition::set(int i, const Part& part) {
  if (recorded_ && part.id >= 0) outputs_[i] = part.id;
  else if (!recorded_) call.set(i, part.tensor);
}

void Composition::backward(GradientCall& gradients) {
  std::map<int, Tensor> arrived;
  for (const auto& [i, id] : outputs_) {
    const Tensor gradient = gradients.gradient(i);
    if (!gradient.defined()) continue;
    graph_.outputs.push_back(id);
    Tensor& sum = arrived[id];
    sum = sum.defined() ? apply(call.queue(), "y0 = x0 + x1;", {sum, gradient}) : gradient;
  }
  std::set<int> sources;
  for (const auto& [id, i] : inputs_)
    if (gradients.needs(i)) sources.insert(id);
  const Training training(graph_, sources);
  for (const auto& [id, gradient] : training.backward(executor_, std::move(arrived)))
    gradients.add(inputs_.at(id), gradient);
}

}  // namespace dlprim
