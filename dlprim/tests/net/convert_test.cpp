// SPDX-License-Identifier: MIT
// ONNX models as JSON networks with parameters.
#include <filesystem>

#include "finite_differences.hpp"
#include "models.hpp"

namespace dlprim::testing {
namespace {

// What the model gives, and what it gives as JSON for another batch too.
void expect_same_as_json(ModelBuilder& builder, const std::vector<std::int64_t>& shape) {
  const std::string stem =
      (std::filesystem::temp_directory_path() / ("dlprim_convert_test" + std::to_string(std::random_device()())))
          .string();
  Net net{Context(device())}, json{Context(device())};
  net.load_model(builder.model());
  net.reshape_input(0, Shape(shape));
  save_json(net, stem + ".json", stem + ".dlp");
  json.load_from_json_file(stem + ".json");
  json.load_parameters(stem + ".dlp");
  std::filesystem::remove(stem + ".json"), std::filesystem::remove(stem + ".dlp");
  for (std::int64_t batch : {shape[0], shape[0] + 1}) {
    net.set_batch(batch), json.set_batch(batch);
    const std::vector<float> x = random_floats(std::size_t(net.input(0).numel()));
    const std::vector<float> expected = run(net, x), got = run(json, x);
    ASSERT_EQ(json.output(0).shape(), net.output(0).shape());
    for (std::size_t i = 0; i < expected.size(); i++) ASSERT_NEAR(got[i], expected[i], 1e-5);
  }
}

TEST(Convert, AConvolutionalNetwork) {
  ModelBuilder b;
  b.input("x", {-1, 3, 9, 9}).output("y", {-1, 5});
  b.constant("w", {4, 3, 3, 3}, random_floats(108, 2)).constant("bias", {4}, random_floats(4, 3));
  for (const char* name : {"gamma", "beta", "mean"}) b.constant(name, {4}, random_floats(4, 4));
  b.constant("var", {4}, random_floats(4, 5, 0.5f, 2))
      .constant("fc", {5, 16}, random_floats(80, 6))
      .constant("fcb", {5}, random_floats(5, 7));
  b.constant("shift", {1, 4, 1, 1}, random_floats(4, 8))
      .constant("two", {}, {2})
      .integers("zero", {0})
      .integers("rest", {-1});
  b.constant("half", {1}, {0.5f});
  auto* conv = b.node("Conv", {"x", "w", "bias"}, {"c"});
  attribute(conv, "pads", std::vector<std::int64_t>(4, 1)), attribute(conv, "strides", std::vector<std::int64_t>(2, 2));
  b.node("BatchNormalization", {"c", "gamma", "beta", "mean", "var"}, {"n"});
  b.node("Relu", {"n"}, {"r"});
  b.node("Add", {"r", "shift"}, {"s"});
  b.node("HardSwish", {"s"}, {"h"});
  b.node("Div", {"h", "two"}, {"d"});
  b.node("Mul", {"d", "half"}, {"m"});
  auto* pool = b.node("MaxPool", {"m"}, {"p"});
  attribute(pool, "kernel_shape", std::vector<std::int64_t>(2, 3)),
      attribute(pool, "strides", std::vector<std::int64_t>(2, 2));
  b.node("Shape", {"p"}, {"shape"});
  b.node("Gather", {"shape", "zero"}, {"batch"});
  attribute(b.node("Concat", {"batch", "rest"}, {"sizes"}), "axis", 0);
  b.node("Reshape", {"p", "sizes"}, {"flat"});
  attribute(b.node("Gemm", {"flat", "fc", "fcb"}, {"logits"}), "transB", 1);
  b.node("Softmax", {"logits"}, {"y"});
  expect_same_as_json(b, {2, 3, 9, 9});
}

TEST(Convert, PaddingOfItsOwnAndSlices) {
  ModelBuilder b;
  b.input("x", {-1, 4, 7, 7}).output("y", {-1, 2});
  b.constant("w", {4, 2, 3, 3}, random_floats(72, 2)).constant("m", {4, 2}, random_floats(8, 3));
  b.integers("pads", {0, 0, 1, 1, 0, 0, 1, 1}).integers("one", {1}).integers("three", {3}).integers("axis", {1});
  b.node("Pad", {"x", "pads"}, {"around"});
  auto* conv = b.node("Conv", {"around", "w"}, {"c"});
  attribute(conv, "group", 2), attribute(conv, "auto_pad", std::string("VALID"));
  b.node("Slice", {"c", "one", "three", "axis"}, {"part"});
  b.node("Sub", {"part", "part"}, {"zero"});
  attribute(b.node("Concat", {"part", "zero"}, {"both"}), "axis", 1);
  b.node("GlobalAveragePool", {"both"}, {"g"});
  attribute(b.node("Flatten", {"g"}, {"flat"}), "axis", 1);
  b.node("MatMul", {"flat", "m"}, {"y"});
  expect_same_as_json(b, {1, 4, 7, 7});
}

TEST(Convert, WhatJsonCannotExpressIsListed) {
  ModelBuilder b;
  b.input("x", {2, 3}).output("y", {3, 2});
  b.node("Exp", {"x"}, {"a"})->set_name("first");
  attribute(b.node("Transpose", {"a"}, {"b"}), "perm", std::vector<std::int64_t>{1, 0});
  b.node("Relu", {"b"}, {"y"});
  Net net{Context(device())};
  net.load_model(b.model());
  try {
    to_json(net);
    FAIL() << "it was expressed";
  } catch (const NotImplementedError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("2 nodes"), std::string::npos) << text;
    EXPECT_NE(text.find("Exp 'first': there is no such operator"), std::string::npos) << text;
    EXPECT_NE(text.find("Transpose: it moves elements"), std::string::npos) << text;
  }
}

TEST(Convert, AJsonNetworkStaysWhatItIs) {
  Net net{Context(device())}, again{Context(device())};
  net.load_from_json_file(std::string(EXAMPLES) + "/nets/digits.json");
  again.load_from_json(to_json(net));
  EXPECT_EQ(again.param_names(), net.param_names());
  EXPECT_EQ(again.loss_weight("loss"), 1);
}

// A model of ONNX learns: fine-tuning needs nothing but a loss.
TEST(Convert, AnOnnxModelTrains) {
  ModelBuilder b;
  b.input("x", {8, 4}).output("y", {8, 2});
  b.constant("w1", {6, 4}, random_floats(24, 2))
      .constant("b1", {6}, random_floats(6, 3))
      .constant("w2", {6, 2}, random_floats(12, 4));
  attribute(b.node("Gemm", {"x", "w1", "b1"}, {"h"}), "transB", 1);
  b.node("Tanh", {"h"}, {"t"});
  b.node("MatMul", {"t", "w2"}, {"y"});
  Net net{Context(device())};
  net.load_model(b.model());
  net.mode(CalculationsMode::train);
  const ExecutionContext ec = net.context().make_execution_context();
  const std::vector<float> x = random_floats(32, 5), target = random_floats(16, 6);
  SGD solver(net, 0.05, 0.9, 0);
  double first = 0, loss = 0;
  for (int step = 0; step < 200; step++) {
    std::vector<float> y = run(net, x);
    loss = 0;
    for (std::size_t i = 0; i < y.size(); i++) y[i] -= target[i], loss += y[i] * y[i];
    if (step == 0) first = loss;
    net.output_diff("y").to_device(ec, y);
    solver.zero_grad();
    net.backward(ec);
    solver.step(ec);
  }
  EXPECT_LT(loss, first / 100);
}

}  // namespace
}  // namespace dlprim::testing
