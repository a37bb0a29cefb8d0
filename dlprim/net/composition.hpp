// SPDX-License-Identifier: MIT
// Operators that are made of others: written once, they run, and their gradients follow.
#pragma once
#include "inner.hpp"

namespace dlprim {

class GradientCall;

/// One call of such an operator.
class Composition {
 public:
  /// A tensor between the operators inside; undefined for an input that is left out.
  struct Part {
    Tensor tensor;
    int id = -1;
    const Shape& shape() const noexcept { return tensor.shape(); }
    bool defined() const noexcept { return tensor.defined(); }
  };

  /// `recorded`: everything stays for backward().
  Composition(Call& call, bool recorded) : call(call), executor_(call.queue()), recorded_(recorded) {}

  Part input(int i);
  /// A tensor that has no gradient.
  Part constant(const Tensor& tensor) { return {tensor, -1}; }
  Part constant(double value, DataType type);
  /// Runs an operator of one output.
  Part operator()(const Inner& op, const std::vector<Part>& inputs);
  Part reshape(const Part& x, const Shape& shape);
  Part transpose(const Part& x, const std::vector<std::int64_t>& order) {
    return (*this)(inner<"Transpose", "perm", std::vector<std::int64_t>>(order), {x});
  }
  Part narrow(const Part& x, int dim, std::int64_t start, std::int64_t length, std::int64_t step = 1);
  Part cast(const Part& x, DataType type);
  void set(int i, const Part& part);

  /// Adds the gradients of the call's inputs.
  void backward(GradientCall& gradients);

  Call& call;

 private:
  int place(const Part& part);
  Executor executor_;
  bool recorded_;
  Graph graph_;
  int values_ = 0;  // how many have a number
  std::map<int, int> inputs_, outputs_;  // of the call, by value
};

/// Runs the operator.
template <void (*function)(Composition&)>
void composed(Call& call) {
  Composition composition(call, false);
  function(composition);
}

/// Adds such an operator.
template <void (*function)(Composition&)>
void compose(Registry& registry, const char* type, const char* attributes = "") {
  registry.add(type, composed<function>, attributes, "", function);
}
/// One that reads its attributes as a struct T.
template <class T, void (*function)(Composition&)>
void compose(Registry& registry, const char* type, const char* attributes) {
  registry.add<T>(type, composed<function>, attributes, "", function);
}

}  // namespace dlprim
