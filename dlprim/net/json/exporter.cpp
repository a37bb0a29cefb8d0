// SPDX-License-Identifier: MIT
#include "exporter.hpp"

#include <dlprim/error.hpp>
#include <dlprim/net/json.hpp>

#include <cstring>

#include "../file.hpp"

namespace dlprim {

const Shape& JsonExport::output_shape(int i) const {
  return executor_.value(node_.outputs.at(std::size_t(i))).tensor.shape();
}

DataType JsonExport::output_dtype() const { return executor_.value(node_.outputs.at(0)).tensor.dtype(); }

const Tensor* JsonExport::constant(int i) const {
  if (i >= inputs() || node_.inputs[std::size_t(i)] < 0) return nullptr;
  const int id = node_.inputs[std::size_t(i)];
  for (const Parameter& p : net_.network.parameters)
    if (p.value == id) return &executor_.value(id).tensor;
  return executor_.value(id).data != Known::never ? &executor_.value(id).tensor : nullptr;
}

const Tensor& JsonExport::expect_constant(int i) const {
  const Tensor* tensor = constant(i);
  expect(tensor != nullptr, ("input " + std::to_string(i) + " is no constant").c_str());
  return *tensor;
}

std::string JsonExport::value_name(int i) {
  const int id = node_.inputs.at(std::size_t(i));
  expect(!exporter_.padding_.contains(id), "it reads what was padded");
  if (auto it = exporter_.values_.find(id); it != exporter_.values_.end()) return it->second;
  const Tensor& tensor = expect_constant(i);
  expect(is_floating(tensor.dtype()), "a constant of integers is data");
  const std::string name = exporter_.unique(net_.network.values[std::size_t(id)]);
  bool trainable = false;
  for (const Parameter& p : net_.network.parameters) trainable |= p.value == id && p.trainable;
  const Shape shape = tensor.shape().size() ? tensor.shape() : Shape{1};
  exporter_.operators_.push_back(
      {{"name", name},
       {"type", "Parameter"},
       {"inputs", Json::array()},
       {"outputs", {name}},
       {"params", {parameter_name(i)}},
       {"options", {{"shape", shape.sizes()}, {"dtype", dlprim::name(tensor.dtype())}, {"is_trainable", trainable}}}});
  return exporter_.values_[id] = name;
}

std::string JsonExport::output_name(int i) {
  const int id = node_.outputs.at(std::size_t(i));
  auto [it, created] = exporter_.values_.emplace(id, "");
  if (created) {
    auto kept = exporter_.outputs_.find(id);
    it->second =
        kept != exporter_.outputs_.end() ? kept->second : exporter_.unique(net_.network.values[std::size_t(id)]);
  }
  return it->second;
}

std::string JsonExport::fresh_name() { return exporter_.unique(output_name() + ".part"); }

std::string JsonExport::parameter(const Tensor& tensor) {
  const std::string name = exporter_.unique(output_name() + ".constant");
  const Shape shape = tensor.shape().size() ? tensor.shape() : Shape{1};
  exporter_.tensors[name] = Tensor::from_host(tensor.dtype(), shape, tensor.read(queue()).data());
  return name;
}

std::string JsonExport::parameter_name(int i) {
  const int id = node_.inputs.at(std::size_t(i));
  const Tensor& tensor = expect_constant(i);
  for (const Parameter& p : net_.network.parameters) {
    if (p.value != id) continue;
    std::vector<std::byte> elements(tensor.bytes());
    tensor.to_host(ExecutionContext(queue()), elements.data());
    exporter_.tensors[p.name] = Tensor::from_host(p.dtype, p.shape.size() ? p.shape : Shape{1}, elements.data());
    return p.name;
  }
  return parameter(tensor);
}

std::string JsonExport::constant_value(const Tensor& tensor) {
  const std::string name = parameter(tensor), value = fresh_name();
  const Tensor& stored = exporter_.tensors.at(name);
  exporter_.operators_.push_back(
      {{"name", value},
       {"type", "Parameter"},
       {"inputs", Json::array()},
       {"outputs", {value}},
       {"params", {name}},
       {"options",
        {{"shape", stored.shape().sizes()}, {"dtype", dlprim::name(stored.dtype())}, {"is_trainable", false}}}});
  return value;
}

Tensor JsonExport::number(double value) {
  const float single = float(value);
  const Tensor tensor = Tensor::from_host(DataType::float32, {1}, &single);
  return output_dtype() == DataType::float32 ? tensor : cast(queue(), tensor, output_dtype());
}

void JsonExport::emit(const char* json_type, const std::vector<std::string>& inputs, const std::string& output,
                      Json options, const std::vector<std::string>& params) {
  const std::string wish = node_.name.empty() ? node_.type : node_.name;
  Json entry = {{"name", exporter_.unique(wish)}, {"type", json_type}, {"inputs", inputs}, {"outputs", {output}}};
  if (!options.is_null()) entry["options"] = std::move(options);
  if (!params.empty()) entry["params"] = params;
  exporter_.operators_.push_back(std::move(entry));
}

std::vector<std::int64_t> JsonExport::take_padding() {
  const int id = node_.inputs.at(0);
  auto it = exporter_.padding_.find(id);
  if (it == exporter_.padding_.end()) return {0, 0, 0, 0};
  const std::vector<std::int64_t> pads = it->second;
  exporter_.padding_.erase(it);
  return pads;
}

void JsonExport::leave_padding(const std::vector<std::int64_t>& pads) {
  const std::string name = value_name(0);
  exporter_.values_[node_.outputs.at(0)] = name;
  exporter_.padding_[node_.outputs.at(0)] = pads;
}

void JsonExport::same(const std::string& value) { emit("Activation", {value}, output_name()); }

void JsonExport::alias() { exporter_.values_[node_.outputs.at(0)] = value_name(0); }

std::string JsonExporter::unique(const std::string& wish) {
  std::string name = wish.empty() ? "value" : wish;
  for (int i = 2; !names_.insert(name).second; i++) name = wish + "_" + std::to_string(i);
  return name;
}

void JsonExporter::export_node(Executor& executor, const Node& node) {
  auto known = [&](int id) { return id < 0 || executor.value(id).data != Known::never; };
  if (std::all_of(node.outputs.begin(), node.outputs.end(), known)) return;  // a constant
  const JsonExportFunction function =
      node.domain.empty() || node.domain == "dlprim" ? find_json_export(node.type) : nullptr;
  const std::size_t before = operators_.size();
  std::string reason = "there is no such operator";
  try {
    if (function) {
      JsonExport call(*net_.state_, *this, executor, node);
      return function(call);
    }
  } catch (const NotExpressible& problem) {
    reason = problem.reason;
  } catch (const ValidationError& problem) {
    reason = problem.what();
  }
  while (operators_.size() > before) operators_.erase(operators_.size() - 1);
  for (int id : node.outputs)  // so that what reads it is judged by itself
    if (id >= 0) values_.emplace(id, "missing");
  refused_.push_back(node.type + (node.name.empty() ? "" : " '" + node.name + "'") + ": " + reason);
}

Json JsonExporter::run() {
  Net::State& s = *net_.state_;
  const bool keep = s.keep;
  const CalculationsMode mode = s.mode;
  net_.keep_intermediate_tensors(), net_.mode(CalculationsMode::predict);
  net_.forward(net_.context().make_execution_context());
  Json inputs = Json::array(), outputs = Json::array();
  for (std::size_t i = 0; i < s.network.inputs.size(); i++) {
    const Tensor& x = net_.input(int(i));
    values_[s.network.graph.inputs[i]] = unique(s.network.inputs[i].name);
    inputs.push_back({{"name", s.network.inputs[i].name}, {"shape", x.shape().sizes()}, {"dtype", name(x.dtype())}});
  }
  for (std::size_t i = 0; i < s.network.outputs.size(); i++)
    if (const int id = s.network.graph.outputs[i]; !values_.contains(id))
      if (auto [it, created] = outputs_.emplace(id, ""); created) it->second = unique(s.network.outputs[i].name);
  for (const Node& node : s.plan.graph.nodes) export_node(*s.executor, node);
  for (std::size_t i = 0; i < s.network.outputs.size(); i++) {
    const int id = s.network.graph.outputs[i];
    auto it = values_.find(id);
    if (it == values_.end() || padding_.contains(id)) {
      refused_.push_back("output '" + s.network.outputs[i].name + "': it is a constant or ends in padding");
      continue;
    }
    auto weight = s.network.loss_weights.find(int(i));
    if (weight == s.network.loss_weights.end()) outputs.push_back(it->second);
    else outputs.push_back({{"name", it->second}, {"loss_weight", weight->second}});
  }
  net_.keep_intermediate_tensors(keep), net_.mode(mode);
  if (!refused_.empty()) {
    std::string message = "[json] " + std::to_string(refused_.size()) + " nodes cannot be expressed in JSON:";
    for (const std::string& line : refused_) message += "\n  " + line;
    throw NotImplementedError(message);
  }
  return {{"inputs", inputs}, {"outputs", outputs}, {"operators", operators_}};
}

std::string to_json(Net& net) { return JsonExporter(net).run().dump(1); }

void save_json(Net& net, const std::string& json_path, const std::string& parameters_path) {
  JsonExporter exporter(net);
  const std::string text = exporter.run().dump(1);
  write_parameters(parameters_path, exporter.tensors);
  write_file(json_path, text);
}

}  // namespace dlprim
