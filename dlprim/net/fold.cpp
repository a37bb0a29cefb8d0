// SPDX-License-Identifier: MIT
#include <algorithm>

#include "operator.hpp"
#include "optimize.hpp"

namespace dlprim {

namespace {

// Larger results are made in the first run, off the host, as are those that together take more.
constexpr std::size_t largest = std::size_t(64) << 20, most = std::size_t(512) << 20;

bool is_literal(const Node& node) { return node.domain.empty() && node.type == "Constant"; }

// Whether the node may be computed when loading: constants are all it reads, and it holds no inner graph.
bool is_constant(const Network& network, const Node& node) {
  auto known = [&](int id) { return id < 0 || network.constants.contains(id); };
  auto graph = [](const auto& item) { return std::holds_alternative<std::shared_ptr<Graph>>(item.second); };
  return node.captured.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), known) &&
         std::none_of(node.attributes.begin(), node.attributes.end(), graph);
}

}  // namespace

void fold_constants(Network& network, Queue& queue, bool literals_only) {
  Executor executor(queue);
  std::vector<Node> rest;
  std::size_t total = 0;
  for (Node& node : network.graph.nodes) {
    bool folded = total < most && (!literals_only || is_literal(node)) && is_constant(network, node);
    if (folded) {
      for (int id : node.inputs)
        if (id >= 0 && !executor.value(id).present())
          executor.slot(id) = Value{network.constants.at(id).clone(queue), nullptr, Known::always, Known::always};
      executor.run(Graph{"", {node}, {}, {}});
      auto small = [&](int id) {
        const Value& value = executor.value(id);
        return value.tensor.defined() && value.data == Known::always && value.tensor.bytes() <= largest;
      };
      folded = std::all_of(node.outputs.begin(), node.outputs.end(), [&](int id) { return id < 0 || small(id); });
    }
    for (int id : node.outputs) {
      if (!folded || id < 0) continue;
      const Tensor& tensor = executor.value(id).tensor;
      network.constants[id] = Tensor::from_host(tensor.dtype(), tensor.shape(), tensor.read(queue).data());
      total += tensor.bytes();
    }
    if (!folded) rest.push_back(std::move(node));
  }
  network.graph.nodes = std::move(rest);
}

}  // namespace dlprim
