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

// Up to operator set 6 the second operand's dimensions begin at an axis of the first; nothing otherwise.
std::optional<std::int64_t> aligned_axis(const AttributeReader& reader) {
  if (reader.node().version >= 7 || !reader.integer("broadcast", 0)) return {};
  return reader.find<std::int64_t>("axis");
}

struct RowAttributes {
  explicit RowAttributes(const AttributeReader& reader)
      : row(rows().at(reader.node().type)), relu(reader.given("activation")), axis(aligned_axis(reader)) {
    for (const Factor& factor : row.scalars) {
      const double value =
          factor.attribute.empty() ? factor.otherwise : reader.number(factor.attribute.c_str(), factor.otherwise);
      scalars.push_back(factor.inverse ? 1 / value : value);
    }
  }
  const Row& row;
  std::vector<Scalar> scalars;
  bool relu;  // left by optimize()
  std::optional<std::int64_t> axis;
};

struct BinaryAttributes {
  explicit BinaryAttributes(const AttributeReader& reader)
      : axis(aligned_axis(reader)), fmod(reader.integer("fmod", 0)), left(reader.text("direction", "") == "LEFT") {}
  std::optional<std::int64_t> axis;
  bool fmod, left;
};

// Before operator set 7 slopes are one a channel.
void prelu(Call& call) {
  Tensor slope = call.input(1);
  if (call.version() < 7 && slope.shape().size() == 1 && slope.numel() > 1)
    for (int d = 2; d < call.input(0).shape().size(); d++) slope = unsqueeze(slope, d - 1);
  call.set(0, apply(call.queue(), "prelu", {call.input(0), slope}));
}

std::vector<Tensor> operands(Call& call, std::optional<std::int64_t> axis) {
  std::vector<Tensor> result;
  for (int i = 0; i < call.inputs(); i++) result.push_back(call.input(i));
  if (result.size() != 2 || !axis) return result;
  const Shape& shape = result[0].shape();
  Tensor& b = result[1];
  while (shape.axis(*axis) + b.shape().size() < shape.size()) b = unsqueeze(b, b.shape().size());
  return result;
}

void run_row(Call& call) {
  const auto& [row, scalars, relu, axis] = call.attributes<RowAttributes>();
  const std::vector<Tensor> inputs = operands(call, axis);
  if (inputs.empty()) call.fail("expected an input");
  const PointwiseRow& expression = pointwise_row(row.id);
  const DataType result = expression.result == ResultType::truth ? DataType::boolean : inputs[0].dtype();
  call.set(0, apply(call.queue(), relu ? std::string_view(row.with_relu) : expression.name, inputs, scalars, result));
}

void div(Call& call) {
  const std::vector<Tensor> x = operands(call, call.attributes<BinaryAttributes>().axis);
  const DataType type = call.input(0).dtype();
  call.set(0, apply(call.queue(), is_integral(type) ? "div_trunc" : "div_true", x, {}, type));
}

void mod(Call& call) {
  const auto& [axis, fmod, left] = call.attributes<BinaryAttributes>();
  call.set(0, apply(call.queue(), fmod ? "fmod" : "remainder", operands(call, axis), {}, call.input(0).dtype()));
}

void pow(Call& call) {
  const std::vector<Tensor> x = operands(call, call.attributes<BinaryAttributes>().axis);
  call.set(0, apply(call.queue(), "pow_tensor_tensor", x, {}, x.at(0).dtype()));
}

void bit_shift(Call& call) {
  const auto& [axis, fmod, left] = call.attributes<BinaryAttributes>();
  call.set(0, apply(call.queue(), left ? "lshift" : "rshift", operands(call, axis), {}, call.input(0).dtype()));
}

struct GeluAttributes {
  explicit GeluAttributes(const AttributeReader& reader) : tanh(reader.text("approximate", "none") == "tanh") {}
  bool tanh;
};

void gelu(Call& call) {
  const bool tanh = call.attributes<GeluAttributes>().tanh;
  call.set(0, apply(call.queue(), tanh ? "gelu_tanh" : "gelu", {call.input(0)}));
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
struct ClipAttributes {
  explicit ClipAttributes(const AttributeReader& reader)
      : min(reader.find<double>("min")), max(reader.find<double>("max")) {}
  std::optional<double> min, max;
};

void clip(Call& call) {
  const auto& [low, high] = call.attributes<ClipAttributes>();
  Tensor y = call.input(0);
  if (call.has(1)) y = apply(call.queue(), "maximum", {y, call.input(1)});
  else if (low) y = apply(call.queue(), "clamp_min_scalar", {y}, {*low});
  if (call.has(2)) y = apply(call.queue(), "minimum", {y, call.input(2)});
  else if (high) y = apply(call.queue(), "clamp_max_scalar", {y}, {*high});
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
    registry.add<RowAttributes>(type.c_str(), run_row, attributes.c_str());
  }
  registry.add("PRelu", prelu, "consumed_inputs");
  registry.add<BinaryAttributes>("Div", div, "axis broadcast consumed_inputs");
  registry.add<BinaryAttributes>("Pow", pow, "axis broadcast");
  registry.add<BinaryAttributes>("Mod", mod, "fmod");
  registry.add<BinaryAttributes>("BitShift", bit_shift, "direction=LEFT|RIGHT");
  registry.add<GeluAttributes>("Gelu", gelu, "approximate=none|tanh");
  registry.add("Max", max, "consumed_inputs");
  registry.add("Min", min, "consumed_inputs");
  registry.add("Sum", sum, "consumed_inputs");
  registry.add("Mean", mean, "consumed_inputs");
  registry.add<ClipAttributes>("Clip", clip, "min max consumed_inputs");
  registry.add("Where", where);
}

}  // namespace dlprim::operators
