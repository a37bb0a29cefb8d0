// SPDX-License-Identifier: MIT
// What operators are written with: the call of one node, and the table of all operators.
#pragma once
#include <dlprim/error.hpp>
#include <dlprim/net/graph.hpp>
#include <dlprim/primitives/random.hpp>

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

class Executor;

/// One node being run. Errors it throws name the operator. Operators read inputs, set every wanted output, and enqueue
/// work by primitives only.
class Call {
 public:
  Call(Executor& executor, const Node& node);

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

  bool given(const char* name) const;
  std::int64_t integer(const char* name, std::int64_t otherwise) const;
  double real(const char* name, double otherwise) const;
  std::string text(const char* name, const char* otherwise) const;
  std::vector<std::int64_t> integers(const char* name) const;  ///< empty when not given
  std::vector<double> reals(const char* name) const;
  const Attribute& attribute(const char* name) const;  ///< ValidationError when not given
  const Graph& graph(const char* name) const;

  /// Elements of an input, waiting for the device if need be; real numbers of any type, or integers.
  std::vector<std::int64_t> read_integers(int i);
  std::vector<double> read_reals(int i);
  /// Says that an output's sizes depend on the elements of input `i`.
  void depends_on(int i);
  /// Says that running again gives other numbers.
  void random() noexcept { random_ = true; }
  /// Says that inner graphs gave values whose sizes may differ every time, unless all inputs are known.
  void varies() noexcept { shape_ = Known::never; }
  /// The next state of the network's generator; `seed` (attribute) makes the node reproducible.
  PhiloxState philox();

  /// Runs a graph of this node's attributes with `inputs` as its inputs; gives its outputs.
  std::vector<Value> run(const Graph& graph, const std::vector<Value>& inputs);
  /// Runs another operator on tensors, for operators defined by others.
  std::vector<Tensor> run(const char* type, const std::vector<Tensor>& inputs,
                          std::map<std::string, Attribute> attributes = {}, int outputs = 1);

  [[noreturn]] void fail(const std::string& message) const;

 protected:
  Executor& executor_;
  const Node& node_;

 private:
  friend class Executor;
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
};

/// All operators by domain and type.
class Registry {
 public:
  void add(const char* type, OperatorFunction function, const char* attributes = "", const char* domain = "",
           CompositionFunction composition = nullptr);
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
  /// Forgets what is known only with the shapes of inputs.
  void forget_shapes();
  /// Whether one of the operators that ran was random.
  bool random() const noexcept { return random_; }
  void seed(std::uint64_t seed) noexcept { philox_ = {seed, 0}; }

 private:
  friend class Call;
  void run(const Node& node);
  Queue& queue_;
  std::deque<Value> values_;  // references stay when it grows
  PhiloxState philox_{0x5eed, 0};
  bool random_ = false;
};

}  // namespace dlprim
