// SPDX-License-Identifier: MIT
#include "composition.hpp"

#include <numeric>

#include "gradient.hpp"

namespace dlprim {

void Recording::drop_rest() {
  graph_.nodes.erase(graph_.nodes.begin() + std::ptrdiff_t(used_), graph_.nodes.end());
  operators_.erase(operators_.begin() + std::ptrdiff_t(used_), operators_.end());
  training_.forget();
}

const Node& Recording::next(const Inner& op, const std::vector<int>& inputs, int first) {
  const std::size_t i = used_++;
  if (i < graph_.nodes.size()) {
    const Node& kept = graph_.nodes[i];
    if (operators_[i] == op && kept.inputs == inputs && kept.outputs[0] == first) return kept;
    used_ = i, drop_rest(), used_++;
  }
  training_.forget();
  operators_.push_back(op);
  Node& node = graph_.nodes.emplace_back(op.training_node());
  node.inputs = inputs;
  node.outputs.resize(std::max<std::size_t>(1, node.outputs.size()));
  std::iota(node.outputs.begin(), node.outputs.end(), first);
  return node;
}

std::shared_ptr<const Training> Recording::training(const std::vector<int>& outputs, const std::set<int>& sources) {
  if (used_ < graph_.nodes.size()) drop_rest();
  if (graph_.outputs != outputs) training_.forget();
  graph_.outputs = outputs;
  return training_.get(graph_, sources);
}

Composition::Part Composition::input(int i) {
  if (!call.has(i)) return {};
  const Part part{call.input(i), values_};
  if (!recording_) return {part.tensor, -1};
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
  std::vector<int> places;
  for (const Part& part : inputs) places.push_back(place(part));
  if (recording_) {
    const Node& node = recording_->next(op, places, values_);
    values_ += int(node.outputs.size());
    executor_.run(node);
    return {executor_.value(node.outputs[0]).tensor, node.outputs[0]};
  }
  Node node = op.node();
  node.inputs = std::move(places), node.outputs = {values_++};
  executor_.run(node);
  const Part result{executor_.value(node.outputs[0]).tensor, -1};
  for (int used = 0; used < values_; used++) executor_.slot(used) = {};
  values_ = 0;
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
  if (recording_ && part.id >= 0) outputs_[i] = part.id;
  else if (!recording_) call.set(i, part.tensor);
}

void Composition::backward(GradientCall& gradients) {
  std::map<int, Tensor> arrived;
  std::vector<int> outputs;
  for (const auto& [i, id] : outputs_) {
    const Tensor gradient = gradients.gradient(i);
    if (!gradient.defined()) continue;
    outputs.push_back(id);
    Tensor& sum = arrived[id];
    sum = sum.defined() ? apply(call.queue(), "y0 = x0 + x1;", {sum, gradient}) : gradient;
  }
  std::set<int> sources;
  for (const auto& [id, i] : inputs_)
    if (gradients.needs(i)) sources.insert(id);
  const auto training = recording_->training(outputs, sources);
  for (const auto& [id, gradient] : training->backward(executor_, std::move(arrived)))
    gradients.add(inputs_.at(id), gradient);
}

}  // namespace dlprim
