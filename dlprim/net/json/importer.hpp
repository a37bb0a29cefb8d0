// SPDX-License-Identifier: MIT
// How JSON operators become nodes of a graph.
#pragma once
#include <dlprim/net/graph.hpp>

#include "fields.hpp"

namespace dlprim {

/// A value while a JSON network is read: sizes are known.
struct JsonValue {
  int id = -1;
  Shape shape;
  DataType dtype = DataType::float32;
};

/// One JSON operator being translated into nodes of ONNX's operators.
class JsonOperator {
 public:
  JsonOperator(Network& network, std::map<std::string, std::size_t>& parameters, const Json& from, std::size_t number);

  Fields fields;  ///< name, type, inputs ...
  Fields options;
  std::string name, type;
  std::vector<JsonValue> inputs, outputs;

  const JsonValue& input(int i) const { return inputs[std::size_t(i)]; }
  /// Throws unless inputs and wanted outputs are as many.
  void expect(std::size_t in, std::size_t out = 1) const;
  void expect_dims(int i, int least, int most) const;
  [[noreturn]] void fail(const std::string& message) const { options.fail(message); }

  JsonValue emit(const char* node_type, const std::vector<int>& in, const Shape& shape, DataType dtype,
                 std::map<std::string, Attribute> attributes = {}, const char* domain = "");
  /// The operator's next parameter: shared with others of its name, whose shape must be the same.
  int parameter(const Shape& shape, DataType dtype, Parameter::Start start, double fan_in = 1, bool trainable = true);
  int constant(double value, DataType dtype);
  int constant(const Tensor& value);
  /// The option `activation` applied to a value.
  JsonValue activated(const JsonValue& x);
  JsonValue activated(const JsonValue& x, const std::string& activation);

 private:
  friend class JsonImporter;
  int fresh(const std::string& value_name);
  Network& network_;
  std::map<std::string, std::size_t>& by_name_;  // parameters
  std::vector<std::string> parameter_names_, output_names_;
  std::size_t next_ = 0;
  bool frozen_ = false;
};

/// Translates by the operator's type: fills `outputs`. Throws NotImplementedError for unknown types.
void translate(JsonOperator& op);

Network import_json(const Json& json);

}  // namespace dlprim
