// SPDX-License-Identifier: MIT
// A network as data: what importers make and Net runs.
#pragma once
#include <dlprim/net/tensor.hpp>

#include <any>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace dlprim {

struct Graph;
struct Operator;
struct Gradient;

/// A constant of a node: a number, a text, lists of them, a tensor or a graph to run.
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>, Tensor, std::shared_ptr<Graph>>;

/// One operator of a graph. Values are numbered over the whole network, inner graphs included; -1 stands for an input
/// that is left out or an output nobody wants.
struct Node {
  std::string type, name;
  std::string domain;   ///< "" for ONNX's main domain
  std::int64_t version = 0;  ///< of the domain's operator set
  std::map<std::string, Attribute> attributes;
  std::vector<int> inputs, outputs;
  const Operator* implementation = nullptr;
  std::any parsed;            ///< the attributes as the implementation reads them, made when a network is set up
  const Gradient* gradient = nullptr;  ///< of training: null where there is none
  std::any parsed_gradient;   ///< the attributes as the gradient reads them
  std::vector<int> captured;  ///< values of outer graphs that inner graphs read
  std::vector<int> dead;      ///< values that nobody reads after this node
  std::string refused;        ///< what of it the importer could not represent
};

/// Nodes in the order they run. An inner graph may read any value that exists where it runs.
struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<int> inputs, outputs;
};

/// What is known about an input or output of a network; sizes are -1 where they are open, `names` then name them.
struct ValueInfo {
  std::string name;
  DataType dtype = DataType::float32;
  bool ranked = false;  ///< the number of dimensions is known
  bool sequence = false, optional = false;  ///< kinds of values other than a tensor
  bool flexible = false;  ///< `shape` is a default: the operators decide what else fits
  Shape shape;
  std::vector<std::string> names;
};

/// A value that training may change. One without a tensor in Network::constants starts as its distribution says.
struct Parameter {
  enum Start : std::uint8_t { zeros, ones, uniform };  ///< uniform in +-1 / sqrt(fan_in)
  std::string name;
  int value = -1;
  bool trainable = true;
  DataType dtype = DataType::float32;
  Shape shape;
  Start start = zeros;
  double fan_in = 1;
};

/// A network with its constants.
struct Network {
  Graph graph;
  std::vector<std::string> values;  ///< names by number
  std::map<int, Tensor> constants;
  std::map<int, std::string> unsupported;  ///< values of element types that tensors do not have, and these types' names
  std::vector<Parameter> parameters;
  std::vector<ValueInfo> inputs, outputs;
  std::map<int, double> loss_weights;  ///< of outputs that are losses
};

/// Anything that a Net can load.
class ModelBase {
 public:
  virtual ~ModelBase() = default;
  virtual const Network& network() const = 0;
};

}  // namespace dlprim
