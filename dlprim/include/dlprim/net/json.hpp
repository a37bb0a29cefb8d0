// SPDX-License-Identifier: MIT
// Networks as JSON: the format is described in docs/json.md.
#pragma once
#include <dlprim/net/graph.hpp>

#include <string>
#include <string_view>

namespace dlprim {

class Net;

/// A network in a JSON file: inputs, outputs and operators of fixed types, which become the operators that ONNX models
/// use. Parameters get their initial distribution when a Net loads it.
class JSONModel : public ModelBase {
 public:
  /// Throws ValidationError for what is no JSON, for unknown keys, wrong types and sizes that do not fit; errors name
  /// the operator. NotImplementedError for unknown types of operators.
  void load(const std::string& path);
  void load_text(std::string_view text);
  const Network& network() const override { return network_; }

 private:
  Network network_;
};

/// A number, a text or a list of integers in an operator's options.
using JSONOption = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;
using JSONOptions = std::map<std::string, JSONOption>;

/// Writes networks: an operator without inputs reads what the one before it gave, and names follow by themselves.
class NetConfig {
 public:
  NetConfig();
  ~NetConfig();
  NetConfig(NetConfig&&) noexcept;
  NetConfig& operator=(NetConfig&&) noexcept;

  struct Operator {
    std::string type;
    JSONOptions options = {};
    std::string name = {};  ///< default: the type and a number
    std::vector<std::string> inputs = {};  ///< default: the last output, or the first input of the network
    std::vector<std::string> outputs = {};  ///< default: the operator's name
    std::vector<std::string> params = {};
    bool frozen = false;
  };
  NetConfig& add_input(const std::string& name, const Shape& shape, DataType dtype = DataType::float32);
  NetConfig& add(const Operator& op);
  /// An output; a loss_weight other than 0 makes it a loss. Without any, the last operator's outputs are the network's.
  NetConfig& add_output(const std::string& name, double loss_weight = 0);
  std::string text() const;
  void save(const std::string& path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The network of a loaded net as JSON text, for the sizes that its inputs have; parameters keep their names. It runs
/// once on the device to learn the sizes. Throws NotImplementedError that lists every node JSON has no operator for.
std::string to_json(Net& net);
/// Writes to_json and the parameters that go with it (see Net::save_parameters for the formats).
void save_json(Net& net, const std::string& json_path, const std::string& parameters_path);

}  // namespace dlprim
