// SPDX-License-Identifier: MIT
// What gradients of operators are written with: the call of one node's gradient, and the table of all of them.
#pragma once
#include <functional>
#include <set>

#include "array.hpp"
#include "inner.hpp"

namespace dlprim {

/// The gradient of one node: reads what its row says it reads and adds to the gradients of its inputs.
class GradientCall : public Call {
 public:
  GradientCall(Executor& executor, const Node& node, const std::set<int>& needs, std::map<int, Tensor>& gradients)
      : Call(executor, node, node.parsed_gradient), needs_(needs), gradients_(gradients) {}

  /// Sizes and types are known of all inputs and outputs, read or not.
  const Shape& shape(int i) const { return value(i).tensor.shape(); }
  DataType dtype(int i) const { return value(i).tensor.dtype(); }
  const Tensor& output(int i) const;
  const Shape& output_shape(int i) const;

  const Operator& implementation() const noexcept { return *node_.implementation; }
  /// The call of the operator itself.
  Call forward() const { return {executor_, node_, node_.parsed}; }
  /// What the operator, which the gradient is registered with as its Inner, gives for `x` as its first input.
  std::vector<Tensor> run_again(const Tensor& x);

  bool needs(int i) const;
  /// The same for a value of outer graphs that inner graphs read, by number.
  bool needs_value(int id) const;
  const std::vector<int>& captured() const noexcept { return node_.captured; }
  const Value& captured_value(int id) const { return executor_.value(id); }
  /// Gradient of an output, in its shape; undefined when there is none.
  Tensor gradient(int i = 0) const;
  /// Adds to the gradient of an input: sums over what broadcasting repeated, converts to the input's type.
  void add(int i, Tensor gradient) {
    if (needs(i)) add_to_value(node_.inputs[std::size_t(i)], std::move(gradient));
  }
  void add_to_value(int id, Tensor gradient);

 private:
  const Value& result(int i) const;
  const std::set<int>& needs_;
  std::map<int, Tensor>& gradients_;
};

using GradientFunction = void (*)(GradientCall&);

/// Whose elements a gradient reads. Made of a list, apart by blanks, of inputs (x0, x1 ...) and outputs (y0 ...), x* for
/// all inputs, c* for what inner graphs read.
struct Reads {
  Reads() = default;
  explicit Reads(const char* list);
  std::vector<int> inputs, outputs;
  bool all_inputs = false, captured = false;
};

/// The gradient of an operator. Training asks for at least `outputs` outputs. A null function stands for gradients that
/// are 0 or meaningless. In training an operator of the domain "dlprim.training" stands in for a node if there is one of
/// the node's type.
struct Gradient {
  GradientFunction function = nullptr;
  Reads reads;
  int outputs = 0;
  ParseFunction parse = nullptr;
};

class GradientRegistry {
 public:
  void add(const char* type, GradientFunction function, const char* reads = "", int outputs = 0,
           ParseFunction parse = nullptr) {
    gradients_[type] = {function, Reads(reads), outputs, parse};
  }
  /// A gradient that reads the node's attributes as a struct T, which is made of an AttributeReader.
  template <class T>
  void add(const char* type, GradientFunction function, const char* reads = "", int outputs = 0) {
    add(type, function, reads, outputs, parse_attributes<T>);
  }
  /// Null when there is none. ONNX's main domain and dlprim's own share their names.
  const Gradient* find(const Node& node) const;
  /// The attributes as the node's gradient reads them.
  static std::any parse(const Gradient& gradient, const Node& node);
  static const GradientRegistry& get();

 private:
  std::map<std::string, Gradient> gradients_;
};

/// Every file gradients/<family>.cpp defines `void <family>(GradientRegistry&)` here; CMake collects them.
namespace gradients {
void add_all(GradientRegistry& registry);
}

}  // namespace dlprim
