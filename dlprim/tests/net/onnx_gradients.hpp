// SPDX-License-Identifier: MIT
// Gradients of ONNX operators against finite differences, as cases.
#pragma once
#include <functional>
#include <sstream>

#include "finite_differences.hpp"

namespace dlprim::testing {

using Integers = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

/// A group of cases is a test; all groups together are known, too.
#define GRADIENTS(name)                                                    \
  void name();                                                             \
  const bool name##_is_listed = (gradient_groups().push_back(name), true); \
  TEST(OnnxGradient, name) { name(); }                                     \
  void name()

inline std::vector<void (*)()>& gradient_groups() {
  static std::vector<void (*)()> all;
  return all;
}

/// One operator: floating inputs of these shapes, and constants (undefined: left out). `layout` has an x for each input
/// and a c for each constant in the operator's order; without it the inputs come first.
struct Case {
  std::string type;
  std::vector<Shape> inputs;
  Attributes attributes = {};
  std::vector<Tensor> constants = {};
  double low = -1.5, high = 1.5;
  std::int64_t version = 17;
  int outputs = 1;
  std::string layout = {};
};

/// While this is set, it gets the cases instead.
inline std::function<void(const Case&)>& other_use() {
  static std::function<void(const Case&)> function;
  return function;
}
inline void use_all_cases(const std::function<void(const Case&)>& function) {
  other_use() = function;
  for (auto* group : gradient_groups()) group();
  other_use() = nullptr;
}

inline Tensor integers(const Integers& values) { return Tensor::from_integers(values); }
inline Tensor integers(const Shape& shape, const Integers& values) {
  return Tensor::from_host(DataType::int64, shape, values.data());
}
inline Tensor truths(const Shape& shape, const std::vector<std::uint8_t>& values) {
  return Tensor::from_host(DataType::boolean, shape, values.data());
}
inline Tensor numbers(const Shape& shape, const std::vector<double>& values) {
  const std::vector<float> floats(values.begin(), values.end());
  return widest() == DataType::float64 ? Tensor::from_host(DataType::float64, shape, values.data())
                                       : Tensor::from_host(DataType::float32, shape, floats.data());
}
inline Tensor number(double value) { return numbers({}, {value}); }
inline Tensor floats(const std::vector<float>& values) {
  return Tensor::from_host(DataType::float32, {std::int64_t(values.size())}, values.data());
}

/// A network made by hand.
class HandMade : public ModelBase {
 public:
  int fresh(const std::string& name) {
    made.values.push_back(name);
    return int(made.values.size()) - 1;
  }
  int input(const Shape& shape) {
    ValueInfo info;
    info.name = "x" + std::to_string(made.inputs.size()), info.shape = shape, info.ranked = true, info.dtype = widest();
    info.names.resize(std::size_t(shape.size()));
    made.inputs.push_back(info), made.graph.inputs.push_back(fresh(info.name));
    return made.graph.inputs.back();
  }
  int constant(const Tensor& tensor) {
    if (!tensor.defined()) return -1;
    const int id = fresh("constant");
    made.constants[id] = tensor;
    return id;
  }
  int output() {
    ValueInfo info;
    info.name = "y" + std::to_string(made.outputs.size()), info.dtype = widest();
    made.outputs.push_back(info), made.graph.outputs.push_back(fresh(info.name));
    return made.graph.outputs.back();
  }
  /// A node of a graph; gives its first output.
  int node(Graph& graph, const std::string& type, const std::vector<int>& inputs, std::vector<int> outputs = {},
           const Attributes& attributes = {}, std::int64_t version = 17) {
    if (outputs.empty()) outputs.push_back(fresh(type));
    Node node;
    node.type = type, node.version = version, node.attributes = attributes, node.inputs = inputs,
    node.outputs = outputs;
    graph.nodes.push_back(node);
    return outputs[0];
  }
  const Network& network() const override { return made; }

  Network made;
};

/// Compares the gradients of a network whose inputs are numbers between low and high.
inline void check(const ModelBase& model, double low = -1.5, double high = 1.5) {
  Net net{Context(device())};
  net.load_model(model);
  for (int i = 0; i < net.inputs(); i++)
    write_values(net, net.input(i), distinct_values(std::size_t(net.input(i).numel()), unsigned(i) + 1, low, high));
  expect_finite_differences(net);
}

inline HandMade one_operator(const Case& c) {
  HandMade model;
  const std::string layout =
      !c.layout.empty() ? c.layout : std::string(c.inputs.size(), 'x') + std::string(c.constants.size(), 'c');
  std::size_t variable = 0, constant = 0;
  std::vector<int> inputs, outputs;
  for (char kind : layout)
    inputs.push_back(kind == 'x' ? model.input(c.inputs.at(variable++)) : model.constant(c.constants.at(constant++)));
  for (int i = 0; i < c.outputs; i++) outputs.push_back(model.output());
  model.node(model.made.graph, c.type, inputs, outputs, c.attributes, c.version);
  return model;
}

inline void check(const Case& c) {
  if (other_use()) return other_use()(c);
  SCOPED_TRACE(c.type + " of " + (c.inputs.empty() ? "nothing" : c.inputs[0].text()) + ", version " +
               std::to_string(c.version));
  check(one_operator(c), c.low, c.high);
}

}  // namespace dlprim::testing
