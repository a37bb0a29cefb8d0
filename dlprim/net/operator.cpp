// SPDX-License-Identifier: MIT
#include "operator.hpp"

#include <algorithm>
#include <bit>
#include <sstream>

#include "array.hpp"
#include "inner.hpp"

namespace dlprim {

namespace {

// Attributes that number an element type.
bool names_type(const std::string& attribute) {
  return attribute == "to" || attribute == "dtype" || attribute == "output_dtype" || attribute == "output_datatype" ||
         attribute == "softmax_precision";
}

// One word of Operator::attributes against an attribute: empty when it is another attribute.
std::optional<std::string> judge(const std::string& word, const std::string& name, const Attribute& attribute) {
  const std::size_t equals = word.find('=');
  if (word.substr(0, equals) != name) return {};
  const std::string* text = std::get_if<std::string>(&attribute);
  if (equals == std::string::npos || !text) return "";
  std::istringstream values(word.substr(equals + 1));
  for (std::string value; std::getline(values, value, '|');)
    if (value == *text) return "";
  return "attribute " + name + "=\"" + *text + "\"";
}

}  // namespace

std::atomic<std::uint64_t>& setups() noexcept {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

double AttributeReader::number(const char* name, double otherwise) const {
  const auto it = source_.attributes.find(name);
  const auto* whole = it == source_.attributes.end() ? nullptr : std::get_if<std::int64_t>(&it->second);
  return whole ? double(*whole) : real(name, otherwise);
}

std::optional<std::uint64_t> AttributeReader::seed() const {
  const auto it = source_.attributes.find("seed");
  if (it == source_.attributes.end()) return {};
  const auto* whole = std::get_if<std::int64_t>(&it->second);
  return whole ? std::uint64_t(*whole) : std::bit_cast<std::uint64_t>(real("seed", 0));
}

std::shared_ptr<const Graph> AttributeReader::graph(const char* name) const {
  const auto graph = find<std::shared_ptr<Graph>>(name);
  if (!graph || !*graph) throw ValidationError("attribute '" + std::string(name) + "' is missing");
  return *graph;
}

Call::Call(Executor& executor, const Node& node, const std::any& parsed)
    : executor_(executor), node_(node), parsed_(parsed), data_(Known::always), shape_(Known::always) {
  auto consider = [&](int id) {
    if (id < 0) return;
    const Value& value = executor_.value(id);
    data_ = std::min(data_, value.data), shape_ = std::min(shape_, value.shape);
  };
  for (int id : node.inputs) consider(id);
  for (int id : node.captured) consider(id);
}

Queue& Call::queue() const noexcept { return executor_.queue(); }

const Value& Call::value(int i) const {
  static const Value nothing;
  if (i >= inputs() || node_.inputs[std::size_t(i)] < 0) return nothing;
  return executor_.value(node_.inputs[std::size_t(i)]);
}

bool Call::has(int i) const { return value(i).present(); }

const Tensor& Call::input(int i) const {
  const Tensor& tensor = value(i).tensor;
  if (!tensor.defined()) fail("input " + std::to_string(i) + " is missing");
  return tensor;
}

TensorView Call::out(int i, DataType dtype, const Shape& shape) {
  Tensor tensor(queue(), dtype, shape);
  set(i, tensor);
  return tensor.view(queue());
}

void Call::set(int i, Tensor tensor) { set(i, Value{std::move(tensor), nullptr}); }

void Call::set(int i, Value value) {
  if (!wants(i)) return;
  value.data = random_ ? Known::never : data_;
  value.shape = std::max(value.data, shape_);
  executor_.slot(node_.outputs[std::size_t(i)]) = std::move(value);
}

void Call::set(int i, Tensor tensor, Known known) {
  if (wants(i)) executor_.slot(node_.outputs[std::size_t(i)]) = Value{std::move(tensor), nullptr, known, known};
}

void Call::depends_on(int i) { shape_ = std::min(shape_, value(i).data); }

std::vector<std::int64_t> Call::read_integers(int i) {
  depends_on(i);
  return to_integers(queue(), input(i));
}

std::vector<double> Call::read_reals(int i) {
  depends_on(i);
  return to_reals(queue(), input(i));
}

PhiloxState Call::philox(std::optional<std::uint64_t> seed) {
  random();
  if (seed) return {*seed, 0};
  executor_.philox_.offset++;
  return executor_.philox_;
}

std::vector<Value> Call::run(const Graph& graph, const std::vector<Value>& inputs) {
  if (inputs.size() != graph.inputs.size())
    fail("the inner graph expected " + std::to_string(graph.inputs.size()) + " inputs, got " +
         std::to_string(inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); i++)  // each run brings others: nothing made of them may be kept
    executor_.slot(graph.inputs[i]) = Value{inputs[i].tensor, inputs[i].sequence};
  executor_.run(graph);
  random_ |= executor_.random_;
  std::vector<Value> outputs;
  for (int id : graph.outputs) {
    outputs.push_back(executor_.value(id));
    shape_ = std::min(shape_, outputs.back().shape);
  }
  return outputs;
}

std::vector<Tensor> Call::run(const Inner& op, const std::vector<Tensor>& inputs, int outputs) {
  Executor inner(queue());
  Node node = op.node();
  int values = 0;
  for (const Tensor& tensor : inputs) {
    inner.slot(values) = Value{tensor, nullptr};
    node.inputs.push_back(values++);
  }
  for (int i = 0; i < outputs; i++) node.outputs.push_back(values++);
  inner.run(node);
  std::vector<Tensor> result;
  for (int id : node.outputs) result.push_back(inner.value(id).tensor);
  return result;
}

void Call::fail(const std::string& message) const { throw ValidationError(message); }

void parse_attributes(Node& node) {
  if (node.implementation && node.implementation->parse)
    with_name(node, [&] { node.parsed = node.implementation->parse(AttributeReader(node)); });
}

void Registry::add(const char* type, OperatorFunction function, const char* attributes, const char* domain,
                   CompositionFunction composition, ParseFunction parse) {
  operators_[{domain, type}] = {type, function, attributes, domain, composition, parse};
}

const Operator* Registry::find(const std::string& domain, const std::string& type) const {
  auto it = operators_.find({domain == "ai.onnx" ? "" : domain, type});
  return it == operators_.end() ? nullptr : &it->second;
}

std::string Registry::refusal(const Node& node) const {
  const Operator* found = find(node.domain, node.type);
  const bool own = node.domain.starts_with("dlprim.");  // of forms that the library puts in others' place
  if (!found || own) return "no such operator";
  std::string problems;
  for (const auto& [name, attribute] : node.attributes) {
    std::istringstream words(found->attributes);
    std::optional<std::string> verdict;
    for (std::string word; !verdict && words >> word;) verdict = judge(word, name, attribute);
    if (!verdict) verdict = "attribute " + name;
    if (const auto* number = std::get_if<std::int64_t>(&attribute); verdict->empty() && number && names_type(name))
      if (const std::string type = unsupported_element_type(*number); !type.empty())
        verdict = "attribute " + name + " (element type " + type + ")";
    if (!verdict->empty()) problems += (problems.empty() ? "" : ", ") + *verdict;
  }
  return problems;
}

const Registry& Registry::get() {
  static const Registry registry = [] {
    Registry all;
    operators::add_all(all);
    return all;
  }();
  return registry;
}

}  // namespace dlprim
