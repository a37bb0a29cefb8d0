// SPDX-License-Identifier: MIT
// Operators that are made of others: written once, they run, and their gradients follow.
#pragma once
#include "inner.hpp"
#include "training.hpp"

namespace dlprim {

class GradientCall;

/// What ran inside of such an operator, for its gradient. The nodes and the plan for their gradients stay: the next run
/// makes again what comes after the first node that differs, and mostly there is none.
class Recording {
 public:
  void begin() noexcept { used_ = 0; }
  /// The next node: `op` on these values; its outputs are numbered from `first` on.
  const Node& next(const Inner& op, const std::vector<int>& inputs, int first);
  /// The backward pass, from gradients of `outputs` to those of `sources`, of what was recorded since begin().
  std::shared_ptr<const Training> training(const std::vector<int>& outputs, const std::set<int>& sources);

 private:
  void drop_rest();
  Graph graph_;
  std::vector<Inner> operators_;  // of the nodes
  std::size_t used_ = 0;
  KeptTraining training_;
};

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

  /// With a recording, everything stays for backward().
  explicit Composition(Call& call, Recording* recording = nullptr)
      : call(call), executor_(call.queue()), recording_(recording) {}

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
  Recording* recording_;
  int values_ = 0;  // how many have a number
  std::map<int, int> inputs_, outputs_;  // of the call, by value
};

/// Runs the operator.
template <void (*function)(Composition&)>
void composed(Call& call) {
  Composition composition(call);
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
