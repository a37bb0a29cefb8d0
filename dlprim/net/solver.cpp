// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/net/solver.hpp>

#include "array.hpp"

namespace dlprim {

namespace {
constexpr const char* step_name = "solver.step";
std::string slot_name(const std::string& parameter, std::size_t slot) { return parameter + "#" + std::to_string(slot); }
}  // namespace

void Solver::step(const ExecutionContext& context) {
  Queue& queue = context.queue();
  if (schedule) lr = schedule(steps_);
  std::map<DataType, Group> groups;
  std::vector<Tensor> gradients;  // stay until everything is enqueued
  for (const std::string& name : net_.param_names()) {
    if (!net_.trainable(name) || !net_.param_diff(name).defined()) continue;
    Tensor& parameter = net_.param(name);
    std::vector<Tensor>& state = states_[name];
    while (int(state.size()) < slots_) state.push_back(filled(queue, parameter.dtype(), parameter.shape(), 0));
    Group& group = groups[parameter.dtype()];
    group.dtype = parameter.dtype();
    group.sizes.push_back(parameter.numel());
    gradients.push_back(contiguous(queue, net_.param_diff(name)));
    group.parameters.push_back(parameter.view(queue).data);
    group.gradients.push_back(gradients.back().view(queue).data);
    for (std::size_t k = 0; k < state.size(); k++) group.slots[k].push_back(state[k].view(queue).data);
  }
  for (const auto& [dtype, group] : groups) update(queue, group);
  steps_++;
}

NamedTensors Solver::state() const {
  NamedTensors result;
  const double steps = double(steps_);
  result[step_name] = Tensor::from_host(DataType::float64, {1}, &steps);
  const ExecutionContext context = net_.context().make_execution_context();
  for (const auto& [name, state] : states_)
    for (std::size_t k = 0; k < state.size(); k++) {
      std::vector<std::byte> elements(state[k].bytes());
      state[k].to_host(context, elements.data());
      result[slot_name(name, k)] = Tensor::from_host(state[k].dtype(), state[k].shape(), elements.data());
    }
  return result;
}

void Solver::load_state(const NamedTensors& state) {
  Queue& queue = net_.context().device().default_queue();
  auto step = state.find(step_name);
  if (step == state.end() || step->second.numel() != 1) throw ValidationError("[solver] this is no solver's state");
  std::map<std::string, std::vector<Tensor>> states;
  for (const std::string& name : net_.param_names()) {
    for (int k = 0; k < slots_; k++) {
      auto it = state.find(slot_name(name, std::size_t(k)));
      if (it == state.end()) break;  // a parameter that had no gradient
      const Tensor& parameter = net_.param(name);
      if (!(it->second.shape() == parameter.shape()) || !is_floating(it->second.dtype()))
        throw ValidationError("[solver] expected state of shape " + parameter.shape().text() + " for '" + name +
                              "', got " + it->second.shape().text());
      states[name].push_back(apply(queue, "y0 = x0;", {it->second.clone(queue)}, {}, parameter.dtype()));
    }
  }
  states_ = std::move(states);
  steps_ = std::int64_t(to_reals(queue, step->second)[0]);
}

SGD::SGD(Net& net, double learning_rate, double momentum_, double decay, bool nesterov_)
    : Solver(net, learning_rate, 1), momentum(momentum_), weight_decay(decay), nesterov(nesterov_) {}

void SGD::update(Queue& queue, const Group& group) {
  SgdOptions options;
  options.lr = lr, options.momentum = momentum, options.weight_decay = weight_decay;
  options.nesterov = nesterov && momentum != 0;
  // A momentum buffer of zeros makes the first step like all others.
  sgd(queue, group.sizes, group.list(group.parameters), group.list(group.gradients), group.list(group.slots[0]),
      options, {});
}

Adam::Adam(Net& net, double learning_rate, double b1, double b2, double epsilon, double decay)
    : Solver(net, learning_rate, 2), beta1(b1), beta2(b2), eps(epsilon), weight_decay(decay) {}

void Adam::update(Queue& queue, const Group& group) {
  AdamOptions options;
  options.lr = lr, options.beta1 = beta1, options.beta2 = beta2, options.eps = eps;
  options.weight_decay = weight_decay, options.decoupled_decay = decoupled_;
  const Tensor counted = filled(queue, DataType::float32, {1}, double(steps() + 1));
  const std::vector<BufferRef> counts(group.sizes.size(), counted.view(queue).data);
  adam(queue, group.sizes, group.list(group.parameters), group.list(group.gradients), group.list(group.slots[0]),
       group.list(group.slots[1]), {{}, group.dtype}, {counts, DataType::float32}, options, {});
}

}  // namespace dlprim
