// SPDX-License-Identifier: MIT
#include "gradient.hpp"

#include <sstream>

#include "composition.hpp"

namespace dlprim {

namespace {

// What the gradient of a composition keeps; a copied node starts anew.
struct ComposedGradient {
  explicit ComposedGradient(const AttributeReader&) {}
  ComposedGradient(const ComposedGradient&) {}
  std::unique_ptr<Recording> recording = std::make_unique<Recording>();
};

void composed_gradient(GradientCall& call) {
  Recording& recording = *call.attributes<ComposedGradient>().recording;
  recording.begin();
  Call forward = call.forward();
  Composition composition(forward, &recording);
  call.implementation().composition(composition);
  composition.backward(call);
}

}  // namespace

Reads::Reads(const char* list) {
  std::istringstream words(list);
  for (std::string word; words >> word;) {
    if (word == "x*") all_inputs = true;
    else if (word == "c*") captured = true;
    else (word[0] == 'x' ? inputs : outputs).push_back(std::stoi(word.substr(1)));
  }
}

const Value& GradientCall::result(int i) const {
  static const Value nothing;
  if (i >= outputs() || node_.outputs[std::size_t(i)] < 0) return nothing;
  return executor_.value(node_.outputs[std::size_t(i)]);
}

const Tensor& GradientCall::output(int i) const {
  const Tensor& tensor = result(i).tensor;
  if (!tensor.defined()) fail("output " + std::to_string(i) + " was not kept");
  return tensor;
}

const Shape& GradientCall::output_shape(int i) const { return result(i).tensor.shape(); }

std::vector<Tensor> GradientCall::run_again(const Tensor& x) {
  std::vector<Tensor> inputs{x};
  for (int i = 1; i < this->inputs(); i++) inputs.push_back(value(i).tensor);
  return run(attributes<Inner>(), inputs, outputs());
}

bool GradientCall::needs(int i) const { return i < inputs() && needs_value(node_.inputs[std::size_t(i)]); }

bool GradientCall::needs_value(int id) const {
  return needs_.contains(id) && is_floating(executor_.value(id).tensor.dtype());
}

Tensor GradientCall::gradient(int i) const {
  if (i >= outputs()) return {};
  auto it = gradients_.find(node_.outputs[std::size_t(i)]);
  return it == gradients_.end() ? Tensor() : it->second;
}

void GradientCall::add_to_value(int id, Tensor gradient) {
  const Tensor& x = executor_.value(id).tensor;
  gradient = cast(queue(), sum_to(queue(), gradient, x.shape()), x.dtype());
  Tensor& sum = gradients_[id];
  sum = sum.defined() ? apply(queue(), "y0 = x0 + x1;", {sum, gradient}) : gradient;
}

const Gradient* GradientRegistry::find(const Node& node) const {
  if (!node.domain.empty() && !node.domain.starts_with("dlprim")) return nullptr;
  static const Gradient composed{composed_gradient, Reads("x*"), 0, parse_attributes<ComposedGradient>};
  if (auto it = gradients_.find(node.type); it != gradients_.end()) return &it->second;
  return node.implementation && node.implementation->composition ? &composed : nullptr;
}

std::any GradientRegistry::parse(const Gradient& gradient, const Node& node) {
  std::any parsed;
  if (gradient.parse) with_name(node, [&] { parsed = gradient.parse(AttributeReader(node)); });
  return parsed;
}

const GradientRegistry& GradientRegistry::get() {
  static const GradientRegistry registry = [] {
    GradientRegistry all;
    gradients::add_all(all);
    return all;
  }();
  return registry;
}

}  // namespace dlprim
