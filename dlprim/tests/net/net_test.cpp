// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "floats.hpp"
#include "models.hpp"

namespace dlprim::testing {
namespace {

// y = relu(conv(x) + b), one channel, a kernel of ones.
ModelBuilder conv_model(std::int64_t batch) {
  ModelBuilder builder;
  builder.input("x", {batch, 1, 3, 3}).output("y", {batch, 1, 3, 3});
  builder.constant("w", {1, 1, 3, 3}, std::vector<float>(9, 1)).constant("b", {1}, {-10});
  attribute(builder.node("Conv", {"x", "w", "b"}, {"c"}), "pads", std::vector<std::int64_t>(4, 1));
  builder.node("Relu", {"c"}, {"y"});
  return builder;
}

TEST(Net, RunsAConvolution) {
  Net net{Context(device())};
  net.mode(CalculationsMode::predict);
  net.load_model(conv_model(1).model());
  EXPECT_EQ(run(net, {1, 2, 3, 4, 5, 6, 7, 8, 9}), (std::vector<float>{2, 11, 6, 17, 35, 23, 14, 29, 18}));
  EXPECT_EQ(run(net, std::vector<float>(9, 1)), std::vector<float>(9, 0));
}

// What is kept of constant weights is of those, and goes when they change.
TEST(Net, KeepsWhatIsMadeOfWeights) {
  const Variable forced("DLPRIM_CONV", "winograd_rows");
  Net net{Context(device())};
  net.mode(CalculationsMode::predict);
  net.load_model(conv_model(1).model());
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto near = [&](const std::vector<float>& expected) {
    const std::vector<float> found = run(net, x);
    for (std::size_t i = 0; i < expected.size(); i++) EXPECT_NEAR(found[i], expected[i], 1e-3);
  };
  for (int i = 0; i < 2; i++) near({2, 11, 6, 17, 35, 23, 14, 29, 18});
  const std::vector<float> middle{0, 0, 0, 0, 4, 0, 0, 0, 0};
  net.load_parameters({{"w", Tensor::from_host(DataType::float32, {1, 1, 3, 3}, middle.data())}}, true);
  for (int i = 0; i < 2; i++) near({0, 0, 2, 6, 10, 14, 18, 22, 26});
}

// relu(conv(x) + r) for a sum of the convolution's shape and for one that is broadcast.
TEST(Net, AddsToAConvolution) {
  for (const std::int64_t rows : {3, 1}) {
    ModelBuilder builder;
    builder.input("x", {1, 1, 3, 3}).output("y", {1, 1, 3, 3});
    builder.constant("w", {1, 1, 3, 3}, std::vector<float>(9, 1)).constant("b", {1}, {-10});
    const std::vector<float> whole{0, 1, 2, 3, 4, 5, 6, 7, -50}, row{7, 0, 1};
    builder.constant("r", {1, 1, rows, 3}, rows == 3 ? whole : row);
    attribute(builder.node("Conv", {"x", "w", "b"}, {"c"}), "pads", std::vector<std::int64_t>(4, 1));
    builder.node("Add", {"r", "c"}, {"s"});
    builder.node("Relu", {"s"}, {"y"});
    Net net{Context(device())};
    net.mode(CalculationsMode::predict);
    net.load_model(builder.model());
    const std::vector<float> same{2, 12, 8, 20, 39, 28, 20, 36, 0}, broadcast{9, 11, 7, 24, 35, 24, 21, 29, 19};
    EXPECT_EQ(run(net, {1, 2, 3, 4, 5, 6, 7, 8, 9}), rows == 3 ? same : broadcast);
  }
}

// s * f(s) for s = conv(x) + r: hardswish, and silu as exporters write it.
TEST(Net, ActivatesASumWithAConvolution) {
  for (const bool silu : {false, true}) {
    ModelBuilder builder;
    builder.input("x", {1, 1, 3, 3}).output("y", {1, 1, 3, 3});
    builder.constant("w", {1, 1, 3, 3}, std::vector<float>(9, 1));
    builder.constant("r", {1, 1, 3, 3}, {-16, -20, -15, -28, -44, -31, -24, -43.5, -28.5});
    attribute(builder.node("Conv", {"x", "w"}, {"c"}), "pads", std::vector<std::int64_t>(4, 1));
    builder.node("Add", {"c", "r"}, {"s"});
    if (silu) builder.node("Sigmoid", {"s"}, {"g"}), builder.node("Mul", {"s", "g"}, {"y"});
    else builder.node("HardSwish", {"s"}, {"y"});
    Net net{Context(device())};
    net.mode(CalculationsMode::predict);
    net.load_model(builder.model());
    const std::vector<float> y = run(net, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    const double sums[] = {-4, 1, 1, -1, 1, 2, 0, -4.5, -0.5};
    for (std::size_t i = 0; i < 9; i++) {
      const double gate = silu ? 1 / (1 + std::exp(-sums[i])) : std::clamp(sums[i] + 3, 0.0, 6.0) / 6;
      EXPECT_NEAR(y[i], sums[i] * gate, 1e-5) << i << " silu " << silu;
    }
  }
}

// f(conv(x)), where HardSigmoid's slope is that of MobileNetV3 or the default.
TEST(Net, ActivatesAConvolution) {
  for (const double slope : {1.0 / 6, 0.2, 0.0}) {
    ModelBuilder builder;
    builder.input("x", {1, 1, 3, 3}).output("y", {1, 1, 3, 3});
    builder.constant("w", {1, 1, 1, 1}, {2}).constant("b", {1}, {-10});
    builder.node("Conv", {"x", "w", "b"}, {"c"});
    if (slope > 0) real_attribute(builder.node("HardSigmoid", {"c"}, {"y"}), "alpha", float(slope));
    else builder.node("Sigmoid", {"c"}, {"y"});
    Net net{Context(device())};
    net.mode(CalculationsMode::predict);
    net.load_model(builder.model());
    const std::vector<float> y = run(net, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    for (int i = 0; i < 9; i++) {
      const double c = 2 * i - 8;
      EXPECT_NEAR(y[i], slope > 0 ? std::clamp(slope * c + 0.5, 0.0, 1.0) : 1 / (1 + std::exp(-c)), 1e-6) << slope;
    }
  }
}

TEST(Net, LoadsAFileAsItsInterfaceSays) {
  const std::string path = (std::filesystem::temp_directory_path() / "dlprim_net_test.onnx").string();
  std::ofstream(path, std::ios::binary) << conv_model(1).bytes();
  const std::vector<float> image(9, 2);
  std::vector<float> scores(9);
  dp::ONNXModel model;
  model.load(path);
  dp::Context ctx(device().info().id);
  dp::Net net(ctx);
  net.mode(dp::CalculationsMode::predict);
  auto ec = ctx.make_execution_context();
  net.load_model(model);
  net.input(0).to_device(ec, image);
  net.forward(ec);
  net.output(0).to_host(ec, scores);
  std::remove(path.c_str());
  EXPECT_EQ(scores, (std::vector<float>{0, 2, 0, 2, 8, 2, 0, 2, 0}));
}

// x + cos(sin(x)), six times: three tensors at once, and the input, which the net keeps, are the least that will do.
TEST(Net, HoldsNoMoreMemoryThanLivenessAsksFor) {
  constexpr std::int64_t size = 1 << 21, least = 4 * size * std::int64_t(sizeof(float));
  ModelBuilder builder;
  builder.input("x0", {size}).output("x6", {size});
  for (int i = 0; i < 6; i++) {
    const std::string n = std::to_string(i);
    builder.node("Sin", {"x" + n}, {"s" + n});
    builder.node("Cos", {"s" + n}, {"c" + n});
    builder.node("Add", {"c" + n, "x" + n}, {"x" + std::to_string(i + 1)});
  }
  Allocator& memory = device().allocator();
  const std::int64_t before = memory.stats().allocated_bytes.current;
  Net net{Context(device())};
  net.load_model(builder.model());
  memory.reset_peak_stats();
  run(net, std::vector<float>(std::size_t(size), 0.5f));
  run(net, std::vector<float>(std::size_t(size), 0.5f));
  const std::int64_t peak = memory.stats().allocated_bytes.peak - before;
  EXPECT_GE(peak, least);
  EXPECT_LE(double(peak), 1.3 * double(least));
}

TEST(Net, OpenSizesAreGivenByTheInput) {
  Net net{Context(device())};
  net.load_model(conv_model(-1).model());
  EXPECT_THROW(net.input(0), ValidationError);
  for (std::int64_t batch : {1, 3, 2}) {
    net.reshape_input(0, {batch, 1, 3, 3});
    const std::vector<float> y = run(net, std::vector<float>(std::size_t(9 * batch), 2));
    ASSERT_EQ(y.size(), std::size_t(9 * batch));
    EXPECT_EQ(y[4], 8);
    EXPECT_EQ(net.output(0).shape(), (Shape{batch, 1, 3, 3}));
  }
  EXPECT_THROW(net.reshape_input(0, {1, 2, 3, 3}), ValidationError);
}

// Reshape(x, Concat(Gather(Shape(x), 0), [-1])): what exporters write for x.flatten(1).
TEST(Net, ShapesAreFollowed) {
  ModelBuilder builder;
  builder.input("x", {-1, 2, 3}).output("y", {-1, 6}).integers("zero", {0}).integers("rest", {-1});
  builder.node("Shape", {"x"}, {"shape"});
  builder.node("Gather", {"shape", "zero"}, {"batch"});
  attribute(builder.node("Concat", {"batch", "rest"}, {"sizes"}), "axis", 0);
  builder.node("Reshape", {"x", "sizes"}, {"y"});
  Net net{Context(device())};
  net.load_model(builder.model());
  for (std::int64_t batch : {2, 5}) {
    net.reshape_input(0, {batch, 2, 3});
    std::vector<float> x(std::size_t(6 * batch));
    for (std::size_t i = 0; i < x.size(); i++) x[i] = float(i);
    EXPECT_EQ(run(net, x), x);
    EXPECT_EQ(net.output(0).shape(), (Shape{batch, 6}));
  }
}

TEST(Net, EveryUnsupportedNodeIsListed) {
  ModelBuilder builder;
  builder.input("x", {1}).output("y", {1});
  builder.node("Frobnicate", {"x"}, {"a"})->set_name("first");
  attribute(builder.node("Relu", {"a"}, {"b"}), "slope", 3);
  attribute(builder.node("Pad", {"b"}, {"y"}), "mode", std::string("mirror"));
  Net net{Context(device())};
  try {
    net.load_model(builder.model());
    FAIL() << "it loaded";
  } catch (const NotImplementedError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("3 nodes"), std::string::npos) << text;
    EXPECT_NE(text.find("Frobnicate (opset 17, node 'first'): no such operator"), std::string::npos) << text;
    EXPECT_NE(text.find("attribute slope"), std::string::npos) << text;
    EXPECT_NE(text.find("mode=\"mirror\""), std::string::npos) << text;
  }
}

TEST(Net, BadInputIsAnError) {
  Net net{Context(device())};
  EXPECT_THROW(net.forward(net.context().make_execution_context()), ValidationError);
  net.load_model(conv_model(1).model());
  EXPECT_THROW(net.input("z"), ValidationError);
  EXPECT_THROW(net.input(0).to_device(net.context().make_execution_context(), std::vector<float>(8)), ValidationError);
  EXPECT_THROW(net.set_input(0, Tensor(net.context(), {1, 1, 3, 3}, DataType::int32)), ValidationError);
  EXPECT_THROW(Context("no such device"), ValidationError);
}

TEST(Net, MemoryIsReused) {
  ModelBuilder builder;
  constexpr std::int64_t size = 1 << 20;
  builder.input("x", {size}).output("y", {size});
  for (int i = 0; i < 20; i++)
    builder.node("Neg", {i ? "v" + std::to_string(i) : "x"}, {i == 19 ? "y" : "v" + std::to_string(i + 1)});
  Net net{Context(device())};
  net.load_model(builder.model());
  run(net, std::vector<float>(size, 1));
  device().allocator().reset_peak_stats();
  const auto before = device().allocator().stats().allocated_bytes.current;
  EXPECT_EQ(run(net, std::vector<float>(size, 1)), std::vector<float>(size, 1));
  EXPECT_LE(device().allocator().stats().allocated_bytes.peak - before, 3 * size * 4);
}

}  // namespace
}  // namespace dlprim::testing
