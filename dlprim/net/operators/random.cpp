// SPDX-License-Identifier: MIT
#include <dlprim/primitives/random.hpp>

#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

void fill(Call& call, Distribution distribution, const Shape& shape, DataType dtype, double a, double b) {
  const PhiloxState state = call.philox();
  const TensorView y = call.out(0, dtype, shape);
  if (y.numel()) random_fill(call.queue(), y, distribution, a, b, state);
}

DataType dtype_of(Call& call, DataType otherwise) {
  return call.given("dtype") ? element_type(call.integer("dtype", 1)) : otherwise;
}

void uniform(Call& call) {
  fill(call, Distribution::uniform, Shape(call.integers("shape")), dtype_of(call, DataType::float32),
       call.real("low", 0), call.real("high", 1));
}

void uniform_like(Call& call) {
  const Tensor& x = call.input(0);
  fill(call, Distribution::uniform, x.shape(), dtype_of(call, x.dtype()), call.real("low", 0), call.real("high", 1));
}

void normal(Call& call) {
  fill(call, Distribution::normal, Shape(call.integers("shape")), dtype_of(call, DataType::float32),
       call.real("mean", 0), call.real("scale", 1));
}

void normal_like(Call& call) {
  const Tensor& x = call.input(0);
  fill(call, Distribution::normal, x.shape(), dtype_of(call, x.dtype()), call.real("mean", 0), call.real("scale", 1));
}

void bernoulli(Call& call) {
  const Tensor x = contiguous(call.queue(), call.input(0));
  const PhiloxState state = call.philox();
  const TensorView y = call.out(0, dtype_of(call, x.dtype()), x.shape());
  if (y.numel()) random_bernoulli(call.queue(), y, x.view(call.queue()), state);
}

// The first place whose running sum of probabilities is above a random number.
void multinomial(Call& call) {
  Queue& queue = call.queue();
  const Tensor x = cast(queue, call.input(0), DataType::float32);
  const std::int64_t samples = call.integer("sample_size", 1);
  if (x.shape().size() != 2 || x.shape()[1] < 1 || samples < 1)
    call.fail("expected logarithms [N, classes], got " + x.shape().text());
  const std::int64_t batch = x.shape()[0], classes = x.shape()[1];
  const Tensor sums =
      call.run("CumSum", {softmax(queue, x, 1), Tensor::from_integers(std::vector<std::int64_t>{1})})[0];
  const Tensor chance(queue, DataType::float32, {batch, samples});
  const PhiloxState state = call.philox();
  if (chance.numel()) random_fill(queue, chance.view(queue), Distribution::uniform, 0, 1, state);
  const Tensor below = apply_sum_to(queue, "y0 = x0 <= x1;", {unsqueeze(sums, 1), unsqueeze(chance, 2)}, {},
                                    {batch, samples, 1}, DataType::float32);
  const Tensor index = apply(queue, "y0 = fmin(x0, w0);", {reshape(queue, below, {batch, samples})}, {classes - 1});
  call.set(0, cast(queue, index, dtype_of(call, DataType::int32)));
}

// Nothing is dropped unless training_mode (an input since operator set 12) says so.
void dropout_op(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const double ratio = call.has(1) ? call.read_reals(1).at(0) : call.real("ratio", 0.5);
  const bool training = call.has(2) && call.read_integers(2).at(0) && ratio > 0;
  const DataType mask_type = call.version() < 10 ? x.dtype() : DataType::boolean;
  if (!training) {
    call.set(0, x);
    if (call.wants(1)) call.set(1, filled(queue, mask_type, x.shape(), 1));
    return;
  }
  if (!(ratio < 1)) call.fail("expected a ratio below 1");
  const PhiloxState state = call.philox();
  const Tensor mask(queue, DataType::boolean, x.shape());
  dropout(queue, contiguous(queue, x).view(queue), call.out(0, x.dtype(), x.shape()), mask.view(queue), ratio, state);
  call.set(1, mask);
}

}  // namespace

void random(Registry& registry) {
  registry.add("RandomUniform", uniform, "dtype high low seed shape");
  registry.add("RandomUniformLike", uniform_like, "dtype high low seed");
  registry.add("RandomNormal", normal, "dtype mean scale seed shape");
  registry.add("RandomNormalLike", normal_like, "dtype mean scale seed");
  registry.add("Bernoulli", bernoulli, "dtype seed");
  registry.add("Multinomial", multinomial, "dtype sample_size seed");
  registry.add("Dropout", dropout_op, "ratio seed is_test consumed_inputs");
}

}  // namespace dlprim::operators
