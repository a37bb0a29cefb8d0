// SPDX-License-Identifier: MIT
#pragma once
#include <set>

#include "operator.hpp"

namespace dlprim {

/// Gives a node its training form and the outputs that its gradient reads; `values` names new ones.
void choose_training_form(Node& node, std::vector<std::string>& values);

/// The backward pass of a plan.
class Training {
 public:
  /// Rewrites nodes into their training forms and finds which gradients `sources` (values) need. `mark` is called with
  /// the values that the backward pass reads.
  Training(Graph& graph, std::vector<std::string>& values, const std::set<int>& sources);
  /// Values that must outlive the forward pass.
  const std::set<int>& kept() const noexcept { return kept_; }
  /// From gradients of values to those of all sources that they reach; frees what forward had kept.
  std::map<int, Tensor> backward(Executor& executor, std::map<int, Tensor> gradients) const;

 private:
  /// The gradient of a node; without a function where none is computed.
  struct Step {
    const struct Gradient* gradient = nullptr;
    std::any parsed;
  };

  void find_needs(const std::set<int>& sources);
  void set_up_steps();

  Graph& graph_;
  std::vector<Step> steps_;  // of the graph's nodes
  std::set<int> sources_, needs_, kept_;
  std::vector<std::string> refused_;
};

}  // namespace dlprim
