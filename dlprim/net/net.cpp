// SPDX-License-Identifier: MIT
#include <dlprim/net/net.hpp>

#include <algorithm>

#include "array.hpp"
#include "net_state.hpp"
#include "optimize.hpp"
#include "prepare.hpp"

namespace dlprim {

namespace {

int find(const std::vector<ValueInfo>& list, const std::string& name, const char* what) {
  std::string known;
  for (std::size_t i = 0; i < list.size(); i++) {
    if (list[i].name == name) return int(i);
    known += (i ? ", " : "") + list[i].name;
  }
  throw ValidationError(std::string("[Net] expected one of the ") + what + "s " + known + ", got " + name);
}

bool accepts(const ValueInfo& info, const Shape& shape) {
  if (!info.ranked || info.flexible) return true;
  if (shape.size() != info.shape.size()) return false;
  for (int d = 0; d < shape.size(); d++)
    if (info.shape[d] >= 0 && info.shape[d] != shape[d]) return false;
  return true;
}

std::string text(const ValueInfo& info) {
  if (!info.ranked) return "any shape";
  std::string result = "[";
  for (int d = 0; d < info.shape.size(); d++) {
    const std::string& name = info.names[std::size_t(d)];
    result += (d ? ", " : "") + (info.shape[d] >= 0 ? std::to_string(info.shape[d]) : name.empty() ? "?" : name);
  }
  return result + "]";
}

}  // namespace

Net::Net(const Context& context) : state_(std::make_unique<State>(context)) {}
Net::~Net() = default;
Net::Net(Net&&) noexcept = default;
Net& Net::operator=(Net&&) noexcept = default;

const Context& Net::context() const noexcept { return state_->context; }
void Net::mode(CalculationsMode mode) {
  state_->stale |= state_->mode != mode;
  state_->mode = mode;
}
void Net::keep_intermediate_tensors(bool keep) {
  state_->stale |= state_->keep != keep;
  state_->keep = keep;
}
const Network& Net::network() const noexcept { return state_->network; }
CalculationsMode Net::mode() const noexcept { return state_->mode; }
int Net::inputs() const noexcept { return int(state_->network.inputs.size()); }
int Net::outputs() const noexcept { return int(state_->network.outputs.size()); }
const ValueInfo& Net::input_info(int i) const { return state_->network.inputs.at(std::size_t(i)); }
const ValueInfo& Net::output_info(int i) const { return state_->network.outputs.at(std::size_t(i)); }
int Net::input_index(const std::string& name) const { return find(state_->network.inputs, name, "input"); }
int Net::output_index(const std::string& name) const { return find(state_->network.outputs, name, "output"); }

void Net::load_model(const ModelBase& model) { state_->load(model.network()); }

void Net::State::load(Network from) {
  resolve(from);
  network = std::move(from);
  loaded = stale = true, seed = 0;
  executor.reset(), training.reset();
  inputs.assign(network.inputs.size(), {});
  outputs.clear(), last_shapes.clear(), wanted.clear(), output_diffs.clear(), parameter_index.clear();
  live.assign(network.parameters.size(), {}), gradients.assign(network.parameters.size(), {});
  given.assign(network.parameters.size(), false), diffs.clear(), ready = false;
  for (std::size_t i = 0; i < network.parameters.size(); i++) {
    parameter_index[network.parameters[i].name] = i;
    given[i] = network.constants.contains(network.parameters[i].value);
  }
}

void Net::State::build() {
  if (!loaded) throw ValidationError("[Net] no model is loaded");
  if (!stale) return;
  const bool train = mode == CalculationsMode::train;
  for (std::size_t i = 0; i < network.parameters.size(); i++)
    if (train || !network.constants.contains(network.parameters[i].value)) make_live(i);
  plan = network;
  training.reset();
  std::set<int> kept;
  if (train) {
    std::set<int> sources = wanted;
    for (const Parameter& p : network.parameters)
      if (p.trainable) sources.insert(p.value);
    prepare_training(plan.graph, plan.values);
    training = std::make_unique<Training>(plan.graph, sources);
    kept = training->kept();
  }
  if (keep)
    for (std::size_t id = 0; id < plan.values.size(); id++) kept.insert(int(id));
  if (!train && !keep) optimize(plan, queue);
  mark_dead(plan.graph, kept);
  parse_attributes(plan.graph);
  executor = std::make_unique<Executor>(queue);
  executor->seed(0x5eed + builds++);
  for (const auto& [id, tensor] : plan.constants)
    executor->slot(id) = Value{tensor.clone(queue), nullptr, Known::always, Known::always};
  last_shapes.clear();
  stale = ready = false;
}

Tensor& Net::input(int i) {
  const ValueInfo& info = input_info(i);
  Value& value = state_->inputs.at(std::size_t(i));
  if (!value.tensor.defined()) {
    if (!info.ranked || std::any_of(info.shape.begin(), info.shape.end(), [](std::int64_t n) { return n < 0; }))
      throw ValidationError("[Net] input '" + info.name + "' has open sizes " + text(info) + ": set them first");
    reshape_input(i, info.shape);
  }
  return value.tensor;
}

void Net::reshape_input(int i, const Shape& shape) {
  set_input(i, filled(state_->queue, input_info(i).dtype, shape, 0));
}

void Net::set_batch(std::int64_t size) {
  for (int i = 0; i < inputs(); i++) {
    const Tensor& now = state_->inputs[std::size_t(i)].tensor;
    Shape shape = now.defined() ? now.shape() : input_info(i).shape;
    if (shape.size() == 0 || shape[0] == size) continue;
    shape[0] = size;
    reshape_input(i, shape);
  }
}

void Net::set_input(int i, const Tensor& tensor) {
  const ValueInfo& info = input_info(i);
  if (tensor.dtype() != info.dtype || !accepts(info, tensor.shape()))
    throw ValidationError("[Net] expected for input '" + info.name + "' " + dlprim::name(info.dtype) + " " +
                          text(info) + ", got " + dlprim::name(tensor.dtype()) + " " + tensor.shape().text());
  state_->set(i, Value{tensor, nullptr});
}

void Net::set_input_sequence(int i, std::vector<Tensor> tensors) {
  state_->set(i, Value{{}, std::make_shared<std::vector<Tensor>>(std::move(tensors))});
  state_->inputs[std::size_t(i)].shape = Known::never;
}

void Net::set_input_empty(int i) { state_->set(i, {}); }

void Net::forward(const ExecutionContext& context) {
  State& s = *state_;
  s.build();
  if (&context.queue() != &s.queue)
    throw ValidationError("[Net] expected the execution context of the net's own Context");
  std::vector<Shape> shapes;
  for (int i = 0; i < inputs(); i++) {
    if (!s.inputs[std::size_t(i)].present() && !input_info(i).optional) input(i);
    shapes.push_back(s.inputs[std::size_t(i)].tensor.shape());
  }
  if (shapes != s.last_shapes) s.executor->forget_shapes();
  s.last_shapes = std::move(shapes);
  const Graph& graph = s.plan.graph;
  for (std::size_t i = 0; i < s.live.size(); i++)
    if (s.live[i].defined())
      s.executor->slot(s.network.parameters[i].value) = Value{s.live[i], nullptr, Known::never, Known::always};
  for (std::size_t i = 0; i < s.inputs.size(); i++) s.executor->slot(graph.inputs[i]) = s.inputs[i];
  s.executor->run(graph);
  s.ready = s.training != nullptr;
  s.outputs.clear();
  for (int id : graph.outputs) s.outputs.push_back(s.executor->value(id));
  for (int id : graph.outputs)  // what is known stays for the next run
    if (!s.training && !s.keep && s.executor->value(id).data == Known::never) s.executor->slot(id) = {};
  for (Value& value : s.outputs)
    if (value.tensor.defined()) value.tensor = contiguous(context.queue(), value.tensor);
}

const Tensor& Net::output(int i) {
  const ValueInfo& info = output_info(i);
  if (state_->outputs.empty()) forward(state_->context.make_execution_context());
  const Tensor& tensor = state_->outputs.at(std::size_t(i)).tensor;
  if (!tensor.defined()) throw ValidationError("[Net] output '" + info.name + "' is no tensor");
  return tensor;
}

const std::vector<Tensor>* Net::output_sequence(int i) const {
  return state_->outputs.at(std::size_t(i)).sequence.get();
}

bool Net::output_present(int i) const { return state_->outputs.at(std::size_t(i)).present(); }

}  // namespace dlprim
