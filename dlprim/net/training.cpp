// SPDX-License-Identifier: MIT
#include "training.hpp"

#include "gradient.hpp"
#include "prepare.hpp"

namespace dlprim {

namespace {

void choose_form(Node& node, std::vector<std::string>& values) {
  const Gradient* gradient = node.gradient;
  if (!gradient || !node.domain.empty()) return;
  if (const Operator* form = Registry::get().find("dlprim.training", node.type)) {
    node.implementation = form, node.domain = form->domain;
    node.parsed.reset();
  }
  while (int(node.outputs.size()) < gradient->outputs) node.outputs.push_back(-1);
  for (int i = 0; i < gradient->outputs; i++)
    if (int& id = node.outputs[std::size_t(i)]; id < 0) {
      id = int(values.size());
      values.push_back(node.name + ".saved");
    }
}

}  // namespace

void prepare_training(Node& node, std::vector<std::string>& values) {
  node.gradient = GradientRegistry::get().find(node);
  choose_form(node, values);
  if (!node.parsed.has_value()) parse_attributes(node);
  if (node.gradient && node.gradient->function) node.parsed_gradient = GradientRegistry::parse(*node.gradient, node);
}

void prepare_training(Graph& graph, std::vector<std::string>& values) {
  for (Node& node : graph.nodes) prepare_training(node, values);
}

Training::Training(const Graph& graph, const std::set<int>& sources) : graph_(graph), sources_(sources) {
  ++setups();
  find_needs(sources);
  choose_steps();
}

void Training::find_needs(const std::set<int>& sources) {
  needs_ = sources;
  auto needed = [&](const std::vector<int>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](int id) { return needs_.contains(id); });
  };
  for (const Node& node : graph_.nodes) {
    const Gradient* gradient = node.gradient;
    if ((gradient && !gradient->function) || !(needed(node.inputs) || needed(node.captured))) continue;
    for (int id : node.outputs)
      if (id >= 0) needs_.insert(id);
  }
  std::set<int> reached(graph_.outputs.begin(), graph_.outputs.end());
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    const bool reaches = std::any_of(node->outputs.begin(), node->outputs.end(),
                                     [&](int id) { return reached.contains(id) && needs_.contains(id); });
    const Gradient* gradient = node->gradient;
    if (!reaches || (gradient && !gradient->function)) continue;
    reached.insert(node->inputs.begin(), node->inputs.end());
    reached.insert(node->captured.begin(), node->captured.end());
    if (!gradient) {
      refused_.push_back(node->type + (node->name.empty() ? "" : " '" + node->name + "'"));
      continue;
    }
    const Reads& reads = gradient->reads;
    if (reads.all_inputs) kept_.insert(node->inputs.begin(), node->inputs.end());
    if (reads.captured) kept_.insert(node->captured.begin(), node->captured.end());
    auto keep = [&](const std::vector<int>& numbers, const std::vector<int>& ids) {
      for (const int i : numbers)
        if (std::size_t(i) < ids.size()) kept_.insert(ids[std::size_t(i)]);
    };
    keep(reads.inputs, node->inputs), keep(reads.outputs, node->outputs);
  }
}

void Training::choose_steps() {
  auto needed = [&](int id) { return needs_.contains(id); };
  for (const Node& node : graph_.nodes)
    steps_.push_back(node.gradient && node.gradient->function &&
                     (std::any_of(node.inputs.begin(), node.inputs.end(), needed) ||
                      std::any_of(node.captured.begin(), node.captured.end(), needed)));
}

std::map<int, Tensor> Training::backward(Executor& executor, std::map<int, Tensor> gradients) const {
  if (!refused_.empty()) {
    std::string message = "[Net] " + std::to_string(refused_.size()) + " operators have no gradient:";
    for (const std::string& line : refused_) message += "\n  " + line;
    throw NotImplementedError(message);
  }
  for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
    const Node& node = graph_.nodes[i];
    auto arrived = [&](int id) { return gradients.contains(id); };
    if (steps_[i] && std::any_of(node.outputs.begin(), node.outputs.end(), arrived))
      with_name(node, [&] {
        GradientCall call(executor, node, needs_, gradients);
        node.gradient->function(call);
      });
    for (int id : node.outputs) {
      if (id < 0) continue;
      if (!sources_.contains(id)) gradients.erase(id);
      if (executor.value(id).data == Known::never) executor.slot(id) = {};
    }
  }
  std::erase_if(gradients, [&](const auto& entry) { return !sources_.contains(entry.first); });
  return gradients;
}

std::shared_ptr<const Training> KeptTraining::get(const Graph& graph, const std::set<int>& sources) {
  if (!made_ || made_->sources() != sources) made_ = std::make_shared<const Training>(graph, sources);
  return made_;
}

}  // namespace dlprim
