// SPDX-License-Identifier: MIT
// Gradients that are other operators of ONNX: running sums, triangles, gathering and scattering, Einsum.
#include <algorithm>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

void cum_sum(GradientCall& call) {
  std::map<std::string, Attribute> attributes = call.attributes();
  attributes["reverse"] = std::int64_t(!call.integer("reverse", 0));
  call.add(0, call.run("CumSum", {call.gradient(), call.input(1)}, attributes)[0]);
}

// The same elements are left out of the gradient.
void trilu(GradientCall& call) { call.add(0, call.run_again(call.gradient())[0]); }

void gather_nd(GradientCall& call) {
  if (call.integer("batch_dims", 0)) call.fail("there is no gradient for batch_dims");
  const Tensor zeros = filled(call.queue(), call.dtype(0), call.shape(0), 0);
  call.add(0, call.run("ScatterND", {zeros, call.input(1), call.gradient()}, {{"reduction", std::string("add")}})[0]);
}

// What is overwritten gets no gradient; what is added to keeps it.
void scatter(GradientCall& call, const char* gather) {
  const std::string how = call.text("reduction", "none");
  if (how != "none" && how != "add") call.fail("there is no gradient for reduction " + how);
  const Tensor dy = call.gradient();
  std::map<std::string, Attribute> attributes = call.attributes();
  attributes.erase("reduction");
  if (call.needs(0) && how == "add") call.add(0, dy);
  if (call.needs(0) && how == "none") {
    const Tensor zeros = filled(call.queue(), dy.dtype(), call.shape(2), 0);
    call.add(0, call.run(call.type().c_str(), {dy, call.input(1), zeros}, attributes)[0]);
  }
  if (call.needs(2)) call.add(2, call.run(gather, {dy, call.input(1)}, attributes)[0]);
}

void scatter_nd(GradientCall& call) { scatter(call, "GatherND"); }
void scatter_elements(GradientCall& call) { scatter(call, "GatherElements"); }

// Each operand's gradient is the Einsum of the output's gradient and the other operands into the operand's letters.
void einsum(GradientCall& call) {
  std::string equation = call.text("equation", "");
  std::erase(equation, ' ');
  const auto arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos)
    call.fail("there is a gradient only for equations with -> and without ellipsis");
  std::vector<std::string> terms;
  std::string term;
  for (char c : equation.substr(0, arrow) + ",") {
    if (c == ',') terms.push_back(std::exchange(term, ""));
    else term += c;
  }
  const std::string result = equation.substr(arrow + 2);
  if (int(terms.size()) != call.inputs()) call.fail("the equation does not fit the inputs");
  for (int i = 0; i < call.inputs(); i++) {
    if (!call.needs(i)) continue;
    const std::string& letters = terms[std::size_t(i)];
    std::string left = result, others, wanted;
    std::vector<Tensor> inputs{call.gradient()};
    for (int k = 0; k < call.inputs(); k++)
      if (k != i) left += "," + terms[std::size_t(k)], others += terms[std::size_t(k)], inputs.push_back(call.input(k));
    Shape missing;  // dimensions that were summed from this operand alone are repeated
    for (std::size_t d = 0; d < letters.size(); d++) {
      if (std::count(letters.begin(), letters.end(), letters[d]) > 1) call.fail("there is no gradient for a letter that stands twice");
      const bool found = (result + others).find(letters[d]) != std::string::npos;
      if (found) wanted += letters[d];
      missing.push_back(found ? call.shape(i)[int(d)] : 1);
    }
    const Tensor dx = call.run("Einsum", inputs, {{"equation", left + "->" + wanted}})[0];
    call.add(i, expand(reshape(call.queue(), dx, missing), call.shape(i)));
  }
}

}  // namespace

void linear_maps(GradientRegistry& registry) {
  registry.add("CumSum", cum_sum, "x1");
  registry.add("Trilu", trilu, "x1");
  registry.add("GatherND", gather_nd, "x1");
  registry.add("ScatterND", scatter_nd, "x1");
  registry.add("ScatterElements", scatter_elements, "x1");
  registry.add("Einsum", einsum, "x*");
}

}  // namespace dlprim::gradients
