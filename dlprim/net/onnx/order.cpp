// SPDX-License-Identifier: MIT
#include "order.hpp"

#include <string_view>
#include <unordered_map>

namespace dlprim {

namespace {

class Order {
 public:
  explicit Order(const onnx_format::Graph& graph) : graph_(graph), states_(std::size_t(graph.node_size())) {
    for (int i = 0; i < graph.node_size(); i++)
      for (const auto& name : graph.node(i).output())
        if (!name.empty()) producers_.try_emplace(name, i);
  }

  std::vector<int> run() {
    for (int i = 0; i < graph_.node_size(); i++) visit(i);
    return std::move(order_);
  }

 private:
  enum State : std::uint8_t { unseen, waiting, done };
  struct Visit {
    int node;
    std::vector<int> needed;  // still to be put in front of it
  };

  // Without recursion: a file may hold any number of nodes in reverse.
  void visit(int first) {
    std::vector<Visit> stack;
    auto begin = [&](int node) {
      if (states_[std::size_t(node)] != unseen) return;
      states_[std::size_t(node)] = waiting;
      stack.push_back({node, {}});
      needed_by(graph_.node(node), stack.back().needed, 0);
    };
    begin(first);
    while (!stack.empty()) {
      if (stack.back().needed.empty()) {
        order_.push_back(stack.back().node), states_[std::size_t(stack.back().node)] = done;
        stack.pop_back();
        continue;
      }
      const int next = stack.back().needed.back();
      stack.back().needed.pop_back();
      begin(next);
    }
  }

  // Nodes that make what this one reads, the first last.
  void needed_by(const onnx_format::Node& node, std::vector<int>& needed, int depth) const {
    if (depth > 64) return;  // the importer refuses it
    for (const auto& attribute : node.attribute())
      if (attribute.has_g())
        for (const auto& inner : attribute.g().node()) needed_by(inner, needed, depth + 1);
    for (const auto& attribute : node.attribute())
      if (attribute.has_g())
        for (const auto& output : attribute.g().output()) need(output.name(), needed);
    for (auto name = node.input().rbegin(); name != node.input().rend(); ++name) need(*name, needed);
  }

  void need(const std::string& name, std::vector<int>& needed) const {
    const auto it = producers_.find(name);
    if (it != producers_.end() && states_[std::size_t(it->second)] == unseen) needed.push_back(it->second);
  }

  const onnx_format::Graph& graph_;
  std::unordered_map<std::string_view, int> producers_;
  std::vector<State> states_;
  std::vector<int> order_;
};

}  // namespace

std::vector<int> node_order(const onnx_format::Graph& graph) { return Order(graph).run(); }

}  // namespace dlprim
