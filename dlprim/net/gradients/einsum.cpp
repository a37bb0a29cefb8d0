// SPDX-License-Identifier: MIT
#include "../einsum.hpp"

#include "../gradient.hpp"
#include "../matrix.hpp"

namespace dlprim::gradients {

namespace {

// The gradient of one operand is the Einsum of the output's gradient and the other operands into its letters. A letter
// that stands twice leads to a diagonal, which a product with the identity makes.
void operand(GradientCall& call, const Equation& equation, int i) {
  Queue& queue = call.queue();
  const std::string& letters = equation.terms[std::size_t(i)];
  Equation backward{{equation.result}, ""};
  std::vector<std::string>& terms = backward.terms;
  std::vector<Tensor> inputs{call.gradient()};
  for (int k = 0; k < call.inputs(); k++)
    if (k != i) terms.push_back(equation.terms[std::size_t(k)]), inputs.push_back(call.input(k));
  std::string once, &found = backward.result;
  char fresh = 0;  // characters beyond ASCII are in no equation
  for (std::size_t d = 0; d < letters.size(); d++) {
    char c = letters[d];
    if (once.find(c) != std::string::npos) {
      c = char(-128 + fresh++);
      terms.push_back({letters[d], c});
      inputs.push_back(identity_matrix(queue, inputs[0].dtype(), call.shape(i)[int(d)]));
    }
    once += c;
  }
  std::string all;
  for (const std::string& term : terms) all += term;
  for (char c : once)
    if (all.find(c) != std::string::npos) found += c;
  const Tensor dx = compute(call, backward, inputs);
  Shape kept, whole;  // dimensions that were summed from this operand alone are repeated
  int next = 0;
  for (std::size_t d = 0; d < once.size(); d++) {
    const bool here = found.find(once[d]) != std::string::npos;
    kept.push_back(here ? dx.shape()[next++] : 1), whole.push_back(here ? kept[int(d)] : call.shape(i)[int(d)]);
  }
  call.add(i, expand(reshape(queue, dx, kept), whole));
}

void einsum_op(GradientCall& call) {
  std::vector<Shape> shapes;
  for (int i = 0; i < call.inputs(); i++) shapes.push_back(call.shape(i));
  const Equation equation = read_equation(call, shapes);
  for (int i = 0; i < call.inputs(); i++)
    if (call.needs(i)) operand(call, equation, i);
}

}  // namespace

void einsum(GradientRegistry& registry) { registry.add<EinsumAttributes>("Einsum", einsum_op, "x*"); }

}  // namespace dlprim::gradients
