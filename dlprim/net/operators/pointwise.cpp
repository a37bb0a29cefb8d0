// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pointwise_code.hpp>

#include <sstream>

#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

// A scalar of a row: an attribute, one over it, or a number.
struct Factor {
  std::string attribute;
  bool inverse;
  double otherwise;
};

struct Row {
  PointwiseId id;
  std::vector<Factor> scalars;
  std::string with_relu;  // the row and ReLU behind it, as statements
};

const std::map<std::string, Row>& rows() {
  static const std::map<std::string, Row> table = [] {
    std::map<std::string, Row> rows;
    const std::string relu = assign_row(PointwiseId::relu, "y0", {"y0"});
    auto add = [&](const char* type, PointwiseId id, const char* scalars) {
      Row row{id, {}, std::string("y0 = ") + pointwise_row(id).expression + "; " + relu};
      std::istringstream words(scalars);
      for (std::string word; words >> word;) {
        const auto colon = word.find(':');
        if (word[0] == '/') row.scalars.push_back({word.substr(1), true, 0});
        else if (colon == word.npos) row.scalars.push_back({"", false, std::stod(word)});
        else row.scalars.push_back({word.substr(0, colon), false, std::stod(word.substr(colon + 1))});
      }
      for (Factor& factor : row.scalars)
        for (const Factor& other : row.scalars)
          if (factor.inverse && other.attribute == factor.attribute && !other.inverse)
            factor.otherwise = other.otherwise;
      rows[type] = std::move(row);
    };
#define ROW(type, row, scalars) add(#type, PointwiseId::row, scalars);
#include "pointwise_table.inc"
#undef ROW
    return rows;
  }();
  return table;
}

// The second operand as operator sets before 7 broadcast it: its dimensions begin at `axis` of the first.
Tensor aligned(Call& call, const Tensor& a, Tensor b) {
  if (call.version() >= 7 || !call.integer("broadcast", 0) || !call.given("axis")) return b;
  const int axis = a.shape().axis(call.integer("axis", 0));
  while (axis + b.shape().size() < a.shape().size()) b = unsqueeze(b, b.shape().size());
  return b;
}

// Before operator set 7 slopes are one a channel.
void prelu(Call& call) {
  Tensor slope = call.input(1);
  if (call.version() < 7 && slope.shape().size() == 1 && slope.numel() > 1)
    for (int d = 2; d < call.input(0).shape().size(); d++) slope = unsqueeze(slope, d - 1);
  call.set(0, apply(call.queue(), "prelu", {call.input(0), slope}));
}

std::vector<Tensor> operands(Call& call) {
  std::vector<Tensor> result;
  for (int i = 0; i < call.inputs(); i++) result.push_back(call.input(i));
  if (result.size() == 2) result[1] = aligned(call, result[0], result[1]);
  return result;
}

double value_of(Call& call, const Factor& factor) {
  const char* name = factor.attribute.c_str();
  if (!*name) return factor.otherwise;
  const bool integer = call.given(name) && std::holds_alternative<std::int64_t>(call.attribute(name));
  return integer ? double(call.integer(name, 0)) : call.real(name, factor.otherwise);
}

void run_row(Call& call) {
  const Row& row = rows().at(call.type());
  std::vector<Scalar> scalars;
  for (const Factor& factor : row.scalars) {
    const double value = value_of(call, factor);
    scalars.push_back(factor.inverse ? 1 / value : value);
  }
  const std::vector<Tensor> inputs = operands(call);
  if (inputs.empty()) call.fail("expected an input");
  const PointwiseRow& expression = pointwise_row(row.id);
  const DataType result = expression.result == ResultType::truth ? DataType::boolean : inputs[0].dtype();
  const bool relu = call.given("activation");  // left by optimize()
  call.set(0, apply(call.queue(), relu ? std::string_view(row.with_relu) : expression.name, inputs, scalars, result));
}

void div(Call& call) {
  const std::vector<Tensor> x = operands(call);
  const DataType type = call.input(0).dtype();
  call.set(0, apply(call.queue(), is_integral(type) ? "div_trunc" : "div_true", x, {}, type));
}

void mod(Call& call) {
  call.set(0, apply(call.queue(), call.integer("fmod", 0) ? "fmod" : "remainder", operands(call), {},
                    call.input(0).dtype()));
}

void pow(Call& call) {
  const std::vector<Tensor> x = operands(call);
  call.set(0, apply(call.queue(), "pow_tensor_tensor", x, {}, x.at(0).dtype()));
}

void bit_shift(Call& call) {
  const std::string direction = call.text("direction", "");
  call.set(0,
           apply(call.queue(), direction == "LEFT" ? "lshift" : "rshift", operands(call), {}, call.input(0).dtype()));
}

void gelu(Call& call) {
  call.set(0, apply(call.queue(), call.text("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu", {call.input(0)}));
}

// Max, Min, Sum and Mean of any number of tensors: a row of two at a time.
Tensor folded(Call& call, const char* row, std::initializer_list<Scalar> scalars = {}) {
  Tensor result = call.input(0);
  for (int i = 1; i < call.inputs(); i++) result = apply(call.queue(), row, {result, call.input(i)}, scalars);
  return result;
}

void max(Call& call) { call.set(0, folded(call, "maximum")); }
void min(Call& call) { call.set(0, folded(call, "minimum")); }
void sum(Call& call) { call.set(0, folded(call, "add", {1})); }

void mean(Call& call) {
  call.set(0, apply(call.queue(), "y0 = x0 / w0;", {folded(call, "add", {1})}, {double(call.inputs())}));
}

// Bounds are attributes up to operator set 10, inputs later.
void clip(Call& call) {
  const Tensor& x = call.input(0);
  const bool low = call.has(1) || call.given("min"), high = call.has(2) || call.given("max");
  Tensor y = x;
  if (call.has(1)) y = apply(call.queue(), "maximum", {y, call.input(1)});
  else if (low) y = apply(call.queue(), "clamp_min_scalar", {y}, {call.real("min", 0)});
  if (call.has(2)) y = apply(call.queue(), "minimum", {y, call.input(2)});
  else if (high) y = apply(call.queue(), "clamp_max_scalar", {y}, {call.real("max", 0)});
  call.set(0, y);
}

void where(Call& call) {
  const Tensor inputs[] = {call.input(0), call.input(1), call.input(2)};
  call.set(0, apply(call.queue(), "where", inputs, {}, inputs[1].dtype(), inputs[1].dtype()));
}

}  // namespace

void pointwise(Registry& registry) {
  for (const auto& [type, row] : rows()) {
    std::string attributes = "axis broadcast consumed_inputs";
    for (const Factor& factor : row.scalars)
      if (!factor.inverse) attributes += " " + factor.attribute;
    registry.add(type.c_str(), run_row, attributes.c_str());
  }
  registry.add("PRelu", prelu, "consumed_inputs");
  registry.add("Div", div, "axis broadcast consumed_inputs");
  registry.add("Pow", pow, "axis broadcast");
  registry.add("Mod", mod, "fmod");
  registry.add("BitShift", bit_shift, "direction=LEFT|RIGHT");
  registry.add("Gelu", gelu, "approximate=none|tanh");
  registry.add("Max", max, "consumed_inputs");
  registry.add("Min", min, "consumed_inputs");
  registry.add("Sum", sum, "consumed_inputs");
  registry.add("Mean", mean, "consumed_inputs");
  registry.add("Clip", clip, "min max consumed_inputs");
  registry.add("Where", where);
}

}  // namespace dlprim::operators
