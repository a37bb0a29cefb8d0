// SPDX-License-Identifier: MIT
#include "composition.hpp"

#include "gradient.hpp"
#include "training.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t inner_version = 23;  // what the operators inside are written for

}  // namespace

Composition::Part Composition::input(int i) {
  if (!call.has(i)) return {};
  const Part part{call.input(i), int(values_.size())};
  if (!recorded_) return {part.tensor, -1};
  values_.emplace_back();
  executor_.slot(part.id) = Value{part.tensor, nullptr};
  inputs_[part.id] = i;
  return part;
}

Composition::Part Composition::constant(double value, DataType type) {
  return {filled(call.queue(), type, {}, value), -1};
}

int Composition::place(const Part& part) {
  if (!part.defined() || part.id >= 0) return part.id;
  const int id = int(values_.size());
  values_.emplace_back();
  executor_.slot(id) = Value{part.tensor, nullptr};
  return id;
}

Composition::Part Composition::operator()(const char* type, std::initializer_list<Part> inputs, Attributes attributes) {
  return run(type, inputs, std::move(attributes), 1)[0];
}

std::vector<Composition::Part> Composition::run(const char* type, std::vector<Part> inputs, Attributes attributes,
                                                int outputs) {
  Node node;
  node.type = type, node.version = inner_version, node.attributes = std::move(attributes);
  node.implementation = Registry::get().find("", type);
  for (const Part& part : inputs) node.inputs.push_back(place(part));
  for (int i = 0; i < outputs; i++) node.outputs.push_back(int(values_.size())), values_.emplace_back();
  if (recorded_) prepare_training(node, values_);
  else parse_attributes(node);
  executor_.run(Graph{"", {node}, {}, {}});
  std::vector<Part> results;
  for (int i = 0; i < outputs; i++) {
    const int id = node.outputs[std::size_t(i)];
    results.push_back({executor_.value(id).tensor, recorded_ ? id : -1});
  }
  if (recorded_) {
    graph_.nodes.push_back(std::move(node));
  } else {
    for (std::size_t id = 0; id < values_.size(); id++) executor_.slot(int(id)) = {};
    values_.clear();
  }
  return results;
}

Composition::Part Composition::reshape(const Part& x, const Shape& shape) {
  return x.shape() == shape ? x : (*this)("Reshape", {x, constant(Tensor::from_integers(shape.sizes()))});
}

Composition::Part Composition::narrow(const Part& x, int dim, std::int64_t start, std::int64_t length,
                                      std::int64_t step) {
  auto one = [&](std::int64_t value) { return constant(Tensor::from_integers(std::vector{value})); };
  return (*this)("Slice", {x, one(start), one(start + (length - 1) * step + 1), one(dim), one(step)});
}

Composition::Part Composition::cast(const Part& x, DataType type) {
  return x.tensor.dtype() == type ? x : (*this)("Cast", {x}, {{"to", std::string(name(type))}});
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
