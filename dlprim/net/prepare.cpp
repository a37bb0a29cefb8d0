// SPDX-License-Identifier: MIT
#include "prepare.hpp"

#include "operator.hpp"

namespace dlprim {

namespace {

template <class F>
void for_each_inner_graph(Node& node, F&& function) {
  for (auto& [name, attribute] : node.attributes)
    if (auto* graph = std::get_if<std::shared_ptr<Graph>>(&attribute)) function(**graph);
}

class Preparation {
 public:
  explicit Preparation(const Network& network) : network_(network) {}

  // Gives the values that the graph reads from outside.
  std::set<int> visit(Graph& graph) {
    std::set<int> defined(graph.inputs.begin(), graph.inputs.end()), outside;
    auto read = [&](int id) {
      if (id >= 0 && !defined.contains(id)) outside.insert(id);
    };
    for (Node& node : graph.nodes) {
      resolve(node);
      std::set<int> captured;
      for_each_inner_graph(node, [&](Graph& inner) { captured.merge(visit(inner)); });
      node.captured.assign(captured.begin(), captured.end());
      for (int id : node.inputs) read(id);
      for (int id : captured) read(id);
      for (int id : node.outputs)
        if (id >= 0) defined.insert(id);
    }
    for (int id : graph.outputs) read(id);
    return outside;
  }

  // One error for everything.
  void report() {
    const std::size_t nodes = refused_.size();
    for (const auto* ids : {&network_.graph.inputs, &network_.graph.outputs})
      for (int id : *ids)
        if (auto it = network_.unsupported.find(id); it != network_.unsupported.end() && reported_.insert(id).second)
          refused_.push_back("value '" + network_.values[std::size_t(id)] + "' of element type " + it->second);
    if (refused_.empty()) return;
    std::string message = "[Net] " + std::to_string(nodes) + " nodes are not supported:";
    for (const std::string& line : refused_) message += "\n  " + line;
    throw NotImplementedError(message);
  }

 private:
  void resolve(Node& node) {
    const Registry& registry = Registry::get();
    std::vector<std::string> problems{registry.refusal(node), node.refused};
    node.implementation = registry.find(node.domain, node.type);
    std::set<int> named;
    for (const auto& [ids, what] : {std::pair(&node.inputs, "input"), std::pair(&node.outputs, "output")})
      for (int id : *ids)
        if (auto it = network_.unsupported.find(id); it != network_.unsupported.end() && named.insert(id).second)
          problems.push_back(std::string(what) + " '" + network_.values[std::size_t(id)] + "' of element type " +
                             it->second);
    std::string line;
    for (const std::string& problem : problems)
      if (!problem.empty()) line += (line.empty() ? "" : ", ") + problem;
    reported_.insert(named.begin(), named.end());
    if (!line.empty())
      refused_.push_back((node.domain.empty() ? "" : node.domain + ".") + node.type + " (opset " +
                         std::to_string(node.version) + (node.name.empty() ? "" : ", node '" + node.name + "'") +
                         "): " + line);
  }

  const Network& network_;
  std::set<int> reported_;  // values of unsupported types that a refused node names
  std::vector<std::string> refused_;
};

}  // namespace

void mark_dead(Graph& graph, const std::set<int>& kept) {
  std::set<int> defined(graph.inputs.begin(), graph.inputs.end()), needed(graph.outputs.begin(), graph.outputs.end());
  needed.insert(kept.begin(), kept.end());
  for (const Node& node : graph.nodes) defined.insert(node.outputs.begin(), node.outputs.end());
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    for_each_inner_graph(*node, [](Graph& inner) { mark_dead(inner); });
    node->dead.clear();
    auto last_use = [&](int id) {
      if (id >= 0 && defined.contains(id) && needed.insert(id).second) node->dead.push_back(id);
    };
    for (int id : node->inputs) last_use(id);
    for (int id : node->captured) last_use(id);
    for (int id : node->outputs) last_use(id);
  }
}

void parse_attributes(Graph& graph) {
  for (Node& node : graph.nodes) {
    for_each_inner_graph(node, [](Graph& inner) { parse_attributes(inner); });
    parse_attributes(node);
  }
}

void resolve(Network& network) {
  Preparation preparation(network);
  preparation.visit(network.graph);
  preparation.report();
}

}  // namespace dlprim
