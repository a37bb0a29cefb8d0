// SPDX-License-Identifier: MIT
#include "optimize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "operator.hpp"

namespace dlprim {

namespace {

class Optimizer {
 public:
  explicit Optimizer(Network& network) : network_(network), nodes_(network.graph.nodes) {}

  void run() {
    drop_unneeded();
    count_uses();
    for (std::size_t i = 0; i < nodes_.size(); i++) {
      if (nodes_[i].outputs.empty()) continue;
      if (nodes_[i].type == "BatchNormalization") fold_norm(nodes_[i]);
      if (nodes_[i].type == "Relu") fuse_activation(nodes_[i]);
    }
    drop_unneeded();
    const auto& constants = network_.constants;
    std::set<int> read;
    for (const Node& node : nodes_) {
      read.insert(node.inputs.begin(), node.inputs.end());
      read.insert(node.captured.begin(), node.captured.end());
    }
    read.insert(network_.graph.outputs.begin(), network_.graph.outputs.end());
    for (auto it = constants.begin(); it != constants.end();)
      it = read.contains(it->first) ? std::next(it) : network_.constants.erase(it);
  }

 private:
  void drop_unneeded() {
    std::set<int> needed(network_.graph.outputs.begin(), network_.graph.outputs.end());
    std::vector<Node> kept;
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      if (std::none_of(node->outputs.begin(), node->outputs.end(), [&](int id) { return needed.contains(id); })) continue;
      needed.insert(node->inputs.begin(), node->inputs.end());
      needed.insert(node->captured.begin(), node->captured.end());
      kept.push_back(std::move(*node));
    }
    std::reverse(kept.begin(), kept.end());
    nodes_ = std::move(kept);
  }

  void count_uses() {
    for (std::size_t i = 0; i < nodes_.size(); i++) {
      for (int id : nodes_[i].inputs) uses_[id]++;
      for (int id : nodes_[i].captured) uses_[id]++;
      for (int id : nodes_[i].outputs) producer_[id] = i;
    }
    for (int id : network_.graph.outputs) uses_[id]++;
  }

  // The node that makes this value for one reader alone, or null.
  Node* sole_producer(int id, std::initializer_list<const char*> types) {
    auto it = producer_.find(id);
    if (it == producer_.end() || uses_[id] != 1) return nullptr;
    Node& node = nodes_[it->second];
    const bool fits = std::any_of(types.begin(), types.end(), [&](const char* type) { return node.type == type; });
    return fits && node.domain.empty() && node.outputs.size() == 1 ? &node : nullptr;
  }

  const Tensor* constant(int id, int dims) const {
    auto it = network_.constants.find(id);
    if (it == network_.constants.end()) return nullptr;
    const Tensor& t = it->second;
    return t.dtype() == DataType::float32 && (dims == 0 || t.shape().size() == dims) ? &t : nullptr;
  }

  static std::vector<float> floats(const Tensor& t) {
    std::vector<float> values(std::size_t(t.numel()));
    const std::vector<std::byte> bytes = t.host();
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  int add_constant(const Shape& shape, const std::vector<float>& values) {
    const int id = int(network_.values.size());
    network_.values.push_back("folded");
    network_.constants[id] = Tensor::from_host(DataType::float32, shape, values.data());
    return id;
  }

  // y = (conv(x, w) + b - mean) * s + beta with s = gamma / sqrt(variance + eps) is conv(x, w s) + (b - mean) s + beta.
  void fold_norm(Node& norm) {
    if (norm.inputs.size() != 5 || norm.attributes.contains("training_mode") || norm.outputs.size() != 1) return;
    Node* conv = sole_producer(norm.inputs[0], {"Conv"});
    if (!conv || conv->attributes.contains("activation")) return;
    const Tensor* w = constant(conv->inputs.at(1), 0);
    const Tensor* parameters[4];
    for (std::size_t i = 0; i < 4; i++) parameters[i] = constant(norm.inputs[i + 1], 1);
    if (!w || w->shape().size() < 3 || std::any_of(parameters, parameters + 4, [](const Tensor* t) { return !t; })) return;
    const std::int64_t channels = w->shape()[0];
    for (const Tensor* t : parameters)
      if (t->numel() != channels) return;
    const bool biased = conv->inputs.size() > 2 && conv->inputs[2] >= 0;
    const Tensor* b = biased ? constant(conv->inputs[2], 1) : nullptr;
    if (biased && (!b || b->numel() != channels)) return;

    std::vector<float> weights = floats(*w), bias = b ? floats(*b) : std::vector<float>(std::size_t(channels), 0);
    const auto gamma = floats(*parameters[0]), beta = floats(*parameters[1]), mean = floats(*parameters[2]),
               variance = floats(*parameters[3]);
    auto eps = norm.attributes.find("epsilon");
    const double epsilon = eps == norm.attributes.end() ? 1e-5 : std::get<double>(eps->second);
    const std::size_t each = weights.size() / std::max<std::size_t>(1, std::size_t(channels));
    for (std::size_t c = 0; c < std::size_t(channels); c++) {
      const double scale = gamma[c] / std::sqrt(variance[c] + epsilon);
      for (std::size_t i = 0; i < each; i++) weights[c * each + i] = float(weights[c * each + i] * scale);
      bias[c] = float((bias[c] - mean[c]) * scale + beta[c]);
    }
    conv->inputs.resize(3, -1);
    conv->inputs[1] = add_constant(w->shape(), weights), conv->inputs[2] = add_constant({channels}, bias);
    take_over(*conv, norm);
  }

  void fuse_activation(Node& activation) {
    if (activation.inputs.size() != 1) return;
    Node* product = sole_producer(activation.inputs[0], {"Conv", "Gemm"});
    if (!product || product->attributes.contains("activation")) return;
    product->attributes["activation"] = activation.type;
    take_over(*product, activation);
  }

  // `first` gives what `second` gave; `second` is left without use.
  void take_over(Node& first, Node& second) {
    producer_[second.outputs[0]] = std::size_t(&first - nodes_.data());
    first.outputs = second.outputs;
    second.outputs.clear(), second.inputs.clear();
  }

  Network& network_;
  std::vector<Node>& nodes_;
  std::map<int, int> uses_;
  std::map<int, std::size_t> producer_;
};

}  // namespace

void optimize(Network& network) { Optimizer(network).run(); }

}  // namespace dlprim
