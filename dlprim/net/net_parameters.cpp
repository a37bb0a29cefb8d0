// SPDX-License-Identifier: MIT
// What Net does with parameters: find, start, load and save them.
#include <dlprim/error.hpp>
#include <dlprim/net/json.hpp>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/random.hpp>

#include <cmath>

#include "array.hpp"
#include "net_state.hpp"

namespace dlprim {

namespace {

Tensor initial(Queue& queue, const Parameter& p, std::uint64_t seed, std::size_t number) {
  if (p.start != Parameter::uniform) return filled(queue, p.dtype, p.shape, int(p.start == Parameter::ones));
  Tensor tensor(queue, p.dtype, p.shape);
  const double bound = 1 / std::sqrt(std::max(1.0, p.fan_in));
  random_fill(queue, tensor.view(queue), Distribution::uniform, -bound, bound, {seed, number});
  return tensor;
}

// Memory of its own on the device: its elements may change there, so that the host must not remember them.
Tensor device_copy(Queue& queue, const Tensor& from, DataType dtype) {
  Tensor tensor(queue, dtype, from.shape());
  if (tensor.numel()) copy(queue, tensor.view(queue), from.clone(queue).view(queue));
  return tensor;
}

Tensor host_copy(Queue& queue, const Tensor& tensor) {
  std::vector<std::byte> elements(tensor.bytes());
  if (tensor.on_host()) elements = tensor.host();
  else tensor.to_host(ExecutionContext(queue), elements.data());
  return Tensor::from_host(tensor.dtype(), tensor.shape(), elements.data());
}

}  // namespace

Tensor& Net::State::make_live(std::size_t i) {
  Tensor& tensor = live[i];
  if (tensor.defined()) return tensor;
  const Parameter& p = network.parameters[i];
  auto it = network.constants.find(p.value);
  if (it == network.constants.end()) {
    tensor = initial(queue, p, seed, i);
  } else {
    tensor = device_copy(queue, it->second, p.dtype);
    network.constants.erase(it);
  }
  stale = true;
  return tensor;
}

std::size_t Net::State::parameter(const std::string& name) const {
  auto it = parameter_index.find(name);
  if (it == parameter_index.end()) throw ValidationError("[Net] there is no parameter '" + name + "'");
  return it->second;
}

std::vector<std::string> Net::param_names() const {
  std::vector<std::string> names;
  for (const Parameter& p : state_->network.parameters) names.push_back(p.name);
  return names;
}

Tensor& Net::param(const std::string& name) { return state_->make_live(state_->parameter(name)); }

bool Net::trainable(const std::string& name) const {
  return state_->network.parameters[state_->parameter(name)].trainable;
}

void Net::freeze(const std::string& name, bool frozen) {
  const std::size_t i = state_->parameter(name);
  state_->network.parameters[i].trainable = !frozen;
  state_->gradients[i] = {};
  state_->stale = true;
}

void Net::initialize_parameters(std::uint64_t seed) {
  State& s = *state_;
  s.seed = seed;
  for (std::size_t i = 0; i < s.live.size(); i++) {
    if (s.given[i]) continue;
    const Parameter& p = s.network.parameters[i];
    s.network.constants.erase(p.value);
    const Tensor start = initial(s.queue, p, seed, i);
    if (s.live[i].defined()) copy(s.queue, s.live[i].view(s.queue), start.view(s.queue));
    else s.live[i] = start, s.stale = true;
  }
}

void Net::load_parameters(const NamedTensors& tensors, bool allow_missing) {
  State& s = *state_;
  std::string missing;
  for (const Parameter& p : s.network.parameters) {
    auto it = tensors.find(p.name);
    if (it == tensors.end()) missing += (missing.empty() ? "" : ", ") + p.name;
    else if (!(it->second.shape() == p.shape) || !is_floating(it->second.dtype()))
      throw ValidationError("[Net] expected for parameter '" + p.name + "' " + dlprim::name(p.dtype) + " " +
                            p.shape.text() + ", got " + dlprim::name(it->second.dtype()) + " " +
                            it->second.shape().text());
  }
  if (!missing.empty() && !allow_missing) throw ValidationError("[Net] parameters are missing: " + missing);
  for (std::size_t i = 0; i < s.live.size(); i++) {
    const Parameter& p = s.network.parameters[i];
    auto it = tensors.find(p.name);
    if (it == tensors.end()) continue;
    const Tensor& from = it->second;
    if (s.live[i].defined()) {
      if (from.numel()) copy(s.queue, s.live[i].view(s.queue), from.clone(s.queue).view(s.queue));
    } else if (from.dtype() != p.dtype) {
      s.network.constants.erase(p.value);
      s.live[i] = device_copy(s.queue, from, p.dtype), s.stale = true;
    } else {
      s.network.constants[p.value] = from;
      s.stale = true;
    }
  }
}

void Net::load_parameters(const std::string& path, bool allow_missing) {
  load_parameters(read_parameters(path), allow_missing);
}

NamedTensors Net::parameters() {
  State& s = *state_;
  NamedTensors result;
  for (std::size_t i = 0; i < s.live.size(); i++) {
    const Parameter& p = s.network.parameters[i];
    auto constant = s.network.constants.find(p.value);
    const Tensor& tensor = constant == s.network.constants.end() ? s.make_live(i) : constant->second;
    result[p.name] = host_copy(s.queue, tensor);
  }
  return result;
}

void Net::save_parameters(const std::string& path) { write_parameters(path, parameters()); }

void Net::load_from_json(const std::string& text) {
  JSONModel model;
  model.load_text(text);
  load_model(model);
}

void Net::load_from_json_file(const std::string& path) {
  JSONModel model;
  model.load(path);
  load_model(model);
}

}  // namespace dlprim
