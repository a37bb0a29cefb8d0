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

struct UnaryAttributes {
  explicit UnaryAttributes(const AttributeReader& reader) {
    const Unary& row = unary_rows.at(reader.node().type);
    std::istringstream words(row.attributes);
    for (std::string word; words >> word;) {
      const auto colon = word.find(':');
      scalars.push_back(reader.number(word.substr(0, colon).c_str(), std::stod(word.substr(colon + 1))));
    }
    if (row.code != "x0") code = find_pointwise(row.code) ? row.code : "y0 = " + row.code + ";";
    input = row.reads == "x0", output = row.reads == "y0";
  }
  std::vector<Scalar> scalars;
  std::string code;  // empty: the output's gradient itself
  bool input, output;  // read
};

void unary(GradientCall& call) {
  const auto& attributes = call.attributes<UnaryAttributes>();
  const Tensor dy = call.gradient();
  if (attributes.code.empty()) return call.add(0, dy);
  std::vector<Tensor> inputs{dy};
  if (attributes.input) inputs.push_back(call.input(0));
  if (attributes.output) inputs.push_back(call.output(0));
  call.add(0, apply(call.queue(), attributes.code, inputs, attributes.scalars, dy.dtype()));
}

struct BinaryAttributes {
  explicit BinaryAttributes(const AttributeReader& reader) {
    const Binary& row = binary_rows.at(reader.node().type);
    reads = !row.reads.empty();
    for (const int i : {0, 1})
      if (row.code[i] != "x0") code[i] = "y0 = " + row.code[i] + ";";
  }
  std::string code[2];  // empty: the output's gradient itself
  bool reads;
};

void binary(GradientCall& call) {
  const auto& attributes = call.attributes<BinaryAttributes>();
  const Tensor dy = call.gradient();
  for (int i : {0, 1}) {
    if (!call.needs(i)) continue;
    if (attributes.code[i].empty()) {
      call.add(i, dy);
      continue;
    }
    std::vector<Tensor> inputs{dy};
    if (attributes.reads) inputs.push_back(call.input(0)), inputs.push_back(call.input(1));
    call.add(i, apply_sum_to(call.queue(), attributes.code[i], inputs, {}, call.shape(i), dy.dtype()));
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

struct PointwiseAttributes {
  explicit PointwiseAttributes(const AttributeReader& reader)
      : min(reader.find<double>("min")), max(reader.find<double>("max")), ratio(reader.real("ratio", 0.5)),
        tanh(reader.text("approximate", "none") == "tanh") {}
  std::optional<double> min, max;  // of Clip
  double ratio;                    // of Dropout
  bool tanh;                       // of Gelu
};

const PointwiseAttributes& attributes_of(const Call& call) { return call.attributes<PointwiseAttributes>(); }

void clip(GradientCall& call) {
  Tensor dx = call.gradient();
  const Tensor& x = call.input(0);
  Queue& queue = call.queue();
  const std::optional<double>&min = attributes_of(call).min, &max = attributes_of(call).max;
  if (call.has(1)) dx = apply(queue, "y0 = x1 > x2 ? x0 : 0;", {dx, x, call.input(1)});
  else if (min) dx = apply(queue, "y0 = x1 > w0 ? x0 : 0;", {dx, x}, {*min});
  if (call.has(2)) dx = apply(queue, "y0 = x1 < x2 ? x0 : 0;", {dx, x, call.input(2)});
  else if (max) dx = apply(queue, "y0 = x1 < w0 ? x0 : 0;", {dx, x}, {*max});
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
  const char* row = attributes_of(call).tanh ? "gelu_tanh_backward" : "gelu_backward";
  call.add(0, apply(call.queue(), row, {call.gradient(), call.input(0)}));
}

// y = x * mask / (1 - ratio), with the mask that the training form gives as output 1.
void dropout_gradient(GradientCall& call) {
  const double ratio = call.has(1) ? call.read_reals(1).at(0) : attributes_of(call).ratio;
  call.add(0, apply(call.queue(), "y0 = x0 * x1 * w0;", {call.gradient(), call.output(1)}, {1 / (1 - ratio)}));
}

}  // namespace

void pointwise(GradientRegistry& registry) {
  for (const auto& [type, row] : unary_rows) registry.add<UnaryAttributes>(type.c_str(), unary, row.reads.c_str());
  for (const auto& [type, row] : binary_rows) registry.add<BinaryAttributes>(type.c_str(), binary, row.reads.c_str());
  for (const char* type : no_gradients) registry.add(type, nullptr);
  registry.add("Max", max, "x* y0");
  registry.add("Min", min, "x* y0");
  registry.add("Sum", sum);
  registry.add("Mean", mean);
  registry.add<PointwiseAttributes>("Clip", clip, "x*");
  registry.add("Where", where, "x0");
  registry.add<PointwiseAttributes>("Gelu", gelu, "x0");
  registry.add<PointwiseAttributes>("Dropout", dropout_gradient, "x1 y1", 2);
}

}  // namespace dlprim::gradients
