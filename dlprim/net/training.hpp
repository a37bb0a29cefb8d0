// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <set>

#include "operator.hpp"

namespace dlprim {

/// Sets a node up for training: gives it its training form, its gradient and the outputs that this reads, and reads the
/// attributes for both. `values` names new outputs.
void prepare_training(Node& node, std::vector<std::string>& values);
void prepare_training(Graph& graph, std::vector<std::string>& values);

/// The backward pass of a plan.
class Training {
 public:
  /// Finds which gradients `sources` (values) need. The graph is set up for training and stays as it is.
  Training(const Graph& graph, const std::set<int>& sources);
  /// Values that must outlive the forward pass.
  const std::set<int>& kept() const noexcept { return kept_; }
  const std::set<int>& sources() const noexcept { return sources_; }
  /// From gradients of values to those of all sources that they reach; frees what forward had kept.
  std::map<int, Tensor> backward(Executor& executor, std::map<int, Tensor> gradients) const;

 private:
  void find_needs(const std::set<int>& sources);
  void choose_steps();

  const Graph& graph_;
  std::vector<bool> steps_;  // of which of the graph's nodes gradients are computed
  std::set<int> sources_, needs_, kept_;
  std::vector<std::string> refused_;
};

/// The plan for a graph that runs often, made again only for other sources.
class KeptTraining {
 public:
  std::shared_ptr<const Training> get(const Graph& graph, const std::set<int>& sources);
  /// The graph has changed.
  void forget() { made_.reset(); }

 private:
  std::shared_ptr<const Training> made_;
};

}  // namespace dlprim
