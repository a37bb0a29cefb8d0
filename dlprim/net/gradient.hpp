// SPDX-License-Identifier: MIT
// What gradients of operators are written with: the call of one node's gradient, and the table of all of them.
#pragma once
#include <functional>
#include <set>

#include "array.hpp"
#include "operator.hpp"

namespace dlprim {

/// The gradient of one node: reads what its row says it reads and adds to the gradients of its inputs.
class GradientCall : public Call {
 public:
  GradientCall(Executor& executor, const Node& node, const std::set<int>& needs, std::map<int, Tensor>& gradients)
      : Call(executor, node), needs_(needs), gradients_(gradients) {}

  /// Sizes and types are known of all inputs and outputs, read or not.
  const Shape& shape(int i) const { return value(i).tensor.shape(); }
  DataType dtype(int i) const { return value(i).tensor.dtype(); }
  const Tensor& output(int i) const;
  const Shape& output_shape(int i) const;

  const std::map<std::string, Attribute>& attributes() const noexcept { return node_.attributes; }
  /// What the operator gives for `x` as its first input.
  std::vector<Tensor> run_again(const Tensor& x);

  bool needs(int i) const;
  /// Gradient of an output, in its shape; undefined when there is none.
  Tensor gradient(int i = 0) const;
  /// Adds to the gradient of an input: sums over what broadcasting repeated, converts to the input's type.
  void add(int i, Tensor gradient);

 private:
  const Value& result(int i) const;
  const std::set<int>& needs_;
  std::map<int, Tensor>& gradients_;
};

using GradientFunction = void (*)(GradientCall&);

/// The gradient of an operator. `reads` lists, apart by blanks, the inputs (x0, x1 ...) and outputs (y0 ...) whose
/// elements it reads, x* for all inputs. Training asks for at least `outputs` outputs. A null function stands for
/// gradients that are 0 or meaningless. In training an operator of the domain "dlprim.training" takes a node's place if
/// there is one of the node's type.
struct Gradient {
  GradientFunction function = nullptr;
  std::string reads;
  int outputs = 0;
};

class GradientRegistry {
 public:
  void add(const char* type, GradientFunction function, const char* reads = "", int outputs = 0) {
    gradients_[type] = {function, reads, outputs};
  }
  /// Null when there is none. ONNX's main domain and dlprim's own share their names.
  const Gradient* find(const Node& node) const;
  static const GradientRegistry& get();

 private:
  std::map<std::string, Gradient> gradients_;
};

/// Every file gradients/<family>.cpp defines `void <family>(GradientRegistry&)` here; CMake collects them. A family that
/// has training forms defines an operator family of its own beside.
namespace gradients {}
void add_all_gradients(GradientRegistry& registry);

/// The sum of x over the dimensions in which `shape` broadcasts to x's.
Tensor sum_to(Queue& queue, const Tensor& x, const Shape& shape);
/// As sum_to of apply(code, inputs), in one pass.
Tensor apply_sum_to(Queue& queue, const std::string& code, const std::vector<Tensor>& inputs,
                    const std::vector<double>& scalars, const Shape& shape, DataType result);

}  // namespace dlprim
