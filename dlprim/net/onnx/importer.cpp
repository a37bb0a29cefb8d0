// SPDX-License-Identifier: MIT
#include "importer.hpp"

#include <dlprim/error.hpp>

#include <set>

#include "../element_type.hpp"
#include "order.hpp"
#include "tensors.hpp"

namespace dlprim {

namespace {

using Versions = std::map<std::string, std::int64_t>;
using Key = std::tuple<std::string, std::string, std::string>;  // domain, name and overload of a function

std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

template <class Field>
Versions versions_of(const Field& sets) {
  Versions result;
  for (const auto& set : sets) result[domain_of(set.domain())] = set.version();
  return result;
}

// Names that can be seen from a graph, its own before those of the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  std::map<std::string, int> names;
  const std::map<std::string, Attribute>* attributes = nullptr;  // of the call, inside a function
  const Versions* versions = nullptr;
};

// What a copy of an attribute takes. Tensors are shared; graphs too, but every user walks through them: `graphs` says
// what they weigh.
std::uint64_t bytes_of(const Attribute& attribute, const std::map<const Graph*, std::uint64_t>& graphs) {
  return std::visit(
      [&](const auto& value) -> std::uint64_t {
        using T = std::decay_t<decltype(value)>;
        std::uint64_t bytes = sizeof(Attribute);
        if constexpr (std::is_same_v<T, std::shared_ptr<Graph>>) bytes += graphs.at(value.get());
        else if constexpr (std::is_same_v<T, std::string>) bytes += value.size();
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
          for (const std::string& text : value) bytes += sizeof(std::string) + text.size();
        else if constexpr (requires { value.data(); }) bytes += value.size() * sizeof(value[0]);
        return bytes;
      },
      attribute);
}

class Importer {
 public:
  Importer(const onnx_format::Model& model, std::size_t bytes, const std::filesystem::path& folder)
      : model_(model), budget_(bytes), external_(folder, budget_) {
    for (const auto& function : model.functions())
      functions_[{domain_of(function.domain()), function.name(), function.overload()}] = &function;
  }

  Network run() {
    if (!model_.has_graph()) throw ValidationError("[onnx] the file holds no graph");
    const Versions versions = versions_of(model_.opset_import());
    Scope scope;
    scope.versions = &versions;
    const auto& graph = model_.graph();
    for (const auto& tensor : graph.initializer()) initializers_.insert(tensor.name());
    for (const auto& tensor : graph.sparse_initializer()) initializers_.insert(tensor.values().name());
    fill(network_.graph, graph, scope);
    for (const auto& value : graph.input())
      if (!initializers_.contains(value.name())) network_.inputs.push_back(info(value, scope));
    for (const auto& value : graph.output()) network_.outputs.push_back(info(value, scope));
    return std::move(network_);
  }

 private:
  int fresh(const std::string& name) {
    network_.values.push_back(name);
    return int(network_.values.size()) - 1;
  }

  int define(Scope& scope, const std::string& name) {
    if (name.empty()) return -1;
    const int id = fresh(name);
    if (!scope.names.emplace(name, id).second) throw ValidationError("[onnx] value '" + name + "' is defined twice");
    return id;
  }

  static int look_up(const Scope& scope, const std::string& name, const std::string& user) {
    if (name.empty()) return -1;
    for (const Scope* s = &scope; s; s = s->outer)
      if (auto it = s->names.find(name); it != s->names.end()) return it->second;
    throw ValidationError("[onnx] " + user + " reads '" + name + "', which is not defined before it");
  }

  // An optional type or a sequence is opened up to the tensor's type inside.
  ValueInfo info(const onnx_format::ValueInfo& value, const Scope& scope) {
    ValueInfo result;
    result.name = value.name();
    const onnx_format::Type* type = &value.type();
    for (int depth = 0; depth < 8 && !type->has_tensor_type(); depth++) {
      if (type->has_optional_type()) result.optional = true, type = &type->optional_type().elem_type();
      else if (type->has_sequence_type()) result.sequence = true, type = &type->sequence_type().elem_type();
      else break;
    }
    if (!type->has_tensor_type()) throw ValidationError("[onnx] value '" + value.name() + "' has no tensor type");
    const int number = type->tensor_type().elem_type();
    if (const std::string refused = unsupported_element_type(number); refused.empty())
      result.dtype = element_type(number);
    else network_.unsupported[look_up(scope, value.name(), "the graph")] = refused;
    result.ranked = type->tensor_type().has_shape();
    for (const auto& dim : type->tensor_type().shape().dim()) {
      const bool known = dim.has_dim_value() && dim.dim_value() >= 0;
      result.shape.push_back(known ? dim.dim_value() : -1), result.names.push_back(dim.dim_param());
    }
    return result;
  }

  void fill(Graph& graph, const onnx_format::Graph& from, Scope& scope) {
    graph.name = from.name();
    if (++depth_ > 64) throw ValidationError("[onnx] graphs are nested too deeply");
    const bool outermost = !scope.outer && &from == &model_.graph();
    for (const auto& tensor : from.initializer()) {
      const int id = define(scope, tensor.name());
      if (supported(id, tensor, true)) network_.constants[id] = onnx_tensor(tensor, external_);
    }
    for (const auto& tensor : from.sparse_initializer()) {
      const int id = define(scope, tensor.values().name());
      if (supported(id, tensor.values(), false)) network_.constants[id] = onnx_tensor(tensor, budget_);
    }
    for (const auto& value : from.input())
      if (!outermost || !initializers_.contains(value.name())) graph.inputs.push_back(define(scope, value.name()));
    for (int i : node_order(from)) add(graph, from.node(i), scope);
    for (const auto& value : from.output()) {
      graph.outputs.push_back(look_up(scope, value.name(), "graph '" + from.name() + "'"));
      widened_is_read(graph.outputs.back());
    }
    depth_--;
  }

  // Notes a value whose element type is not. Dense constants of 4 bits become bytes, for those who know.
  bool supported(int id, const onnx_format::Tensor& tensor, bool dense) {
    const std::string refused = unsupported_element_type(tensor.data_type());
    if (refused.empty()) return true;
    const bool widened = dense && is_four_bits(tensor.data_type());
    (widened ? widened_ : network_.unsupported)[id] = refused;
    return widened;
  }

  // A widened constant is not what other operators than those that scale it would see.
  void widened_is_read(int id) {
    if (const auto it = widened_.find(id); it != widened_.end()) network_.unsupported[id] = it->second;
  }

  static void refuse(Node& node, const onnx_format::Attribute& attribute, const std::string& why) {
    node.refused += (node.refused.empty() ? "" : ", ") + ("attribute " + attribute.name() + " of " + why);
    node.attributes.erase(attribute.name());
  }

  void add(Graph& graph, const onnx_format::Node& from, Scope& scope) {
    Node node;
    node.type = from.op_type(), node.name = from.name(), node.domain = domain_of(from.domain());
    for (const auto& name : from.input()) node.inputs.push_back(look_up(scope, name, "node " + from.op_type()));
    for (const auto& attribute : from.attribute()) convert(node, attribute, scope);
    if (auto it = functions_.find({node.domain, node.type, from.overload()}); it != functions_.end())
      return expand(graph, *it->second, from, node, scope);
    if (auto it = scope.versions->find(node.domain); it != scope.versions->end()) node.version = it->second;
    if (node.type == "GatherBlockQuantized" && !node.inputs.empty() && widened_.contains(node.inputs[0]))
      node.attributes["widened"] = std::int64_t(1);  // it takes tables with two numbers in a byte, too
    else if (node.type != "DequantizeLinear")
      for (int id : node.inputs) widened_is_read(id);
    for (const auto& name : from.output()) node.outputs.push_back(define(scope, name));
    graph.nodes.push_back(std::move(node));
  }

  // Puts the function's nodes in the place of its call.
  void expand(Graph& graph, const onnx_format::Function& function, const onnx_format::Node& from, const Node& call,
              Scope& scope) {
    if (++depth_ > 64) throw ValidationError("[onnx] functions call each other too deeply");
    // Few functions may make many nodes: what is put in twice takes memory twice. A byte of a file is some 8 of a node.
    const std::uint64_t stored = function.ByteSizeLong() + from.ByteSizeLong();
    budget_.spend(8 * stored, "[onnx] function " + function.name());
    std::map<std::string, Attribute> attributes = call.attributes;
    Node defaults;
    for (const auto& attribute : function.attribute_proto()) convert(defaults, attribute, scope);
    attributes.merge(defaults.attributes);
    const Versions versions = versions_of(function.opset_import());
    Scope inner;
    inner.attributes = &attributes, inner.versions = &versions;
    if (from.input_size() > function.input_size())
      throw ValidationError("[onnx] function " + function.name() + " takes " + std::to_string(function.input_size()) +
                            " inputs, got " + std::to_string(from.input_size()));
    for (int i = 0; i < function.input_size(); i++)
      inner.names[function.input(i)] = i < from.input_size() ? call.inputs[std::size_t(i)] : -1;
    for (const auto& node : function.node()) add(graph, node, inner);
    for (int i = 0; i < from.output_size() && i < function.output_size(); i++)
      if (!from.output(i).empty())
        scope.names[from.output(i)] = look_up(inner, function.output(i), "function " + function.name());
    depth_--;
  }

  void convert(Node& node, const onnx_format::Attribute& from, const Scope& scope) {
    if (!from.ref_attr_name().empty()) {  // stands for an attribute of the function's call
      if (scope.attributes)
        if (auto it = scope.attributes->find(from.ref_attr_name()); it != scope.attributes->end()) {
          budget_.spend(bytes_of(it->second, graphs_), "[onnx] " + node.type);
          node.attributes[from.name()] = it->second;
        }
      return;
    }
    Attribute& to = node.attributes[from.name()];
    switch (kind(from)) {
      case 1: to = double(from.f()); break;
      case 2: to = from.i(); break;
      case 3: to = from.s(); break;
      case 4:
        if (const std::string refused = unsupported_element_type(from.t().data_type()); !refused.empty())
          refuse(node, from, "element type " + refused);
        else to = onnx_tensor(from.t(), external_);
        break;
      case 5: {
        auto graph = std::make_shared<Graph>();
        Scope inner;
        inner.outer = &scope, inner.attributes = scope.attributes, inner.versions = scope.versions;
        fill(*graph, from.g(), inner);
        std::uint64_t& weight = graphs_[graph.get()] = sizeof(Graph);
        for (const Node& each : graph->nodes) {
          weight += sizeof(Node);
          for (const auto& [name, attribute] : each.attributes) weight += bytes_of(attribute, graphs_);
        }
        to = std::move(graph);
        break;
      }
      case 6: to = std::vector<double>(from.floats().begin(), from.floats().end()); break;
      case 7: to = std::vector<std::int64_t>(from.ints().begin(), from.ints().end()); break;
      case 8: to = std::vector<std::string>(from.strings().begin(), from.strings().end()); break;
      case 11: to = onnx_tensor(from.sparse_tensor(), budget_); break;
      case 13: node.attributes.erase(from.name()); break;  // a type; values know theirs
      default: refuse(node, from, "kind " + std::to_string(from.type()));
    }
  }

  // Files before IR version 4 may leave the kind out.
  static int kind(const onnx_format::Attribute& a) {
    if (a.type()) return a.type();
    return a.has_f()          ? 1
           : a.has_i()        ? 2
           : a.has_s()        ? 3
           : a.has_t()        ? 4
           : a.has_g()        ? 5
           : a.floats_size()  ? 6
           : a.strings_size() ? 8
                              : 7;
  }

  const onnx_format::Model& model_;
  Budget budget_;
  ExternalData external_;
  std::map<Key, const onnx_format::Function*> functions_;
  std::map<const Graph*, std::uint64_t> graphs_;  // bytes of inner graphs and those inside them
  std::set<std::string> initializers_;
  std::map<int, std::string> widened_;  // constants of 4 bits that became bytes, and their types' names
  Network network_;
  int depth_ = 0;
};

// Floating constants with names are parameters; statistics are not trained, nor are single numbers.
void find_parameters(Network& network) {
  std::set<int> statistics;
  for (const Node& node : network.graph.nodes)
    if (node.type == "BatchNormalization")
      for (std::size_t i = 3; i < node.inputs.size(); i++) statistics.insert(node.inputs[i]);
  std::set<std::string> names;
  for (const auto& [id, tensor] : network.constants) {
    const std::string& name = network.values[std::size_t(id)];
    if (!is_floating(tensor.dtype()) || name.empty() || !names.insert(name).second) continue;
    const bool trainable = tensor.shape().size() > 0 && !statistics.contains(id);
    network.parameters.push_back({name, id, trainable, tensor.dtype(), tensor.shape()});
  }
}

}  // namespace

Network import_onnx(const onnx_format::Model& model, std::size_t bytes, const std::filesystem::path& folder) {
  Network network = Importer(model, bytes, folder).run();
  find_parameters(network);
  return network;
}

}  // namespace dlprim
