// SPDX-License-Identifier: MIT
#include "optimize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>

#include "operator.hpp"

namespace dlprim {

namespace {

class Optimizer {
 public:
  explicit Optimizer(Network& network) : network_(network), nodes_(network.graph.nodes) {}

  void run(Queue& queue) {
    drop_unneeded();
    fold_constants(network_, queue, true);
    fuse_quantized(network_, queue);
    drop_unneeded();
    fold_constants(network_, queue);
    count_uses();
    for (Node& node : nodes_) {
      if (node.outputs.size() != 1 || !node.domain.empty()) continue;
      if (node.type == "BatchNormalization") fold_norm(node);
      else if (node.type == "Add") fuse_bias(node), fuse_residual(node);
      else if (node.type == "Mul") fuse_gate(node);
      fuse_activation(node);
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
    for (Node& node : nodes_)
      if (reads_weights(node) &&
          std::ranges::all_of(weights_of(node), [&](int id) { return id < 0 || constants.contains(id); }))
        node.attributes["constant_weights"] = std::int64_t(1);
    choose_layouts(network_);
  }

 private:
  void drop_unneeded() {
    std::set<int> needed(network_.graph.outputs.begin(), network_.graph.outputs.end());
    std::vector<Node> kept;
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      if (std::ranges::none_of(node->outputs, [&](int id) { return needed.contains(id); })) continue;
      needed.insert(node->inputs.begin(), node->inputs.end());
      needed.insert(node->captured.begin(), node->captured.end());
      kept.push_back(std::move(*node));
    }
    std::reverse(kept.begin(), kept.end());
    nodes_ = std::move(kept);
  }

  static bool reads_weights(const Node& node) {
    static const std::set<std::pair<std::string, std::string>> types{{"", "Conv"},
                                                                     {"", "MatMul"},
                                                                     {"", "Gemm"},
                                                                     {"", "MatMulInteger"},
                                                                     {"com.microsoft", "FusedConv"},
                                                                     {"com.microsoft", "FusedMatMul"},
                                                                     {"com.microsoft", "FusedGemm"},
                                                                     {"com.microsoft", "NhwcConv"},
                                                                     {"com.microsoft", "Attention"},
                                                                     {"com.microsoft", "MatMulNBits"},
                                                                     {"com.microsoft", "MatMulIntegerToFloat"},
                                                                     {"com.microsoft", "DynamicQuantizeMatMul"},
                                                                     {"com.microsoft", "QMoE"}};
    return types.contains({node.domain, node.type}) && node.inputs.size() > 1;
  }
  // The inputs that an operator lays out anew once where they are constants: mostly one, else with scales and the like.
  static std::span<const int> weights_of(const Node& node) {
    const std::span inputs(node.inputs);
    if (node.type == "MatMulNBits") return inputs.subspan(1, std::min<std::size_t>(3, inputs.size() - 1));
    if (node.type == "QMoE" && inputs.size() > 2)
      return inputs.subspan(2, std::min<std::size_t>(12, inputs.size() - 2));
    return inputs.subspan(1, 1);
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

  // An attribute or its default; nothing where it has another type, for the operator to refuse.
  template <class T>
  static std::optional<T> attribute(const Node& node, const char* name, const T& otherwise) {
    auto it = node.attributes.find(name);
    if (it == node.attributes.end()) return otherwise;
    const T* value = std::get_if<T>(&it->second);
    return value ? std::optional(*value) : std::nullopt;
  }

  // y = (conv(x, w) + b - mean) * s + beta with s = gamma / sqrt(variance + eps) is conv(x, w s) + (b - mean) s + beta.
  void fold_norm(Node& norm) {
    const std::optional<double> epsilon = attribute(norm, "epsilon", 1e-5);
    if (norm.inputs.size() != 5 || norm.attributes.contains("training_mode") || norm.outputs.size() != 1 || !epsilon)
      return;
    Node* conv = sole_producer(norm.inputs[0], {"Conv"});
    if (!conv || conv->attributes.contains("activation") || is_sum(*conv)) return;
    const Tensor* w = conv->inputs.size() > 1 ? constant(conv->inputs[1], 0) : nullptr;
    const Tensor* parameters[4];
    for (std::size_t i = 0; i < 4; i++) parameters[i] = constant(norm.inputs[i + 1], 1);
    if (!w || w->shape().size() < 3 || std::count(parameters, parameters + 4, nullptr)) return;
    const std::int64_t channels = w->shape()[0];
    for (const Tensor* t : parameters)
      if (t->numel() != channels) return;
    const bool biased = conv->inputs.size() > 2 && conv->inputs[2] >= 0;
    const Tensor* b = biased ? constant(conv->inputs[2], 1) : nullptr;
    if (biased && (!b || b->numel() != channels)) return;

    std::vector<float> weights = floats(*w), bias = b ? floats(*b) : std::vector<float>(std::size_t(channels), 0);
    const auto gamma = floats(*parameters[0]), beta = floats(*parameters[1]), mean = floats(*parameters[2]),
               variance = floats(*parameters[3]);
    const std::size_t each = weights.size() / std::max<std::size_t>(1, std::size_t(channels));
    for (std::size_t c = 0; c < std::size_t(channels); c++) {
      const double scale = gamma[c] / std::sqrt(variance[c] + *epsilon);
      for (std::size_t i = 0; i < each; i++) weights[c * each + i] = float(weights[c * each + i] * scale);
      bias[c] = float((bias[c] - mean[c]) * scale + beta[c]);
    }
    conv->inputs.resize(3, -1);
    conv->inputs[1] = add_constant(w->shape(), weights), conv->inputs[2] = add_constant({channels}, bias);
    take_over(*conv, norm);
  }

  // A bound of Clip: an attribute, or an input since operator set 11.
  std::optional<float> bound(const Node& clip, std::size_t input, const char* name) const {
    if (auto it = clip.attributes.find(name); it != clip.attributes.end())
      if (const double* value = std::get_if<double>(&it->second)) return float(*value);
    const Tensor* t = input < clip.inputs.size() ? constant(clip.inputs[input], 0) : nullptr;
    return t && t->numel() == 1 ? std::optional(floats(*t)[0]) : std::nullopt;
  }

  // Whether a HardSigmoid is relu6(x + 3) / 6, as of MobileNetV3: its slope by default is another.
  static bool is_sixth(const Node& node) {
    const auto alpha = attribute(node, "alpha", 0.2), beta = attribute(node, "beta", 0.5);
    return alpha && beta && std::abs(*alpha - 1.0 / 6) < 1e-7 && *beta == 0.5;
  }

  // The name of the activation that the node is, or an empty text.
  std::string activation_of(const Node& node) const {
    if (node.type == "Relu" || node.type == "HardSwish" || node.type == "Sigmoid") return node.type;
    if (node.type == "HardSigmoid") return is_sixth(node) ? node.type : "";
    if (node.type == "Clip") return bound(node, 1, "min") == 0 && bound(node, 2, "max") == 6 ? "Relu6" : "";
    if (node.type != "Gelu") return "";
    const std::optional<std::string> approximate = attribute<std::string>(node, "approximate", "none");
    return !approximate ? "" : *approximate == "none" ? "Gelu" : "GeluTanh";
  }

  void fuse_activation(Node& node) {
    const std::string activation = activation_of(node);
    if (activation.empty() || node.inputs.empty()) return;
    Node* first = sole_producer(node.inputs[0], {"Conv", "Gemm", "MatMul"});
    if (!first && activation == "Relu") first = sole_producer(node.inputs[0], {"Add"});
    if (first && !first->attributes.contains("activation")) fuse(*first, activation, node);
  }

  void fuse(Node& first, const std::string& activation, Node& second) {
    first.attributes["activation"] = activation;
    take_over(first, second);
  }

  // x * sigmoid(x) of a product x.
  void fuse_gate(Node& mul) {
    for (std::size_t i = 0; i < 2 && mul.inputs.size() == 2; i++) {
      Node* sigmoid = sole_producer(mul.inputs[i], {"Sigmoid"});
      const int x = mul.inputs[1 - i];
      if (!sigmoid || sigmoid->inputs[0] != x || uses_[x] != 2) continue;
      uses_[x] = 1;
      Node* product = sole_producer(x, {"Conv", "Gemm", "MatMul"});
      if (!product || product->attributes.contains("activation")) {
        uses_[x] = 2;
        continue;
      }
      sigmoid->inputs.clear(), sigmoid->outputs.clear();
      return fuse(*product, "Silu", mul);
    }
  }

  // A vector added to the rows of a matrix product. The product takes it as a third input.
  void fuse_bias(Node& add) {
    for (std::size_t i = 0; i < 2 && add.inputs.size() == 2; i++) {
      Node* product = sole_producer(add.inputs[i], {"MatMul"});
      if (!product || product->inputs.size() != 2 || product->attributes.contains("activation")) continue;
      const Tensor *bias = constant(add.inputs[1 - i], 1), *weights = constant(product->inputs[1], 2);
      if (!bias || !weights || bias->numel() != weights->shape()[1]) continue;
      product->inputs.push_back(add.inputs[1 - i]);
      return take_over(*product, add);
    }
  }

  static bool is_sum(const Node& conv) { return conv.attributes.contains("residual"); }

  // The later of the two summands is a convolution: it takes the sum's place, and what is added as a fourth input.
  void fuse_residual(Node& add) {
    Node* conv = nullptr;
    int residual = -1;
    for (std::size_t i = 0; i < 2 && add.inputs.size() == 2; i++) {
      Node* node = sole_producer(add.inputs[i], {"Conv"});
      if (!node || node->attributes.contains("activation") || is_sum(*node) || node < conv) continue;
      conv = node, residual = add.inputs[1 - i];
    }
    if (!conv) return;
    Node sum = std::move(*conv);
    conv->inputs.clear(), conv->outputs.clear();
    sum.inputs.resize(3, -1);
    sum.inputs.push_back(residual);
    sum.attributes["residual"] = std::int64_t(1);
    sum.outputs = add.outputs;
    add = std::move(sum);
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

void optimize(Network& network, Queue& queue) { Optimizer(network).run(queue); }

Activation fused_activation(const AttributeReader& reader) {
  static const std::map<std::string, Activation> names{{"", Activation::none},
                                                       {"Relu", Activation::relu},
                                                       {"Relu6", Activation::relu6},
                                                       {"Silu", Activation::silu},
                                                       {"Gelu", Activation::gelu},
                                                       {"GeluTanh", Activation::gelu_tanh},
                                                       {"HardSwish", Activation::hardswish},
                                                       {"Sigmoid", Activation::sigmoid},
                                                       {"HardSigmoid", Activation::hardsigmoid}};
  return names.at(reader.text("activation", ""));
}

}  // namespace dlprim
