// SPDX-License-Identifier: MIT
// Gradients of every operator type of JSON networks against finite differences.
#include "finite_differences.hpp"

namespace dlprim::testing {
namespace {

// One operator: "a" and "b" are inputs of these shapes, "y" its output.
struct Case {
  const char *type, *options;
  std::vector<Shape> inputs;
  const char* labels = nullptr;  // shape of integer labels as the second input
};

class JsonGradient : public ::testing::TestWithParam<Case> {};

TEST_P(JsonGradient, AgreesWithFiniteDifferences) {
  const Case& c = GetParam();
  const std::string dtype = widest() == DataType::float64 ? "double" : "float";
  std::string inputs, names;
  auto add = [&](const std::string& name, const std::string& shape, const std::string& type) {
    inputs += (inputs.empty() ? "" : ", ") + std::string("{\"name\": \"") + name + "\", \"shape\": " + shape +
              ", \"dtype\": \"" + type + "\"}";
    names += (names.empty() ? "\"" : ", \"") + name + "\"";
  };
  for (std::size_t i = 0; i < c.inputs.size(); i++) add(i ? "b" : "a", c.inputs[i].text(), dtype);
  if (c.labels) add("label", c.labels, "int");
  const std::string parameter = std::string(c.type) == "Parameter" ? ", \"dtype\": \"" + dtype + "\"" : "";
  const std::string text =
      "{\"inputs\": [" + inputs + "], \"outputs\": [\"y\"], \"operators\": [{\"name\": \"op\", \"type\": \"" + c.type +
      "\", \"inputs\": [" + names + "], \"outputs\": [\"y\"], \"options\": {" + c.options + parameter + "}}]}";
  Net net{Context(device())};
  net.load_from_json(text);
  for (int i = 0; i < net.inputs(); i++) {
    Tensor& x = net.input(i);
    if (is_floating(x.dtype()))
      write_values(net, x, distinct_values(std::size_t(x.numel()), unsigned(i) + 1, -1.5, 1.5));
    else x.to_device(net.context().make_execution_context(), std::vector<std::int32_t>{1, 0, 3});
  }
  expect_finite_differences(net);
}

const Case cases[] = {
    {"Softmax", "", {{3, 5}}},
    {"Softmax", "\"log\": true", {{2, 4, 3}}},
    {"SoftmaxWithLoss", "", {{3, 5}}, "[3]"},
    {"SoftmaxWithLoss", "", {{3, 5}}, "[3, 1]"},
    {"NLLLoss", "", {{3, 5}}, "[3]"},
    {"NLLLoss", "\"reduce\": \"sum\"", {{3, 5}}, "[3]"},
    {"NLLLoss", "\"reduce\": \"none\"", {{3, 5}}, "[3]"},
    {"MSELoss", "", {{3, 5}, {3, 5}}},
    {"MSELoss", "\"reduce\": \"sum\"", {{3, 5}, {3, 5}}},
    {"MSELoss", "\"reduce\": \"none\"", {{3, 5}, {3, 5}}},
    {"Activation", "", {{3, 5}}},
    {"Activation", "\"activation\": \"relu\"", {{3, 5}}},
    {"Activation", "\"activation\": \"tanh\"", {{3, 5}}},
    {"Activation", "\"activation\": \"sigmoid\"", {{3, 5}}},
    {"Activation", "\"activation\": \"relu6\"", {{3, 5}}},
    {"Elementwise", "", {{3, 5}, {3, 5}}},
    {"Elementwise", "\"coef1\": 2, \"coef2\": -0.5, \"activation\": \"tanh\"", {{2, 3, 4, 4}, {3, 1, 1}}},
    {"Elementwise", "\"operation\": \"prod\"", {{2, 3, 4}, {3, 1}}},
    {"Elementwise", "\"operation\": \"max\", \"coef1\": 3", {{3, 5}, {3, 5}}},
    {"Pooling2D", "\"kernel\": 2, \"stride\": 2", {{2, 2, 6, 6}}},
    {"Pooling2D", "\"kernel\": [3, 2], \"stride\": [2, 1], \"pad\": [1, 0], \"ceil_mode\": true", {{2, 2, 6, 5}}},
    {"Pooling2D", "\"mode\": \"avg\", \"kernel\": 3, \"stride\": 2, \"pad\": 1", {{2, 2, 6, 6}}},
    {"Pooling2D", "\"mode\": \"avg\", \"kernel\": 3, \"pad\": 1, \"count_include_pad\": true", {{2, 2, 5, 5}}},
    {"GlobalPooling", "", {{2, 3, 4, 4}}},
    {"GlobalPooling", "\"mode\": \"avg\"", {{2, 3, 4, 4}}},
    {"InnerProduct", "\"outputs\": 4", {{3, 5}}},
    {"InnerProduct", "\"outputs\": 4, \"bias\": false, \"activation\": \"sigmoid\"", {{3, 2, 2, 2}}},
    {"Convolution2D", "\"channels_out\": 4, \"kernel\": 3, \"pad\": 1, \"activation\": \"tanh\"", {{2, 3, 5, 5}}},
    {"Convolution2D",
     "\"channels_out\": 4, \"kernel\": [3, 2], \"stride\": [2, 1], \"groups\": 2, \"bias\": false",
     {{2, 4, 7, 6}}},
    {"Convolution2D",
     "\"channels_out\": 4, \"kernel\": 3, \"dilate\": 2, \"groups\": 4, \"fwd_algo\": \"auto\"",
     {{1, 4, 7, 7}}},
    {"TransposedConvolution2D",
     "\"channels_out\": 3, \"kernel\": 3, \"stride\": 2, \"pad\": 1, \"output_pad\": 1",
     {{2, 2, 4, 4}}},
    {"TransposedConvolution2D",
     "\"channels_out\": 4, \"kernel\": [2, 3], \"groups\": 2, \"activation\": \"sigmoid\"",
     {{1, 4, 4, 4}}},
    {"BatchNorm", "", {{4, 3}}},
    {"BatchNorm", "\"affine\": false, \"eps\": 0.01", {{3, 2, 3, 3}}},
    {"BatchNorm", "\"use_global_stats\": true", {{3, 2, 3, 3}}},
    {"Concat", "", {{2, 3, 2}, {2, 1, 2}}},
    {"Concat", "\"dim\": 0", {{2, 3}, {1, 3}}},
    {"Slice", "\"begin\": 1, \"end\": 3", {{2, 4, 3}}},
    {"Slice", "\"dim\": 2, \"begin\": 1", {{2, 2, 3}}},
    {"Flatten", "", {{2, 3, 2}}},
    {"Abs", "", {{3, 5}}},
    {"Squeeze", "", {{3, 1, 2, 1}}},
    {"Squeeze", "\"dims\": [1]", {{3, 1, 2, 1}}},
    {"Reshape", "\"dims\": [0, 2, -1]", {{2, 6}}},
    {"Reduction", "", {{2, 3, 4}}},
    {"Reduction", "\"method\": \"sumsq\", \"start_axis\": 1, \"output_scale\": 0.5", {{2, 3, 4}}},
    {"Reduction", "\"method\": \"abssum\", \"dims\": [0, 2], \"keep_dim\": false", {{2, 3, 4}}},
    {"Reduction", "\"method\": \"mean\", \"dims\": [1]", {{2, 3, 4}}},
    {"Threshold", "\"threshold\": 0.3", {{3, 5}}},
    {"Hardtanh", "\"min_val\": -0.5, \"max_val\": 0.8", {{3, 5}}},
    {"Parameter", "\"shape\": [2, 3]", {}},
    {"Interpolation", "\"method\": \"nearest\", \"out_h\": 5, \"out_w\": 7", {{1, 2, 3, 4}}},
    {"Interpolation", "\"method\": \"nearest-exact\", \"scale_y\": 2, \"scale_x\": 1.5", {{1, 2, 3, 4}}},
    {"Interpolation", "\"method\": \"bilinear\", \"scale_y\": 2, \"scale_x\": 1.5", {{1, 2, 3, 4}}},
    {"Interpolation", "\"method\": \"bilinear\", \"out_h\": 5, \"out_w\": 2, \"align_corners\": true", {{1, 2, 3, 4}}},
};

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return std::string(info.param.type) + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Types, JsonGradient, ::testing::ValuesIn(cases), case_name);

}  // namespace
}  // namespace dlprim::testing
