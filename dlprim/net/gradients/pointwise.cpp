// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/primitives/random.hpp>

#include <sstream>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

struct Unary {
  std::string reads, code, attributes;
};
struct Binary {
  std::string code[2], reads;
};

const std::map<std::string, Unary> unary_rows = {
#define UNARY(type, reads, code, attributes) {#type, {reads, code, attributes}},
#define BINARY(type, first, second, reads)
#define NONE(type)
#include "pointwise_table.inc"
#undef UNARY
#undef BINARY
#undef NONE
};

const std::map<std::string, Binary> binary_rows = {
#define UNARY(type, reads, code, attributes)
#define BINARY(type, first, second, reads) {#type, {{first, second}, reads}},
#define NONE(type)
#include "pointwise_table.inc"
#undef UNARY
#undef BINARY
#undef NONE
};

const char* const no_gradients[] = {
#define UNARY(type, reads, code, attributes)
#define BINARY(type, first, second, reads)
#define NONE(type) #type,
#include "pointwise_table.inc"
#undef UNARY
#undef BINARY
#undef NONE
};

double number(const Call& call, const std::string& name, double otherwise) {
  if (!call.given(name.c_str())) return otherwise;
  const Attribute& attribute = call.attribute(name.c_str());
  const auto* whole = std::get_if<std::int64_t>(&attribute);
  return whole ? double(*whole) : call.real(name.c_str(), otherwise);
}

void unary(GradientCall& call) {
  const Unary& row = unary_rows.at(call.type());
  const Tensor dy = call.gradient();
  if (row.code == "x0") return call.add(0, dy);
  std::vector<Scalar> scalars;
  std::istringstream words(row.attributes);
  for (std::string word; words >> word;) {
    const auto colon = word.find(':');
    scalars.push_back(number(call, word.substr(0, colon), std::stod(word.substr(colon + 1))));
  }
  std::vector<Tensor> inputs{dy};
  if (!row.reads.empty()) inputs.push_back(row.reads == "x0" ? call.input(0) : call.output(0));
  const std::string code = find_pointwise(row.code) ? row.code : "y0 = " + row.code + ";";
  call.add(0, apply(call.queue(), code, inputs, scalars, dy.dtype()));
}

void binary(GradientCall& call) {
  const Binary& row = binary_rows.at(call.type());
  const Tensor dy = call.gradient();
  for (int i : {0, 1}) {
    if (!call.needs(i)) continue;
    if (row.code[i] == "x0") {
      call.add(i, dy);
      continue;
    }
    std::vector<Tensor> inputs{dy};
    if (!row.reads.empty()) inputs.push_back(call.input(0)), inputs.push_back(call.input(1));
    call.add(i, apply_sum_to(call.queue(), "y0 = " + row.code[i] + ";", inputs, {}, call.shape(i), dy.dtype()));
  }
}

// Of two equal ones the first gets the gradient; of more, each.
void extreme(GradientCall& call, const char* first, const char* second) {
  const Tensor dy = call.gradient();
  if (call.inputs() == 2) {
    for (int i : {0, 1})
      if (call.needs(i))
        call.add(i, apply_sum_to(call.queue(), i ? second : first, {dy, call.input(0), call.input(1)}, {},
                                 call.shape(i), dy.dtype()));
    return;
  }
  for (int i = 0; i < call.inputs(); i++)
    if (call.needs(i)) call.add(i, apply(call.queue(), "y0 = x1 == x2 ? x0 : 0;", {dy, call.input(i), call.output(0)}));
}

void max(GradientCall& call) { extreme(call, "y0 = x1 >= x2 ? x0 : 0;", "y0 = x1 >= x2 ? 0 : x0;"); }
void min(GradientCall& call) { extreme(call, "y0 = x1 <= x2 ? x0 : 0;", "y0 = x1 <= x2 ? 0 : x0;"); }

void sum(GradientCall& call) {
  for (int i = 0; i < call.inputs(); i++) call.add(i, call.gradient());
}

void mean(GradientCall& call) {
  const Tensor dy = apply(call.queue(), "y0 = x0 / w0;", {call.gradient()}, {double(call.inputs())});
  for (int i = 0; i < call.inputs(); i++) call.add(i, dy);
}

void clip(GradientCall& call) {
  Tensor dx = call.gradient();
  const Tensor& x = call.input(0);
  Queue& queue = call.queue();
  if (call.has(1)) dx = apply(queue, "y0 = x1 > x2 ? x0 : 0;", {dx, x, call.input(1)});
  else if (call.given("min")) dx = apply(queue, "y0 = x1 > w0 ? x0 : 0;", {dx, x}, {call.real("min", 0)});
  if (call.has(2)) dx = apply(queue, "y0 = x1 < x2 ? x0 : 0;", {dx, x, call.input(2)});
  else if (call.given("max")) dx = apply(queue, "y0 = x1 < w0 ? x0 : 0;", {dx, x}, {call.real("max", 0)});
  call.add(0, dx);
}

void where(GradientCall& call) {
  const Tensor dy = call.gradient();
  const DataType type = dy.dtype();
  for (int i : {1, 2})
    if (call.needs(i))
      call.add(i, apply_sum_to(call.queue(), i == 1 ? "y0 = x1 != 0 ? x0 : 0;" : "y0 = x1 != 0 ? 0 : x0;",
                               {dy, call.input(0)}, {}, call.shape(i), type));
}

void gelu(GradientCall& call) {
  const char* row = call.text("approximate", "none") == "tanh" ? "gelu_tanh_backward" : "gelu_backward";
  call.add(0, apply(call.queue(), row, {call.gradient(), call.input(0)}));
}

// y = x * mask / (1 - ratio), with the mask that the training form gives as output 1.
void dropout_gradient(GradientCall& call) {
  const double ratio = call.has(1) ? call.read_reals(1).at(0) : call.real("ratio", 0.5);
  call.add(0, apply(call.queue(), "y0 = x0 * x1 * w0;", {call.gradient(), call.output(1)}, {1 / (1 - ratio)}));
}

}  // namespace

void pointwise(GradientRegistry& registry) {
  for (const auto& [type, row] : unary_rows) registry.add(type.c_str(), unary, row.reads.c_str());
  for (const auto& [type, row] : binary_rows) registry.add(type.c_str(), binary, row.reads.c_str());
  for (const char* type : no_gradients) registry.add(type, nullptr);
  registry.add("Max", max, "x* y0");
  registry.add("Min", min, "x* y0");
  registry.add("Sum", sum);
  registry.add("Mean", mean);
  registry.add("Clip", clip, "x*");
  registry.add("Where", where, "x0");
  registry.add("Gelu", gelu, "x0");
  registry.add("Dropout", dropout_gradient, "x1 y1", 2);
}

}  // namespace dlprim::gradients
