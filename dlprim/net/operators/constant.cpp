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

void constant_value(Call& call) {
  if (call.given("value_int")) {
    const std::int64_t value = call.integer("value_int", 0);
    call.set(0, Tensor::from_host(DataType::int64, {}, &value));
  } else if (call.given("value_ints")) {
    call.set(0, Tensor::from_integers(call.integers("value_ints")));
  } else if (call.given("value_float") || call.given("value_floats")) {
    const bool one = call.given("value_float");
    const std::vector<double> values =
        one ? std::vector<double>{call.real("value_float", 0)} : call.reals("value_floats");
    const std::vector<float> floats(values.begin(), values.end());
    call.set(0,
             Tensor::from_host(DataType::float32, one ? Shape{} : Shape{std::int64_t(floats.size())}, floats.data()));
  } else {
    const char* name = call.given("sparse_value") ? "sparse_value" : "value";
    call.set(0, std::get<Tensor>(call.attribute(name)).clone(call.queue()));
  }
}

void constant_of_shape(Call& call) {
  const Shape shape(call.read_integers(0));
  Tensor value;
  if (call.given("value")) value = std::get<Tensor>(call.attribute("value")).clone(call.queue());
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
  const DataType dtype = call.given("dtype") ? element_type(call.integer("dtype", 1)) : x.dtype();
  Tensor y = filled(call.queue(), dtype, x.shape(), 0);
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  const std::int64_t k = std::clamp(call.integer("k", 0), -rows, columns);
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
  const int axis = indices.shape().axis(call.integer("axis", -1), 1);
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
  const double n = double(call.integer("periodic", 1) ? size : size - 1);
  const DataType dtype = element_type(call.integer("output_datatype", 1));
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
  registry.add("Constant", constant_value, "value value_int value_ints value_float value_floats sparse_value");
  registry.add("ConstantOfShape", constant_of_shape, "value");
  registry.add("Range", range);
  registry.add("EyeLike", eye_like, "dtype k");
  registry.add("OneHot", one_hot, "axis");
  registry.add("HannWindow", hann, "output_datatype periodic");
  registry.add("HammingWindow", hamming, "output_datatype periodic");
  registry.add("BlackmanWindow", blackman, "output_datatype periodic");
}

}  // namespace dlprim::operators
