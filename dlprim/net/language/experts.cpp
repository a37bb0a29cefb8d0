// SPDX-License-Identifier: MIT
#include "experts.hpp"

#include <dlprim/primitives/gemm.hpp>
#include <dlprim/primitives/index.hpp>
#include <dlprim/primitives/pointwise.hpp>

#include "../array.hpp"
#include "sampler.hpp"

namespace dlprim {

void multiply_gates(Queue& queue, const TensorView& gate, const TensorView& up, const TensorView& out, Gate kind) {
  constexpr const char* activations[] = {
      "x0 / (1 + exp(-x0))", "0.5f * x0 * (1 + tanh(0.7978845608028654f * (x0 + 0.044715f * x0 * x0 * x0)))",
      "GELU(x0)", "(x0 > 7 ? 7 : x0) / (1 + exp(-1.702f * (x0 > 7 ? 7 : x0)))"};
  const std::string activated = std::string("y0 = ") + activations[int(kind)];
  if (!up.defined()) return pointwise_operation(queue, {gate}, {out}, {}, activated + ";");
  const char* other = kind == Gate::clamped ? " * ((x1 > 7 ? 7 : x1 < -7 ? -7 : x1) + 1);" : " * x1;";
  pointwise_operation(queue, {gate, up}, {out}, {}, activated + other);
}

Experts::Experts(Queue& queue, const WeightFile& file, const Tensors& tensors, const Shape& shape, DataType dtype)
    : shape_(shape), router_(queue, file, {tensors.router}, dtype), gate_(queue, file, tensors.gate, dtype),
      up_(queue, file, tensors.up, dtype), down_(queue, file, tensors.down, dtype), router_bias_(tensors.router_bias) {
  if (!tensors.gate_bias) return;
  gate_bias_ = Weights(queue, file, {tensors.gate_bias}, dtype),
  up_bias_ = Weights(queue, file, {tensors.up_bias}, dtype);
  down_bias_ = Weights(queue, file, {tensors.down_bias}, dtype);
}

namespace {

// What is added to the results of the experts of these numbers, one behind the other; undefined for nothing.
Tensor biases_of(Queue& queue, const Weights& biases, const Tensor& numbers) {
  if (!biases.defined()) return {};
  return biases.rows(queue, numbers).strided({numbers.numel() * biases.k()}, {1});
}

}  // namespace

std::size_t Experts::bytes() const noexcept { return router_.bytes() + gate_.bytes() + up_.bytes() + down_.bytes(); }

Experts::Choice Experts::choose(Queue& queue, const Tensor& x) const {
  const std::int64_t m = x.shape()[0];
  const Tensor scores(queue, x.dtype(), {m, shape_.count});
  router_.multiply(queue, x, scores, router_bias_);
  const Tensor experts = Sampler::highest(queue, scores, shape_.used);
  Tensor shares = cast(queue, scores, DataType::float32);
  if (!shape_.normalized) shares = softmax(queue, shares, 1);
  const Tensor chosen(queue, DataType::float32, {m, shape_.used});
  gather(queue, chosen.view(queue), shares.view(queue), 1, experts.view(queue));
  return {experts, cast(queue, shape_.normalized ? softmax(queue, chosen, 1) : chosen, x.dtype())};
}

Tensor Experts::run(Queue& queue, const Tensor& x) const {
  const Choice choice = choose(queue, x);
  return x.shape()[0] == 1 ? run_one(queue, x, choice) : run_several(queue, x, choice);
}

// The experts' weights are brought side by side, so that the host need not know which they are.
Tensor Experts::run_one(Queue& queue, const Tensor& x, const Choice& choice) const {
  const std::int64_t used = shape_.used, inner = shape_.inner, width = shape_.width;
  const Tensor numbers = choice.experts.strided({used}, {1});
  const Tensor gates(queue, x.dtype(), {1, used * inner}), ups(queue, x.dtype(), {1, used * inner});
  gate_.chosen(queue, numbers, inner).multiply(queue, x, gates, biases_of(queue, gate_bias_, numbers));
  up_.chosen(queue, numbers, inner).multiply(queue, x, ups, biases_of(queue, up_bias_, numbers));
  const Tensor products(queue, x.dtype(), {used, inner}), results(queue, x.dtype(), {used, width});
  const auto by_expert = [&](const Tensor& t) { return t.strided({used, inner}, {inner, 1}).view(queue); };
  multiply_gates(queue, by_expert(gates), by_expert(ups), products.view(queue), shape_.gate);
  const Weights down = down_.chosen(queue, numbers, width);
  const Tensor added = biases_of(queue, down_bias_, numbers);
  for (std::int64_t i = 0; i < used; i++)
    down.narrowed(i * width, width)
        .multiply(queue, narrow(products, 0, i, 1), narrow(results, 0, i, 1),
                  added.defined() ? narrow(added, 0, i * width, width) : Tensor());
  return matmul(queue, choice.shares, results);
}

// Expert by expert, for the tokens that take it.
Tensor Experts::run_several(Queue& queue, const Tensor& x, const Choice& choice) const {
  const std::int64_t inner = shape_.inner, width = shape_.width, m = x.shape()[0];
  const std::vector<std::int64_t> experts = to_integers(queue, choice.experts);
  std::vector<std::vector<std::int64_t>> places(static_cast<std::size_t>(shape_.count));  // among all choices
  for (std::size_t i = 0; i < experts.size(); i++) places[std::size_t(experts[i])].push_back(std::int64_t(i));
  const Tensor total = filled(queue, x.dtype(), {m, width}, 0.0);
  const Tensor shares = choice.shares.strided({m * shape_.used, 1}, {1, 1});
  for (std::int64_t e = 0; e < shape_.count; e++) {
    const std::vector<std::int64_t>& own = places[std::size_t(e)];
    if (own.empty()) continue;
    const auto count = std::int64_t(own.size());
    std::vector<std::int64_t> tokens;
    for (const std::int64_t place : own) tokens.push_back(place / shape_.used);
    const Tensor at = Tensor::from_integers(own), rows = Tensor::from_integers(tokens);
    const auto selected = [&](const Tensor& from, const Tensor& numbers) {
      const Tensor result(queue, from.dtype(), {count, from.shape()[1]});
      index_select(queue, result.view(queue), from.view(queue), 0, numbers.view(queue));
      return result;
    };
    const Tensor input = selected(x, rows), gates(queue, x.dtype(), {count, inner}),
                 ups(queue, x.dtype(), {count, inner});
    const Tensor expert = Tensor::from_integers(std::span(&e, 1));
    gate_.narrowed(e * inner, inner).multiply(queue, input, gates, biases_of(queue, gate_bias_, expert));
    up_.narrowed(e * inner, inner).multiply(queue, input, ups, biases_of(queue, up_bias_, expert));
    const Tensor products(queue, x.dtype(), {count, inner}), results(queue, x.dtype(), {count, width});
    multiply_gates(queue, gates.view(queue), ups.view(queue), products.view(queue), shape_.gate);
    down_.narrowed(e * width, width).multiply(queue, products, results, biases_of(queue, down_bias_, expert));
    const Tensor weighed = apply(queue, "y0 = x0 * x1;", {results, selected(shares, at)});
    index_update(queue, total.view(queue), 0, rows.view(queue), weighed.view(queue), Update::add);
  }
  return total;
}

}  // namespace dlprim
