// SPDX-License-Identifier: MIT
#include "importer.hpp"

#include <dlprim/error.hpp>

#include <limits>

namespace dlprim {

namespace {

constexpr std::int64_t version = 22;  // of the operators that JSON's become
const Json nothing;

// Products of sizes must not overflow, and values of this size fit no device.
void check_size(const Fields& where, const Shape& shape) {
  std::int64_t rest = std::int64_t(1) << 40;
  for (std::int64_t size : shape) {
    rest /= std::max<std::int64_t>(1, size);
    if (size < 0 || rest == 0) where.fail("the shape " + shape.text() + " is out of range");
  }
}

const Json& options_of(const Json& from) {
  if (!from.is_object()) return nothing;
  auto it = from.find("options");
  return it == from.end() ? nothing : *it;
}

std::string title(const Json& from, std::size_t number) {
  auto text = [&](const char* key) {
    auto it = from.is_object() ? from.find(key) : from.end();
    return it != from.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const std::string name = text("name").empty() ? "#" + std::to_string(number) : "'" + text("name") + "'";
  return (text("type").empty() ? "operator" : text("type")) + " " + name;
}

}  // namespace

JsonOperator::JsonOperator(Network& network, std::map<std::string, std::size_t>& parameters, const Json& from,
                           std::size_t number)
    : fields(from, title(from, number)), options(options_of(from), title(from, number)), network_(network),
      by_name_(parameters) {
  fields.has("options");
  name = fields.text("name"), type = fields.text("type");
  parameter_names_ = fields.texts("params"), output_names_ = fields.texts("outputs");
  frozen_ = fields.flag("frozen", false);
}

void JsonOperator::expect(std::size_t in, std::size_t out) const {
  auto check = [&](std::size_t expected, std::size_t got, const char* what) {
    if (expected != got) fail("expected " + std::to_string(expected) + " " + what + ", got " + std::to_string(got));
  };
  check(in, inputs.size(), "inputs"), check(out, output_names_.size(), "outputs");
}

void JsonOperator::expect_dims(int i, int least, int most) const {
  const Shape& shape = input(i).shape;
  if (shape.size() < least || shape.size() > most)
    fail("expected " + std::to_string(least) +
         (most == least ? ""
          : most > 8    ? " or more"
                        : " to " + std::to_string(most)) +
         " dimensions, got " + shape.text());
}

int JsonOperator::fresh(const std::string& value_name) {
  network_.values.push_back(value_name);
  return int(network_.values.size()) - 1;
}

JsonValue JsonOperator::emit(const char* node_type, const std::vector<int>& in, const Shape& shape, DataType dtype,
                             std::map<std::string, Attribute> attributes, const char* domain) {
  check_size(options, shape);
  Node node;
  node.type = node_type, node.name = name, node.domain = domain, node.version = version;
  node.attributes = std::move(attributes), node.inputs = in, node.outputs = {fresh(name)};
  network_.graph.nodes.push_back(node);
  return {node.outputs[0], shape, dtype};
}

int JsonOperator::parameter(const Shape& shape, DataType dtype, Parameter::Start start, double fan_in, bool trainable) {
  check_size(options, shape);
  const std::string given = next_ < parameter_names_.size() ? parameter_names_[next_] : "";
  const std::string key = given.empty() || given == "auto" ? name + "." + std::to_string(next_) : given;
  next_++;
  trainable &= !frozen_;
  auto [it, created] = by_name_.emplace(key, network_.parameters.size());
  if (created) {
    network_.parameters.push_back({key, fresh(key), trainable, dtype, shape, start, fan_in});
  } else {
    Parameter& shared = network_.parameters[it->second];
    if (!(shared.shape == shape) || shared.dtype != dtype)
      fail("parameter '" + key + "' is shared: expected " + dlprim::name(shared.dtype) + " " + shared.shape.text() +
           ", got " + dlprim::name(dtype) + " " + shape.text());
    shared.trainable |= trainable;
  }
  return network_.parameters[it->second].value;
}

int JsonOperator::constant(const Tensor& value) {
  const int id = fresh(name + ".constant");
  network_.constants[id] = value;
  return id;
}

int JsonOperator::constant(double value, DataType dtype) {
  if (dtype == DataType::float64) return constant(Tensor::from_host(dtype, {}, &value));
  const float single = float(value);
  const int id = constant(Tensor::from_host(DataType::float32, {}, &single));
  return dtype == DataType::float32 ? id : emit("CastLike", {id, input(0).id}, {}, dtype).id;
}

JsonValue JsonOperator::activated(const JsonValue& x) {
  return activated(x, options.choice("activation", "identity|relu|tanh|sigmoid|relu6", "identity"));
}

JsonValue JsonOperator::activated(const JsonValue& x, const std::string& activation) {
  if (activation == "identity") return x;
  if (activation == "relu6") return emit("Clip", {x.id}, x.shape, x.dtype, {{"min", 0.0}, {"max", 6.0}});
  return emit(activation == "relu" ? "Relu" : activation == "tanh" ? "Tanh" : "Sigmoid", {x.id}, x.shape, x.dtype);
}

class JsonImporter {
 public:
  Network run(const Json& json) {
    Fields top(json, "network");
    for (const Json& input : list(top, "inputs")) add_input(input);
    std::size_t number = 0;
    for (const Json& op : list(top, "operators")) add_operator(op, number++);
    for (const Json& output : list(top, "outputs")) add_output(output);
    top.finish();
    if (network_.outputs.empty()) top.fail("expected at least one output");
    return std::move(network_);
  }

 private:
  static const Json& list(Fields& top, const char* key) {
    if (!top.has(key)) return nothing;
    if (!top.at(key).is_array()) top.fail(std::string("expected a list for '") + key + "'");
    return top.at(key);
  }

  void add_input(const Json& from) {
    Fields fields(from, "input #" + std::to_string(network_.inputs.size()));
    ValueInfo info;
    info.name = fields.text("name", "data"), info.shape = fields.shape("shape"), info.dtype = fields.dtype("dtype");
    info.ranked = info.flexible = true, info.names.resize(std::size_t(info.shape.size()));
    fields.finish();
    check_size(fields, info.shape);
    if (info.shape.size() > 8) fields.fail("expected at most 8 dimensions, got " + info.shape.text());
    const int id = int(network_.values.size());
    if (!values_.emplace(info.name, JsonValue{id, info.shape, info.dtype}).second)
      fields.fail("'" + info.name + "' is defined twice");
    network_.values.push_back(info.name);
    network_.graph.inputs.push_back(id);
    network_.inputs.push_back(std::move(info));
  }

  void add_operator(const Json& from, std::size_t number) {
    JsonOperator op(network_, parameters_, from, number);
    if (!names_.insert(op.name).second) op.fail("the name '" + op.name + "' is used twice");
    const std::vector<std::string> inputs = op.fields.texts("inputs");
    for (const std::string& input : inputs) {
      auto it = values_.find(input);
      if (it == values_.end()) op.fail("reads '" + input + "', which is not defined before it");
      op.inputs.push_back(it->second);
    }
    translate(op);
    op.fields.finish(), op.options.finish();
    if (op.next_ < op.parameter_names_.size())
      op.fail("expected at most " + std::to_string(op.next_) + " params, got " +
              std::to_string(op.parameter_names_.size()));
    for (std::size_t i = 0; i < op.outputs.size(); i++) {
      const std::string& output = op.output_names_[i];
      const bool in_place = std::find(inputs.begin(), inputs.end(), output) != inputs.end();
      if (values_.contains(output) && !in_place) op.fail("output '" + output + "' is defined twice");
      JsonValue& value = op.outputs[i];
      if (value.shape.size() == 0)  // JSON networks know no single numbers
        value = op.emit("Reshape", {value.id}, {1}, value.dtype, {{"shape", std::vector<std::int64_t>{1}}});
      if (network_.values[std::size_t(value.id)] == op.name) network_.values[std::size_t(value.id)] = output;
      else if (network_.values[std::size_t(value.id)] != output)
        value = op.emit("Identity", {value.id}, value.shape, value.dtype), network_.values.back() = output;
      values_[output] = value;
    }
  }

  void add_output(const Json& from) {
    const std::string where = "output #" + std::to_string(network_.outputs.size());
    ValueInfo info;
    double weight = 0;
    if (from.is_string()) {
      info.name = from.get<std::string>();
      weight = info.name.starts_with("loss") ? 1 : 0;
    } else {
      Fields fields(from, where);
      info.name = fields.text("name");
      weight = fields.real("loss_weight", info.name.starts_with("loss") ? 1.0 : 0.0);
      fields.finish();
    }
    auto it = values_.find(info.name);
    if (it == values_.end()) throw ValidationError("[" + where + "] no operator gives '" + info.name + "'");
    info.dtype = it->second.dtype, info.shape = it->second.shape, info.ranked = true, info.flexible = true;
    info.names.resize(std::size_t(info.shape.size()));
    if (weight != 0) network_.loss_weights[int(network_.outputs.size())] = weight;
    network_.graph.outputs.push_back(it->second.id);
    network_.outputs.push_back(std::move(info));
  }

  Network network_;
  std::map<std::string, JsonValue> values_;
  std::map<std::string, std::size_t> parameters_;
  std::set<std::string> names_;
};

Network import_json(const Json& json) { return JsonImporter().run(json); }

}  // namespace dlprim
