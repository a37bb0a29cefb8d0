// SPDX-License-Identifier: MIT
#include "finite_differences.hpp"
#include "models.hpp"

namespace dlprim::testing {
namespace {

using Attributes = std::map<std::string, std::int64_t>;

std::vector<float> run_node(const std::string& type, const std::vector<std::int64_t>& sizes,
                            const Attributes& attributes, const std::vector<float>& x, std::int64_t length = 0) {
  ModelBuilder builder;
  builder.input("x", sizes).output("y", {-1, -1, -1}).integers("length", {length});
  auto* node =
      builder.node(type, length ? std::vector<std::string>{"x", "length"} : std::vector<std::string>{"x"}, {"y"});
  for (const auto& [name, value] : attributes) attribute(node, name, value);
  Net net{Context(device())};
  net.load_model(builder.model());
  return run(net, x);
}

void expect_numbers(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); i++) EXPECT_NEAR(actual[i], expected[i], 1e-5) << i;
}

TEST(Signal, FourierTransformsOfRealAndComplexNumbers) {
  const std::vector<float> all{10, 0, -2, 2, -2, 0, -2, -2}, half(all.begin(), all.begin() + 6), x{1, 2, 3, 4};
  const std::vector<float> pairs{1, 0, 2, 0, 3, 0, 4, 0};
  expect_numbers(run_node("DFT", {1, 4, 1}, {}, x), all);
  expect_numbers(run_node("DFT", {1, 4, 1}, {{"onesided", 1}}, x), half);
  expect_numbers(run_node("DFT", {1, 4, 2}, {}, pairs), all);
  expect_numbers(run_node("DFT", {1, 4, 2}, {{"onesided", 1}}, pairs), half);
  expect_numbers(run_node("DFT", {1, 4, 2}, {{"inverse", 1}}, all), pairs);
  expect_numbers(run_node("DFT", {1, 3, 2}, {{"inverse", 1}, {"onesided", 1}}, half), x);
}

TEST(Signal, FourierTransformsCutAndPad) {
  expect_numbers(run_node("DFT", {1, 4, 1}, {}, {1, 2, 3, 4}, 2), {3, 0, -1, 0});
  expect_numbers(run_node("DFT", {1, 2, 1}, {}, {1, 2}, 4), {3, 0, 1, -2, -1, 0, 1, 2});
  EXPECT_THROW(run_node("DFT", {1, 2, 1}, {}, {1, 2}, std::int64_t(1) << 40), ValidationError);
  EXPECT_THROW(run_node("DFT", {1, 2, 2}, {{"inverse", 1}, {"onesided", 1}}, {1, 0, 2, 0}, 5), ValidationError);
}

}  // namespace
}  // namespace dlprim::testing
