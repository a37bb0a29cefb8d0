// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/net.hpp>

#include "operator.hpp"
#include "training.hpp"

namespace dlprim {

/// What a Net is made of. `network` is what was loaded; `plan` is what runs, made of it when first needed for a mode.
/// A parameter's elements are on the host in network.constants, or live: on the device, to be read and written by
/// anyone. Once live they stay so, and plans read them in every run instead of folding them.
struct Net::State {
  explicit State(const Context& device) : context(device), queue(device.device().default_queue()) {}
  Context context;
  Queue& queue;
  CalculationsMode mode = CalculationsMode::predict;
  Network network, plan;
  bool loaded = false, stale = true, keep = false;
  bool ready = false;  // forward ran in mode train, backward did not yet
  std::uint64_t seed = 0, builds = 0;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Training> training;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  std::vector<Shape> last_shapes;  // of the inputs, when the network ran last
  std::vector<Tensor> live, gradients;  // of parameters
  std::vector<bool> given;              // parameters that the model came with elements for
  std::map<std::string, std::size_t> parameter_index;
  std::set<int> wanted;                 // values whose gradients are asked for
  std::map<int, Tensor> output_diffs;   // by output
  std::map<int, Tensor> diffs;          // of wanted values

  void set(int i, Value value) {
    value.shape = Known::with_shapes;
    inputs.at(std::size_t(i)) = std::move(value);
  }
  void load(Network from);
  /// Makes the plan if it is stale.
  void build();
  /// Brings a parameter to the device, where it stays.
  Tensor& make_live(std::size_t parameter);
  std::size_t parameter(const std::string& name) const;
  /// The last value of that name. Throws ValidationError.
  int value(const std::string& name) const;
  int output(const std::string& name) const;
};

}  // namespace dlprim
