// SPDX-License-Identifier: MIT
// What operators are written with: the call of one node, and the table of all operators.
#pragma once
#include <dlprim/error.hpp>
#include <dlprim/net/graph.hpp>
#include <dlprim/primitives/random.hpp>

#include <any>
#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>

#include "element_type.hpp"

namespace dlprim {

/// How much of a value is known before data arrives.
enum class Known : std::uint8_t { never, with_shapes, always };

/// What flows between operators: a tensor, a sequence of tensors, or nothing (an empty optional).
struct Value {
  Tensor tensor;
  std::shared_ptr<const std::vector<Tensor>> sequence;
  Known data = Known::never;   ///< when the elements are known
  Known shape = Known::never;  ///< when the sizes are known
  bool present() const noexcept { return tensor.defined() || sequence; }
};

/// How often this process has read a node's attributes or planned a backward pass: what runs alike needs neither again.
std::atomic<std::uint64_t>& setups() noexcept;

/// The attributes of a node by name, for those who read them once: when a network is set up.
class AttributeReader {
 public:
  explicit AttributeReader(const Node& node) : source_(node) { ++setups(); }
  const Node& node() const noexcept { return source_; }

  bool given(const char* name) const { return source_.attributes.contains(name); }
  /// Nothing when it is not given. Throws ValidationError for another type.
  template <class T>
  std::optional<T> find(const char* name) const {
    const auto it = source_.attributes.find(name);
    if (it == source_.attributes.end()) return {};
    if (const T* value = std::get_if<T>(&it->second)) return *value;
    throw ValidationError("attribute '" + std::string(name) + "' has the wrong type");
  }
  std::int64_t integer(const char* name, std::int64_t otherwise) const {
    return find<std::int64_t>(name).value_or(otherwise);
  }
  double real(const char* name, double otherwise) const { return find<double>(name).value_or(otherwise); }
  /// A number that files give as real or as integer.
  double number(const char* name, double otherwise) const;
  std::string text(const char* name, const char* otherwise) const {
    return find<std::string>(name).value_or(otherwise);
  }
  /// Lists are empty when not given.
  std::vector<std::int64_t> integers(const char* name) const {
    return find<std::vector<std::int64_t>>(name).value_or(std::vector<std::int64_t>());
  }
  std::vector<double> reals(const char* name) const {
    return find<std::vector<double>>(name).value_or(std::vector<double>());
  }
  /// The attribute "seed", of random operators.
  std::optional<std::uint64_t> seed() const;
  /// Throws ValidationError when it is not given.
  std::shared_ptr<const Graph> graph(const char* name) const;

 private:
  const Node& source_;
};

/// Makes the struct that an operator keeps its attributes in. Null for operators without.
using ParseFunction = std::any (*)(const AttributeReader&);
template <class T>
std::any parse_attributes(const AttributeReader& reader) {
  return std::make_any<T>(reader);
}

class Executor;
class Inner;  // inner.hpp

/// One node being run. Errors it throws name the operator. Operators read inputs, set every wanted output, and enqueue
/// work by primitives only.
class Call {
 public:
  /// `parsed`: the node's attributes as the operator reads them.
  Call(Executor& executor, const Node& node, const std::any& parsed);

  Queue& queue() const noexcept;
  const std::string& type() const noexcept { return node_.type; }
  std::int64_t version() const noexcept { return node_.version; }

  int inputs() const noexcept { return int(node_.inputs.size()); }
  int outputs() const noexcept { return int(node_.outputs.size()); }
  /// Whether the input is given and present.
  bool has(int i) const;
  /// Whether somebody reads the output.
  bool wants(int i) const noexcept { return i < outputs() && node_.outputs[std::size_t(i)] >= 0; }
  const Tensor& input(int i) const;
  const Value& value(int i) const;  ///< also for absent inputs
  TensorView in(int i) const { return input(i).view(queue()); }

  /// A fresh output.
  TensorView out(int i, DataType dtype, const Shape& shape);
  void set(int i, Tensor tensor);
  void set(int i, Value value);
  /// An output known as soon as `known` says (Shape, Size): its own data depends on sizes only.
  void set(int i, Tensor tensor, Known known);

  /// The struct that the operator was registered with.
  template <class T>
  const T& attributes() const {
    return std::any_cast<const T&>(parsed_);
  }

  /// Elements of an input, waiting for the device if need be; real numbers of any type, or integers.
  std::vector<std::int64_t> read_integers(int i);
  std::vector<double> read_reals(int i);
  /// Says that an output's sizes depend on the elements of input `i`.
  void depends_on(int i);
  /// Says that running again gives other numbers.
  void random() noexcept { random_ = true; }
  /// Says that inner graphs gave values whose sizes may differ every time, unless all inputs are known.
  void varies() noexcept { shape_ = Known::never; }
  /// The next state of the network's generator, or that of a seed, which makes the node reproducible.
  PhiloxState philox(std::optional<std::uint64_t> seed);

  /// Runs a graph of this node's attributes with `inputs` as its inputs; gives its outputs.
  std::vector<Value> run(const Graph& graph, const std::vector<Value>& inputs);
  /// Runs another operator on tensors, for operators defined by others.
  std::vector<Tensor> run(const Inner& op, const std::vector<Tensor>& inputs, int outputs = 1);

  [[noreturn]] void fail(const std::string& message) const;

 protected:
  Executor& executor_;
  const Node& node_;

 private:
  friend class Executor;
  const std::any& parsed_;
  Known data_, shape_;
  bool random_ = false;
};

/// Calls a function; errors it throws name the node then.
void with_name(const Node& node, const std::function<void()>& function);

using OperatorFunction = void (*)(Call&);
class Composition;  // composition.hpp
using CompositionFunction = void (*)(Composition&);

/// An operator. `attributes` lists, apart by blanks, the attributes it understands; "name=a|b" also those values of a
/// text that it understands. A node with others is refused when a network is loaded. `composition` says what the
/// operator is in terms of others, from which its gradient follows, or is null.
struct Operator {
  std::string type;
  OperatorFunction function;
  std::string attributes;
  std::string domain;
  CompositionFunction composition = nullptr;
  ParseFunction parse = nullptr;
};

/// Keeps a node's attributes with it, as its operator reads them.
void parse_attributes(Node& node);

/// All operators by domain and type.
class Registry {
 public:
  void add(const char* type, OperatorFunction function, const char* attributes = "", const char* domain = "",
           CompositionFunction composition = nullptr, ParseFunction parse = nullptr);
  /// An operator that reads its attributes as a struct T, which is made of an AttributeReader.
  template <class T>
  void add(const char* type, OperatorFunction function, const char* attributes = "", const char* domain = "",
           CompositionFunction composition = nullptr) {
    add(type, function, attributes, domain, composition, parse_attributes<T>);
  }
  /// Null when there is none.
  const Operator* find(const std::string& domain, const std::string& type) const;
  /// What of the node is not supported, or an empty text.
  std::string refusal(const Node& node) const;
  const auto& all() const noexcept { return operators_; }
  static const Registry& get();

 private:
  std::map<std::pair<std::string, std::string>, Operator> operators_;
};

/// Every file operators/<family>.cpp defines `void <family>(Registry&)` here; CMake collects them.
namespace operators {
void add_all(Registry& registry);
}

/// Runs graphs. Values stay as long as somebody reads them; those that are known with the shapes stay until these
/// change, and their nodes do not run again.
class Executor {
 public:
  explicit Executor(Queue& queue) : queue_(queue) {}
  Queue& queue() const noexcept { return queue_; }
  /// Values by number; made large enough.
  Value& slot(int id);
  const Value& value(int id) const;
  /// Runs all nodes; outputs are in their slots then.
  void run(const Graph& graph);
  void run(const Node& node);
  /// Forgets what is known only with the shapes of inputs.
  void forget_shapes();
  /// Whether one of the operators that ran was random.
  bool random() const noexcept { return random_; }
  void seed(std::uint64_t seed) noexcept { philox_ = {seed, 0}; }

 private:
  friend class Call;
  Queue& queue_;
  std::deque<Value> values_;  // references stay when it grows
  PhiloxState philox_{0x5eed, 0};
  bool random_ = false;
};

}  // namespace dlprim
