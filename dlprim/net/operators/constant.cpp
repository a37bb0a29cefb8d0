// SPDX-License-Identifier: MIT
// Tensors made of attributes and numbers.
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/range.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../array.hpp"
#include "../checked.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

// The tensor that a Constant is.
Tensor value_of(const AttributeReader& reader) {
  if (const auto value = reader.find<std::int64_t>("value_int")) return Tensor::from_host(DataType::int64, {}, &*value);
  if (reader.given("value_ints")) return Tensor::from_integers(reader.integers("value_ints"));
  const auto one = reader.find<double>("value_float");
  if (one || reader.given("value_floats")) {
    const std::vector<double> values = one ? std::vector{*one} : reader.reals("value_floats");
    const std::vector<float> floats(values.begin(), values.end());
    return Tensor::from_host(DataType::float32, one ? Shape{} : Shape{std::int64_t(floats.size())}, floats.data());
  }
  const char* name = reader.given("sparse_value") ? "sparse_value" : "value";
  const auto value = reader.find<Tensor>(name);
  if (!value) throw ValidationError("attribute '" + std::string(name) + "' is missing");
  return *value;
}

struct ConstantValue {
  explicit ConstantValue(const AttributeReader& reader) : value(value_of(reader)) {}
  Tensor value;
};

void constant_value(Call& call) { call.set(0, call.attributes<ConstantValue>().value.clone(call.queue())); }

struct ConstantAttributes {
  explicit ConstantAttributes(const AttributeReader& reader)
      : value(reader.find<Tensor>("value").value_or(Tensor())), dtype(reader.find<std::int64_t>("dtype")),
        k(reader.integer("k", 0)), axis(reader.integer("axis", -1)),
        output_datatype(reader.integer("output_datatype", 1)), periodic(reader.integer("periodic", 1)) {}
  Tensor value;
  std::optional<std::int64_t> dtype;
  std::int64_t k, axis, output_datatype;
  bool periodic;
};

const ConstantAttributes& attributes_of(const Call& call) { return call.attributes<ConstantAttributes>(); }

void constant_of_shape(Call& call) {
  const Shape shape(call.read_integers(0));
  Tensor value;
  if (attributes_of(call).value.defined()) value = attributes_of(call).value.clone(call.queue());
  else value = filled(call.queue(), DataType::float32, {}, 0);
  if (value.numel() != 1) call.fail("expected a value of one element");
  call.set(0, contiguous(call.queue(), expand(reshape(call.queue(), value, {}), shape)));
}

// How many of first, first + step ... come before the limit.
std::int64_t steps_between(std::int64_t first, std::int64_t limit, std::int64_t step) {
  if (step > 0 ? first >= limit : first <= limit) return 0;
  const auto a = std::uint64_t(first), b = std::uint64_t(limit), by = std::uint64_t(step);  // differences wrap around
  const std::uint64_t distance = step > 0 ? b - a : a - b, width = step > 0 ? by : 0 - by;
  return std::int64_t(std::min<std::uint64_t>((distance - 1) / width + 1, INT64_MAX));
}

void range(Call& call) {
  const Tensor& start = call.input(0);
  if (is_floating(start.dtype())) {
    const double first = call.read_reals(0).at(0), limit = call.read_reals(1).at(0), step = call.read_reals(2).at(0);
    if (step == 0) call.fail("expected a delta other than 0");
    const std::int64_t count = checked_whole(std::max(0., std::ceil((limit - first) / step)), "a length");
    sequence(call.queue(), call.out(0, start.dtype(), {count}), first, step);
  } else {
    const std::int64_t first = call.read_integers(0).at(0), limit = call.read_integers(1).at(0);
    const std::int64_t step = call.read_integers(2).at(0);
    if (step == 0) call.fail("expected a delta other than 0");
    sequence(call.queue(), call.out(0, start.dtype(), {steps_between(first, limit, step)}), first, step);
  }
}

void eye_like(Call& call) {
  const Tensor& x = call.input(0);
  if (x.shape().size() != 2) call.fail("expected a matrix, got " + x.shape().text());
  const DataType dtype = attributes_of(call).dtype ? element_type(*attributes_of(call).dtype) : x.dtype();
  Tensor y = filled(call.queue(), dtype, x.shape(), 0);
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  const std::int64_t k = std::clamp(attributes_of(call).k, -rows, columns);
  const std::int64_t row = k < 0 ? -k : 0, column = k > 0 ? k : 0;
  const std::int64_t count = std::min(rows - row, columns - column);
  if (count > 0) {
    const Tensor diagonal = y.strided({count}, {columns + 1}, row * columns + column);
    fill(call.queue(), diagonal.view(call.queue()), 1);
  }
  call.set(0, y);
}

// Indices below zero count from the end; those out of range give a row of "off".
void one_hot(Call& call) {
  Queue& queue = call.queue();
  const std::int64_t depth = call.read_integers(1).at(0);
  Tensor indices = cast(queue, call.input(0), DataType::int64);
  const int axis = indices.shape().axis(attributes_of(call).axis, 1);
  const Tensor& values = call.input(2);
  if (depth < 0 || values.numel() != 2) call.fail("expected a depth of 0 or more and two values");
  Tensor positions(queue, DataType::int64, {depth});
  sequence(queue, positions.view(queue), 0, 1);
  for (int d = axis + 1; d <= indices.shape().size(); d++) positions = unsqueeze(positions, positions.shape().size());
  const Tensor hot = apply(queue, "y0 = (x0 < 0 ? x0 + w0 : x0) == x1;", {unsqueeze(indices, axis), positions}, {depth},
                           DataType::boolean);
  const Tensor inputs[] = {hot, select(values, 0, 1), select(values, 0, 0)};
  call.set(0, apply(queue, "where", inputs, {}, values.dtype(), values.dtype()));
}

// Windows are sums of cosines: a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), N one less when symmetric.
void window(Call& call, double a0, double a1, double a2) {
  const std::int64_t size = call.read_integers(0).at(0);
  if (size < 0) call.fail("expected a size of 0 or more, got " + std::to_string(size));
  const double n = double(attributes_of(call).periodic ? size : size - 1);
  const DataType dtype = element_type(attributes_of(call).output_datatype);
  Tensor positions(call.queue(), compute_type(dtype), {size});
  sequence(call.queue(), positions.view(call.queue()), 0, 1);
  call.set(0, apply(call.queue(), "y0 = w0 - w1 * cos(w3 * x0) + w2 * cos(2 * w3 * x0);", {positions},
                    {a0, a1, a2, 2 * 3.14159265358979323846 / n}, dtype));
}

void hann(Call& call) { window(call, 0.5, 0.5, 0); }
void hamming(Call& call) { window(call, 25. / 46, 21. / 46, 0); }
void blackman(Call& call) { window(call, 0.42, 0.5, 0.08); }

}  // namespace

void constant(Registry& registry) {
  registry.add<ConstantValue>("Constant", constant_value,
                              "value value_int value_ints value_float value_floats sparse_value");
  registry.add<ConstantAttributes>("ConstantOfShape", constant_of_shape, "value");
  registry.add("Range", range);
  registry.add<ConstantAttributes>("EyeLike", eye_like, "dtype k");
  registry.add<ConstantAttributes>("OneHot", one_hot, "axis");
  registry.add<ConstantAttributes>("HannWindow", hann, "output_datatype periodic");
  registry.add<ConstantAttributes>("HammingWindow", hamming, "output_datatype periodic");
  registry.add<ConstantAttributes>("BlackmanWindow", blackman, "output_datatype periodic");
}

}  // namespace dlprim::operators
