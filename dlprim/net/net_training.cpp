// SPDX-License-Identifier: MIT
// What Net does for training, and values by name.
#include <dlprim/error.hpp>

#include "array.hpp"
#include "net_state.hpp"

namespace dlprim {

int Net::State::value(const std::string& name) const {
  for (std::size_t id = network.values.size(); id-- > 0;)
    if (network.values[id] == name) return int(id);
  throw ValidationError("[Net] there is no value '" + name + "'");
}

int Net::State::output(const std::string& name) const {
  for (std::size_t i = 0; i < network.outputs.size(); i++)
    if (network.outputs[i].name == name) return int(i);
  throw ValidationError("[Net] there is no output '" + name + "'");
}

const Tensor& Net::tensor(const std::string& name) {
  const int id = state_->value(name);
  const Tensor* tensor = state_->executor ? &state_->executor->value(id).tensor : nullptr;
  if (!tensor || !tensor->defined())
    throw ValidationError("[Net] the value '" + name + "' was not kept: see keep_intermediate_tensors and forward");
  return *tensor;
}

void Net::set_loss_weight(const std::string& output, double weight) {
  state_->network.loss_weights[state_->output(output)] = weight;
}

double Net::loss_weight(const std::string& output) const {
  const auto& weights = state_->network.loss_weights;
  auto it = weights.find(state_->output(output));
  return it == weights.end() ? 0 : it->second;
}

void Net::want_gradient(const std::string& name) { state_->stale |= state_->wanted.insert(state_->value(name)).second; }

Tensor& Net::output_diff(const std::string& output) {
  const int i = state_->output(output);
  const Tensor& y = this->output(i);
  Tensor& diff = state_->output_diffs[i];
  if (!diff.defined() || !(diff.shape() == y.shape())) diff = filled(state_->queue, y.dtype(), y.shape(), 0);
  return diff;
}

void Net::backward(const ExecutionContext& context) {
  State& s = *state_;
  if (!s.ready || s.stale) throw ValidationError("[Net] backward needs a forward in mode train before it");
  if (&context.queue() != &s.queue)
    throw ValidationError("[Net] expected the execution context of the net's own Context");
  std::map<int, Tensor> gradients;
  for (std::size_t i = 0; i < s.outputs.size(); i++) {
    const Tensor& y = s.outputs[i].tensor;
    if (!y.defined()) continue;
    auto diff = s.output_diffs.find(int(i));
    auto weight = s.network.loss_weights.find(int(i));
    Tensor seed;
    if (diff != s.output_diffs.end()) seed = diff->second;
    else if (weight != s.network.loss_weights.end() && weight->second != 0)
      seed = filled(s.queue, y.dtype(), y.shape(), weight->second);
    if (!seed.defined()) continue;
    Tensor& sum = gradients[s.plan.graph.outputs[i]];
    sum = sum.defined() ? apply(s.queue, "y0 = x0 + x1;", {sum, seed}) : seed;
  }
  if (gradients.empty()) throw ValidationError("[Net] there is no loss: see set_loss_weight and output_diff");
  s.ready = false;
  gradients = s.training->backward(*s.executor, std::move(gradients));
  for (std::size_t i = 0; i < s.gradients.size(); i++) {
    auto it = gradients.find(s.network.parameters[i].value);
    if (it == gradients.end() || !s.network.parameters[i].trainable) continue;
    Tensor& sum = s.gradients[i];
    sum = sum.defined() ? apply(s.queue, "y0 = x0 + x1;", {sum, it->second}) : contiguous(s.queue, it->second);
  }
  s.diffs.clear();
  for (int id : s.wanted)
    if (auto it = gradients.find(id); it != gradients.end()) s.diffs[id] = contiguous(s.queue, it->second);
}

void Net::zero_grad() { std::fill(state_->gradients.begin(), state_->gradients.end(), Tensor()); }

const Tensor& Net::param_diff(const std::string& name) const { return state_->gradients[state_->parameter(name)]; }

const Tensor& Net::tensor_diff(const std::string& name) const {
  static const Tensor none;
  auto it = state_->diffs.find(state_->value(name));
  return it == state_->diffs.end() ? none : it->second;
}

}  // namespace dlprim
