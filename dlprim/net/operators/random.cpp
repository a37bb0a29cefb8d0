// SPDX-License-Identifier: MIT
#include <dlprim/primitives/random.hpp>

#include "../array.hpp"
#include "../inner.hpp"

namespace dlprim::operators {

namespace {

struct RandomAttributes {
  explicit RandomAttributes(const AttributeReader& reader)
      : seed(reader.seed()), dtype(reader.find<std::int64_t>("dtype")), shape(reader.integers("shape")),
        sample_size(reader.integer("sample_size", 1)), low(reader.real("low", 0)), high(reader.real("high", 1)),
        mean(reader.real("mean", 0)), scale(reader.real("scale", 1)), ratio(reader.real("ratio", 0.5)) {}
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> dtype;
  std::vector<std::int64_t> shape;
  std::int64_t sample_size;
  double low, high, mean, scale, ratio;
};

const RandomAttributes& attributes_of(const Call& call) { return call.attributes<RandomAttributes>(); }

void fill(Call& call, Distribution distribution, const Shape& shape, DataType dtype, double a, double b) {
  const PhiloxState state = call.philox(attributes_of(call).seed);
  const TensorView y = call.out(0, dtype, shape);
  if (y.numel()) random_fill(call.queue(), y, distribution, a, b, state);
}

DataType dtype_of(Call& call, DataType otherwise) {
  return attributes_of(call).dtype ? element_type(*attributes_of(call).dtype) : otherwise;
}

void uniform(Call& call) {
  fill(call, Distribution::uniform, Shape(attributes_of(call).shape), dtype_of(call, DataType::float32),
       attributes_of(call).low, attributes_of(call).high);
}

void uniform_like(Call& call) {
  const Tensor& x = call.input(0);
  fill(call, Distribution::uniform, x.shape(), dtype_of(call, x.dtype()), attributes_of(call).low,
       attributes_of(call).high);
}

void normal(Call& call) {
  fill(call, Distribution::normal, Shape(attributes_of(call).shape), dtype_of(call, DataType::float32),
       attributes_of(call).mean, attributes_of(call).scale);
}

void normal_like(Call& call) {
  const Tensor& x = call.input(0);
  fill(call, Distribution::normal, x.shape(), dtype_of(call, x.dtype()), attributes_of(call).mean,
       attributes_of(call).scale);
}

void bernoulli(Call& call) {
  const Tensor x = contiguous(call.queue(), call.input(0));
  const PhiloxState state = call.philox(attributes_of(call).seed);
  const TensorView y = call.out(0, dtype_of(call, x.dtype()), x.shape());
  if (y.numel()) random_bernoulli(call.queue(), y, x.view(call.queue()), state);
}

// The first place whose running sum of probabilities is above a random number.
void multinomial(Call& call) {
  Queue& queue = call.queue();
  const Tensor x = cast(queue, call.input(0), DataType::float32);
  const std::int64_t samples = attributes_of(call).sample_size;
  if (x.shape().size() != 2 || x.shape()[1] < 1 || samples < 1)
    call.fail("expected logarithms [N, classes], got " + x.shape().text());
  const std::int64_t batch = x.shape()[0], classes = x.shape()[1];
  const Tensor sums =
      call.run("CumSum"_op, {softmax(queue, x, 1), Tensor::from_integers(std::vector<std::int64_t>{1})})[0];
  const Tensor chance(queue, DataType::float32, {batch, samples});
  const PhiloxState state = call.philox(attributes_of(call).seed);
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
  const double ratio = call.has(1) ? call.read_reals(1).at(0) : attributes_of(call).ratio;
  const bool training = call.has(2) && call.read_integers(2).at(0) && ratio > 0;
  const DataType mask_type = call.version() < 10 ? x.dtype() : DataType::boolean;
  if (!training) {
    call.set(0, x);
    if (call.wants(1)) call.set(1, filled(queue, mask_type, x.shape(), 1));
    return;
  }
  if (!(ratio < 1)) call.fail("expected a ratio below 1");
  const PhiloxState state = call.philox(attributes_of(call).seed);
  const Tensor mask(queue, DataType::boolean, x.shape());
  dropout(queue, contiguous(queue, x).view(queue), call.out(0, x.dtype(), x.shape()), mask.view(queue), ratio, state);
  call.set(1, mask);
}

}  // namespace

void random(Registry& registry) {
  registry.add<RandomAttributes>("RandomUniform", uniform, "dtype high low seed shape");
  registry.add<RandomAttributes>("RandomUniformLike", uniform_like, "dtype high low seed");
  registry.add<RandomAttributes>("RandomNormal", normal, "dtype mean scale seed shape");
  registry.add<RandomAttributes>("RandomNormalLike", normal_like, "dtype mean scale seed");
  registry.add<RandomAttributes>("Bernoulli", bernoulli, "dtype seed");
  registry.add<RandomAttributes>("Multinomial", multinomial, "dtype sample_size seed");
  registry.add<RandomAttributes>("Dropout", dropout_op, "ratio seed is_test consumed_inputs");
}

}  // namespace dlprim::operators
