// SPDX-License-Identifier: MIT
// Biases of 16 bits, which attention on matrix units reads eight at a time where they lie so.
#include <dlprim/primitives/attention.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

#include "floats.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;

struct Sizes {
  std::int64_t batch, heads, queries, keys, width;
};

// The bias of a head's query and key, before it is rounded.
using Bias = std::function<double(std::int64_t head, std::int64_t query, std::int64_t key)>;

// softmax(0.1 q k' + bias) v of one query, as doubles; 0 without keys.
std::vector<double> expected_row(const Sizes& s, const std::vector<double>& q, const std::vector<double>& k,
                                 const std::vector<double>& v, const std::vector<double>& bias, std::int64_t head,
                                 std::int64_t query) {
  const auto at = [&](std::int64_t rows, std::int64_t row) { return std::size_t((head * rows + row) * s.width); };
  std::vector<double> scores, out(std::size_t(s.width));
  for (std::int64_t key = 0; key < s.keys; key++) {
    double score = 0;
    for (std::size_t d = 0; d < out.size(); d++) score += q[at(s.queries, query) + d] * k[at(s.keys, key) + d];
    // As kernels have it: large numbers swallow the score.
    scores.push_back(float(0.1 * score + bias[std::size_t((head * s.queries + query) * s.keys + key)]));
  }
  const double largest = *std::ranges::max_element(scores);
  if (largest == -INFINITY) return out;
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (std::int64_t key = 0; key < s.keys; key++)
    for (std::size_t d = 0; d < out.size(); d++) out[d] += scores[std::size_t(key)] / sum * v[at(s.keys, key) + d];
  return out;
}

void expect_biased(DataType type, const Sizes& s, const Bias& value_of) {
  const std::int64_t heads = s.batch * s.heads;
  DeviceTensor q(type, {s.batch, s.heads, s.queries, s.width}), k(type, {s.batch, s.heads, s.keys, s.width}),
      v(type, {s.batch, s.heads, s.keys, s.width}), bias(type, {s.batch, s.heads, s.queries, s.keys}),
      out(type, {s.batch, s.heads, s.queries, s.width}), logsumexp(DataType::float32, {s.batch, s.heads, s.queries});
  unsigned seed = 1;
  for (DeviceTensor* x : {&q, &k, &v}) x->write(random_values(x->numel(), -1.5, 1.5, seed++));
  std::vector<double> values;
  for (std::int64_t head = 0; head < heads; head++)
    for (std::int64_t query = 0; query < s.queries; query++)
      for (std::int64_t key = 0; key < s.keys; key++) values.push_back(value_of(head, query, key));
  bias.write(values);
  AttentionOptions options;
  options.scale = 0.1;
  attention_forward(queue(), {q.view(), k.view(), v.view(), bias.view()}, out.view(), logsumexp.view(), options);
  std::vector<double> expected;
  const auto qs = q.read(), ks = k.read(), vs = v.read(), biases = bias.read();
  for (std::int64_t head = 0; head < heads; head++)
    for (std::int64_t query = 0; query < s.queries; query++)
      std::ranges::copy(expected_row(s, qs, ks, vs, biases, head, query), std::back_inserter(expected));
  expect_close(out.read(), expected, 2 * tolerance(type));
}

double lowest(DataType type) { return type == DataType::float16 ? -65504 : -3.3895313892515355e38; }

double random_bias(std::int64_t head, std::int64_t query, std::int64_t key) {
  return double((head * 131 + query * 71 + key * 37) % 101) / 25 - 2;
}

class AttentionBias : public ::testing::TestWithParam<DataType> {
 protected:
  const Variable forced_{"DLPRIM_ATTENTION", "wgmma"};
};

// Slices and blocks that end early; rows of 8 elements and not.
TEST_P(AttentionBias, OfEachElement) {
  for (const Sizes& s : {Sizes{2, 2, 150, 200, 64}, Sizes{1, 1, 30, 37, 24}, Sizes{1, 2, 70, 72, 128}}) {
    expect_biased(GetParam(), s, random_bias);
    if (builds_slowly()) break;
  }
}

// Masks that add the lowest number there is, or infinity: to all of a row, to its first slices, to some keys of it.
TEST_P(AttentionBias, LowestNumbers) {
  const double low = lowest(GetParam());
  expect_biased(GetParam(), {1, 2, 40, 136, 64}, [&](std::int64_t head, std::int64_t query, std::int64_t key) {
    if (query == 3) return -double(INFINITY);
    if (query == 4) return key % 2 ? low : -INFINITY;
    if (query % 8 == 5) return low;
    if (query % 8 == 6 || head == 1) return key < 100 ? low : random_bias(head, query, key);
    return key > 20 ? -INFINITY : random_bias(head, query, key);
  });
}

// What rounding of products of large numbers leaves must not count.
TEST_P(AttentionBias, LargeNumbers) {
  const double large = GetParam() == DataType::float16 ? 3e4 : 1e9;
  expect_biased(GetParam(), {1, 1, 20, 48, 64}, [&](std::int64_t, std::int64_t query, std::int64_t key) {
    return (query % 2 ? -large : large) * (key % 3 == 0 ? 1 : query % 4 < 2 ? 1 : 2);
  });
}

// Gradients of queries, keys and values with a bias of `bias_type`.
std::vector<double> gradients(DataType type, DataType bias_type, const Sizes& s) {
  const auto rows = [&](std::int64_t count) { return std::vector{s.batch, s.heads, count, s.width}; };
  DeviceTensor q(type, rows(s.queries)), k(type, rows(s.keys)), v(type, rows(s.keys)), grad(type, rows(s.queries)),
      bias(bias_type, {s.batch, s.heads, s.queries, s.keys}), out(type, rows(s.queries)), grad_q(type, rows(s.queries)),
      grad_k(type, rows(s.keys)), grad_v(type, rows(s.keys)),
      logsumexp(DataType::float32, {s.batch, s.heads, s.queries});
  unsigned seed = 1;
  for (DeviceTensor* x : {&q, &k, &v, &grad}) x->write(random_values(x->numel(), -1.5, 1.5, seed++));
  std::vector<double> values;
  for (std::int64_t i = 0; i < bias.numel(); i++)
    values.push_back(i % 7 == 3 ? -double(INFINITY) : double(i * 37 % 64) / 32 - 1);  // no type rounds it
  bias.write(values);
  const AttentionInputs inputs{q.view(), k.view(), v.view(), bias.view()};
  const AttentionOptions options{.scale = 0.1};
  attention_forward(queue(), inputs, out.view(), logsumexp.view(), options);
  const Variable forced("DLPRIM_ATTENTION", "wgmma_backward");
  attention_backward(queue(), inputs, grad.view(), out.view(), logsumexp.view(), grad_q.view(), grad_k.view(),
                     grad_v.view(), options);
  std::vector<double> all = grad_q.read();
  std::ranges::copy(grad_k.read(), std::back_inserter(all));
  std::ranges::copy(grad_v.read(), std::back_inserter(all));
  return all;
}

TEST_P(AttentionBias, GradientsByPiecesAsByElements) {
  for (const Sizes& s : {Sizes{1, 2, 90, 136, 64}, Sizes{1, 1, 20, 72, 160}}) {
    const std::vector<double> expected = gradients(GetParam(), DataType::float32, s);
    EXPECT_TRUE(std::ranges::all_of(expected, [](double x) { return std::isfinite(x); }));
    expect_close(gradients(GetParam(), GetParam(), s), expected, tolerance(GetParam()));
    if (builds_slowly()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionBias, ::testing::Values(DataType::float16, DataType::bfloat16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace dlprim
