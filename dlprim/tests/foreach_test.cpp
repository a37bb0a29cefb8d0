// SPDX-License-Identifier: MIT
#include <dlprim/primitives/foreach.hpp>
#include <dlprim/primitives/pointwise_code.hpp>
#include <dlprim/runtime/settings.hpp>

#include <cmath>

#include "testing.hpp"

namespace dlprim {
namespace {

using testing::DeviceVector;
using testing::queue;

// Many tensors of sizes around the chunk: more than one launch takes, with empty ones among them.
std::vector<std::int64_t> sizes() {
  std::vector<std::int64_t> result;
  for (int i = 0; i < 90; i++) result.push_back(i % 7 == 3 ? 0 : i % 5 == 0 ? 8192 + i - 45 : i + 1);
  return result;
}

struct Lists {
  std::vector<std::vector<float>> host;
  std::vector<DeviceVector<float>> device;
  std::vector<BufferRef> refs;
  Lists(const std::vector<std::int64_t>& sizes, unsigned seed, float low = -1) {
    for (std::size_t i = 0; i < sizes.size(); i++) {
      host.push_back(testing::random_floats(std::size_t(sizes[i]), seed + unsigned(i), low));
      device.emplace_back(host.back());
      refs.push_back(device.back().data());
    }
  }
  TensorList list() const { return {refs, DataType::float32}; }
};

TEST(Foreach, AddsListsWithScalarsOfEachTensor) {
  const auto n = sizes();
  Lists a(n, 1), b(n, 1000);
  std::vector<double> factors;
  for (std::size_t i = 0; i < n.size(); i++) factors.push_back(double(i));
  const ForeachList lists[] = {{a.refs, DataType::float32, ForeachMode::update},
                               {b.refs, DataType::float32, ForeachMode::read}};
  const double scale[] = {0.5};
  foreach(queue(), {"test add", "x0 = s0 * x0 + t0 * x1;"}, DataType::float32, n, lists, scale, factors);
  for (std::size_t i = 0; i < n.size(); i++) {
    const auto result = a.device[i].read();
    for (std::size_t j = 0; j < result.size(); j++)
      ASSERT_NEAR(result[j], 0.5f * a.host[i][j] + float(i) * b.host[i][j], 1e-5) << i << " " << j;
  }
}

TEST(Foreach, RunsRowsOfThePointwiseTable) {
  const std::vector<std::int64_t> n{5, 8200};
  Lists a(n, 1);
  const auto host = a.host;
  const ForeachList lists[] = {{a.refs, DataType::float32, ForeachMode::update}};
  // Operands called as the row's own are not taken for them.
  const std::string code = assign_row(PointwiseId::elu, "x0", {"x0"}, {"s0", "1", "2"});
  const double alpha[] = {0.25};
  foreach(queue(), {"test rows", code, "", true}, DataType::float32, n, lists, alpha);
  for (std::size_t i = 0; i < n.size(); i++) {
    const auto result = a.device[i].read();
    for (std::size_t j = 0; j < result.size(); j++) {
      const float x = host[i][j];
      ASSERT_NEAR(result[j], x <= 0 ? 0.25f * std::expm1(2 * x) : x, 1e-6) << i << " " << j;
    }
  }
}

TEST(Foreach, RefusesListsOfUnequalLength) {
  const auto n = sizes();
  Lists a(n, 1);
  const ForeachList lists[] = {{std::span(a.refs).first(3), DataType::float32, ForeachMode::update}};
  EXPECT_THROW(foreach(queue(), {"test bad", "x0 = 0;"}, DataType::float32, n, lists), ValidationError);
}

TEST(Foreach, NormsOfLists) {
  const auto n = sizes();
  Lists a(n, 1);
  for (const bool gpu : {false, true})
    for (const NormOrder order : {NormOrder::one, NormOrder::two, NormOrder::infinity}) {
      settings.gpu_forms = gpu;
      DeviceVector<float> norms(n.size());
      foreach_norm(queue(), order, n, a.list(), norms.data());
      settings.gpu_forms = false;
      const auto results = norms.read();
      for (std::size_t i = 0; i < n.size(); i++) {
        double sum = 0, most = 0;
        for (const float v : a.host[i]) {
          sum += order == NormOrder::two ? double(v) * double(v) : std::fabs(double(v));
          most = std::max(most, std::fabs(double(v)));
        }
        const double expected = order == NormOrder::one ? sum : order == NormOrder::two ? std::sqrt(sum) : most;
        ASSERT_NEAR(results[i], expected, 1e-5 * expected) << i;
      }
    }
}

// More chunks than a group reduces at once, in float16; NaN comes through.
TEST(Foreach, NormOfALargeTensor) {
  const std::size_t count = (std::size_t(1) << 26) + 5;
  std::vector<std::uint16_t> values(count, 0x3c00);  // ones
  DeviceVector<std::uint16_t> data(values), norm(1);
  const std::int64_t size[] = {std::int64_t(count)};
  const BufferRef refs[] = {data.data()};
  foreach_norm(queue(), NormOrder::two, size, {refs, DataType::float16}, norm.data());
  EXPECT_EQ(norm.read()[0], 0x7000);  // 2^13
  values[70000] = 0x7e00;
  data = DeviceVector<std::uint16_t>(values);
  const BufferRef others[] = {data.data()};
  for (const NormOrder order : {NormOrder::one, NormOrder::infinity}) {
    foreach_norm(queue(), order, size, {others, DataType::float16}, norm.data());
    EXPECT_GT(norm.read()[0] & 0x7fff, 0x7c00);
  }
}

TEST(Optimizer, AdamFollowsItsFormula) {
  const auto n = sizes();
  for (const bool decoupled : {false, true})
    for (const bool amsgrad : {false, true}) {
      Lists p(n, 1), g(n, 2), m(n, 3), v(n, 4, 0), largest(n, 5, 0);
      Lists steps(std::vector<std::int64_t>(n.size(), 1), 6, 0.99f);
      const AdamOptions o{0.01, 0.9, 0.99, 0.1, 1e-8, decoupled, amsgrad, true};
      adam(queue(), n, p.list(), g.list(), m.list(), v.list(), largest.list(), steps.list(), o, {});
      for (std::size_t i = 0; i < n.size(); i++) {
        const auto result = p.device[i].read();
        const double step = steps.host[i][0];
        for (std::size_t j = 0; j < result.size(); j++) {
          double w = p.host[i][j], gradient = -g.host[i][j];
          if (decoupled) w -= o.lr * o.weight_decay * w;
          else gradient += o.weight_decay * w;
          const double average = 0.9 * m.host[i][j] + 0.1 * gradient;
          double square = 0.99 * v.host[i][j] + 0.01 * gradient * gradient;
          if (amsgrad) square = std::max<double>(square, largest.host[i][j]);
          const double expected = w - o.lr / (1 - std::pow(0.9, step)) * average /
                                          (std::sqrt(square) / std::sqrt(1 - std::pow(0.99, step)) + o.eps);
          ASSERT_NEAR(result[j], expected, 1e-4 * std::max(1.0, std::abs(expected))) << i << " " << j;
        }
      }
    }
}

TEST(Optimizer, SgdWithMomentumAndSkippedSteps) {
  const auto n = sizes();
  Lists p(n, 1), g(n, 2), buffer(n, 3);
  const SgdOptions o{0.1, 0.9, 0.2, 0.01, true, false, false};
  DeviceVector<float> found(std::vector<float>{1.f}), scale(std::vector<float>{2.f});
  sgd(queue(), n, p.list(), g.list(), buffer.list(), o, {{}, scale.data(), found.data()});
  EXPECT_EQ(p.device[0].read(), p.host[0]);
  found = DeviceVector<float>(std::vector<float>{0.f});
  sgd(queue(), n, p.list(), g.list(), buffer.list(), o, {{}, scale.data(), found.data()});
  for (std::size_t i = 0; i < n.size(); i++) {
    const auto result = p.device[i].read();
    for (std::size_t j = 0; j < result.size(); j++) {
      const float gradient = g.host[i][j] / 2 + 0.01f * p.host[i][j];
      const float b = 0.9f * buffer.host[i][j] + 0.8f * gradient;
      ASSERT_NEAR(result[j], p.host[i][j] - 0.1f * (gradient + 0.9f * b), 1e-5);
    }
  }
}

}  // namespace
}  // namespace dlprim
