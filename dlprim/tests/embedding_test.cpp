// SPDX-License-Identifier: MIT
#include <dlprim/primitives/distance.hpp>
#include <dlprim/primitives/embedding.hpp>
#include <dlprim/runtime/settings.hpp>

#include <cmath>
#include <limits>

#include "testing.hpp"

namespace dlprim {
namespace {

using testing::DeviceVector;
using testing::queue;

TEST(Embedding, Bags) {
  const std::vector<float> rows{1, 10, 2, 20, 3, 5, 4, 40};
  DeviceVector<float> weight(rows), out(6);
  DeviceVector<std::int64_t> indices(std::vector<std::int64_t>{1, 2, 3, 0}),
      offsets(std::vector<std::int64_t>{0, 3, 3}), sizes(3), maxima(6);
  const EmbeddingBag bag{{weight.data(), DataType::float32, {4, 2}}, {indices.data(), DataType::int64, {4}},
                         {offsets.data(), DataType::int64, {3}},     {},
                         {out.data(), DataType::float32, {3, 2}},    {sizes.data(), DataType::int64, {3}},
                         {maxima.data(), DataType::int64, {3, 2}}};
  embedding_bag(queue(), bag, BagMode::sum, 3);
  EXPECT_EQ(out.read(), (std::vector<float>{5, 25, 0, 0, 1, 10}));
  EXPECT_EQ(sizes.read(), (std::vector<std::int64_t>{2, 0, 1}));
  embedding_bag(queue(), bag, BagMode::mean, -1);
  EXPECT_EQ(out.read(), (std::vector<float>{3, 65.f / 3, 0, 0, 1, 10}));
  embedding_bag(queue(), bag, BagMode::max, -1);
  EXPECT_EQ(out.read(), (std::vector<float>{4, 40, 0, 0, 1, 10}));
  EXPECT_EQ(maxima.read(), (std::vector<std::int64_t>{3, 3, 0, 0, 0, 0}));
}

TEST(Embedding, ReportsAnIndexOutOfRange) {
  DeviceVector<float> weight(4), out(2);
  DeviceVector<std::int64_t> indices(std::vector<std::int64_t>{7}), offsets(std::vector<std::int64_t>{0}), sizes(1);
  embedding_bag(queue(),
                {{weight.data(), DataType::float32, {2, 2}},
                 {indices.data(), DataType::int64, {1}},
                 {offsets.data(), DataType::int64, {1}},
                 {},
                 {out.data(), DataType::float32, {1, 2}},
                 {sizes.data(), DataType::int64, {1}},
                 {}},
                BagMode::sum, -1);
  EXPECT_THROW(queue().finish(), IndexError);
}

TEST(Distance, NormsAndTheirGradients) {
  const auto x = testing::random_floats(2 * 3 * 5), y = testing::random_floats(2 * 4 * 5, 2);
  DeviceVector<float> a(x), b(y), out(24), grad(std::vector<float>(24, 1)), grad_a(30);
  const TensorView av{a.data(), DataType::float32, {2, 3, 5}}, bv{b.data(), DataType::float32, {2, 4, 5}},
      ov{out.data(), DataType::float32, {2, 3, 4}}, gv{grad.data(), DataType::float32, {2, 3, 4}},
      gav{grad_a.data(), DataType::float32, {2, 3, 5}};
  for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    distances(queue(), ov, av, bv, p);
    distances_backward(queue(), gav, gv, av, bv, ov, p);
    const auto d = out.read(), g = grad_a.read();
    auto norm = [&](std::size_t batch, std::size_t i, std::size_t j, std::size_t moved, double by) {
      double sum = 0;
      for (std::size_t c = 0; c < 5; c++) {
        const double difference =
            std::abs(double(x[(batch * 3 + i) * 5 + c]) + (c == moved ? by : 0) - y[(batch * 4 + j) * 5 + c]);
        sum = std::isinf(p) ? std::max(sum, difference) : sum + std::pow(difference, p);
      }
      return std::isinf(p) ? sum : std::pow(sum, 1 / p);
    };
    for (std::size_t k = 0; k < 24; k++) ASSERT_NEAR(d[k], norm(k / 12, k / 4 % 3, k % 4, 9, 0), 1e-5) << p;
    for (std::size_t k = 0; k < 30; k++) {
      double expected = 0;
      for (std::size_t j = 0; j < 4; j++)
        expected += (norm(k / 15, k / 5 % 3, j, k % 5, 1e-6) - norm(k / 15, k / 5 % 3, j, k % 5, -1e-6)) / 2e-6;
      ASSERT_NEAR(g[k], expected, 1e-3) << p;
    }
  }
}

TEST(Distance, PairsAreThoseOfTheWholeMatrix) {
  constexpr std::size_t n = 9, columns = 4;
  const auto x = testing::random_floats(n * columns), weight = testing::random_floats(n * (n - 1) / 2, 2);
  std::vector<float> weights(n * n, 0);
  for (std::size_t i = 0, at = 0; i < n; i++)
    for (std::size_t j = i + 1; j < n; j++, at++) weights[i * n + j] = weights[j * n + i] = weight[at];
  DeviceVector<float> a(x), all(n * n), pairs(weight.size()), grad(weights), pair_grad(weight), grad_a(x.size()),
      pair_grad_a(x.size());
  const TensorView av{a.data(), DataType::float32, {1, n, columns}}, lv{all.data(), DataType::float32, {1, n, n}},
      rows{a.data(), DataType::float32, {n, columns}},
      pv{pairs.data(), DataType::float32, {std::int64_t(weight.size())}};
  const std::int64_t usual = settings.index_limit;
  for (const std::int64_t limit : {std::int64_t(10), usual}) {
    settings.index_limit = limit;
    for (const double p : {0.0, 1.0, 2.0, 2.5, std::numeric_limits<double>::infinity()}) {
      distances(queue(), lv, av, av, p);
      distances_backward(queue(), {grad_a.data(), DataType::float32, {1, n, columns}},
                         {grad.data(), DataType::float32, {1, n, n}}, av, av, lv, p);
      pair_distances(queue(), pv, rows, p);
      pair_distances_backward(queue(), {pair_grad_a.data(), DataType::float32, {n, columns}},
                              {pair_grad.data(), DataType::float32, {std::int64_t(weight.size())}}, rows, pv, p);
      const auto whole = all.read(), found = pairs.read(), expected = grad_a.read(), gradient = pair_grad_a.read();
      for (std::size_t i = 0, at = 0; i < n; i++)
        for (std::size_t j = i + 1; j < n; j++, at++) ASSERT_EQ(found[at], whole[i * n + j]) << p;
      for (std::size_t k = 0; k < gradient.size(); k++) ASSERT_NEAR(gradient[k], expected[k], 1e-5) << p;
    }
  }
}

}  // namespace
}  // namespace dlprim
