// SPDX-License-Identifier: MIT
// On CPUs, depthwise and pointwise convolutions of images are faster where channels lie side by side: the former compute
// 16 channels at a time, the latter are one product for all images. Those that hand values to each other take that layout
// together, so that nothing is copied between them.
#include <numeric>
#include <set>

#include "contrib.hpp"
#include "optimize.hpp"

namespace dlprim {

namespace {

enum class Kind : std::uint8_t { none, dense, pointwise, depthwise };

constexpr std::int64_t fewest_channels = 16;  // that fill a vector

// Whether the list that an attribute gives has this value only; lists that are left out have.
bool all_are(const Node& node, const char* name, std::int64_t value) {
  auto it = node.attributes.find(name);
  if (it == node.attributes.end()) return true;
  const auto* list = std::get_if<std::vector<std::int64_t>>(&it->second);
  return list && std::all_of(list->begin(), list->end(), [&](std::int64_t v) { return v == value; });
}

Kind kind_of(const Network& network, const Node& node) {
  if (node.type != "Conv" || !node.domain.empty() || node.inputs.size() < 2) return Kind::none;
  auto it = network.constants.find(node.inputs[1]);
  if (it == network.constants.end() || it->second.shape().size() != 4) return Kind::dense;
  const Shape& w = it->second.shape();
  auto given = node.attributes.find("group");
  const auto* group = given == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&given->second);
  const std::int64_t groups = group ? *group : 1;
  if (w[1] == 1 && groups == w[0] && groups >= fewest_channels) return Kind::depthwise;
  auto padded = node.attributes.find("auto_pad");
  const auto* automatic = padded == node.attributes.end() ? nullptr : std::get_if<std::string>(&padded->second);
  const bool single = w[2] == 1 && w[3] == 1 && groups == 1 && (!automatic || *automatic == "NOTSET");
  return single && all_are(node, "strides", 1) && all_are(node, "pads", 0) ? Kind::pointwise : Kind::dense;
}

// Whether an operator makes numbers of a scale's steps of an image, or the other way round.
bool quantizes(const Node& node) {
  return (node.domain.empty() || node.domain == contrib_domain) &&
         (node.type == "QuantizeLinear" || node.type == "DequantizeLinear");
}

// Elementwise operators, whose results lie as what they read.
bool keeps_layout(const Node& node) {
  static const std::set<std::string> types{"Add",  "Mul",  "Sub",       "Div", "Relu",      "Clip",       "Sigmoid",
                                           "Tanh", "Gelu", "HardSwish", "Elu", "LeakyRelu", "HardSigmoid"};
  return node.domain.empty() && types.contains(node.type);
}

class Layouts {
 public:
  explicit Layouts(Network& network) : network_(network), parents_(network.values.size()) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }

  void choose() {
    for (const Node& node : network_.graph.nodes) {
      const Kind kind = kind_of(network_, node);
      if (kind == Kind::pointwise || kind == Kind::depthwise) join(node, 0);
      if (kind != Kind::none && node.inputs.size() > 3) join(node, 3);  // what is added
      if (keeps_layout(node))
        for (std::size_t i = 0; i < node.inputs.size(); i++) join(node, i);
      if (quantizes(node)) join(node, 0);
    }
    // A part takes it for its depthwise convolutions, unless others would have to read it so.
    std::set<int> wanted, refused;
    for (const Node& node : network_.graph.nodes) {
      const Kind kind = kind_of(network_, node);
      if (kind == Kind::depthwise) wanted.insert(find(node.outputs[0]));
      if (kind == Kind::dense) refused.insert(find(node.inputs[0]));
    }
    for (Node& node : network_.graph.nodes) {
      if (kind_of(network_, node) == Kind::none) continue;
      const int part = find(node.outputs[0]);
      if (wanted.contains(part) && !refused.contains(part)) node.attributes["channels_last"] = std::int64_t(1);
    }
  }

 private:
  int find(int id) {
    while (parents_[std::size_t(id)] != id)
      id = parents_[std::size_t(id)] = parents_[std::size_t(parents_[std::size_t(id)])];
    return id;
  }

  void join(const Node& node, std::size_t input) {
    const int id = node.inputs[input];
    if (id < 0 || node.outputs.empty() || node.outputs[0] < 0 || network_.constants.contains(id)) return;
    parents_[std::size_t(find(id))] = find(node.outputs[0]);
  }

  Network& network_;
  std::vector<int> parents_;
};

}  // namespace

void choose_layouts(Network& network) { Layouts(network).choose(); }

}  // namespace dlprim
