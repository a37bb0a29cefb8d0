// SPDX-License-Identifier: MIT
// How nodes of a graph become JSON operators.
#pragma once
#include <dlprim/net/parameters.hpp>

#include "../array.hpp"
#include "../net_state.hpp"
#include "fields.hpp"

namespace dlprim {

/// What one node cannot be: its place in the list of what JSON cannot express.
struct NotExpressible {
  std::string reason;
};

/// One node being translated, after it ran once: all sizes, and the elements of all constants, are known.
class JsonExport : public Call, public AttributeReader {
 public:
  JsonExport(Net::State& net, class JsonExporter& exporter, Executor& executor, const Node& node)
      : Call(executor, node, node.parsed), AttributeReader(node), net_(net), exporter_(exporter) {}

  const Shape& shape(int i) const { return input(i).shape(); }
  const Shape& output_shape(int i = 0) const;
  DataType output_dtype() const;
  /// The elements of an input that does not depend on the network's inputs; null for others.
  const Tensor* constant(int i) const;
  const Tensor& expect_constant(int i) const;
  void expect(bool fits, const char* otherwise) const {
    if (!fits) throw NotExpressible{otherwise};
  }

  /// The name by which operators read input `i`; a constant becomes a Parameter.
  std::string value_name(int i);
  std::string output_name(int i = 0);
  /// A new value of this node.
  std::string fresh_name();
  /// The name of input `i` as parameter: its own if it is one.
  std::string parameter_name(int i);
  /// A parameter with new elements.
  std::string parameter(const Tensor& tensor);
  /// A Parameter operator with new elements; gives the value's name.
  std::string constant_value(const Tensor& tensor);
  Tensor number(double value);

  void emit(const char* json_type, const std::vector<std::string>& inputs, const std::string& output,
            Json options = nullptr, const std::vector<std::string>& params = {});
  /// The padding that a Pad before input 0 left to its reader; zeros without one. Pads: top, left, bottom, right.
  std::vector<std::int64_t> take_padding();
  void leave_padding(const std::vector<std::int64_t>& pads);
  /// Gives output 0 the same elements as a value.
  void same(const std::string& value);
  /// Readers of output 0 read input 0 instead.
  void alias();

 private:
  Net::State& net_;
  JsonExporter& exporter_;
};

using JsonExportFunction = void (*)(JsonExport&);
/// By the node's type; null for types that JSON has no operator for.
JsonExportFunction find_json_export(const std::string& type);

/// A whole network.
class JsonExporter {
 public:
  explicit JsonExporter(Net& net) : net_(net) {}
  Json run();
  NamedTensors tensors;  ///< the parameters that go with it

 private:
  friend class JsonExport;
  void export_node(Executor& executor, const Node& node);
  std::string unique(const std::string& wish);

  Net& net_;
  Json operators_ = Json::array();
  std::set<std::string> names_;
  std::map<int, std::string> values_;                    // JSON names of values
  std::map<int, std::string> outputs_;                   // names kept for the network's outputs
  std::map<int, std::vector<std::int64_t>> padding_;     // values that are to be padded by their reader
  std::vector<std::string> refused_;
};

}  // namespace dlprim
