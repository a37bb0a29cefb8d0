// SPDX-License-Identifier: MIT
#include <fstream>

#include "finite_differences.hpp"

namespace dlprim::testing {
namespace {

// A network of one input "data" [2, 3, 4, 4] and these operators; its output is "y".
std::string network(const std::string& operators, const std::string& outputs = "\"y\"") {
  return "{\"inputs\": [{\"shape\": [2, 3, 4, 4]}], // the name is data\n\"outputs\": [" + outputs +
         "],\n\"operators\": [" + operators + "]}";
}

template <class E = ValidationError>
void expect_error(const std::string& text, const std::string& part) {
  JSONModel model;
  try {
    model.load_text(text);
    FAIL() << "it loaded: " << text;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Json, ErrorsNameTheOperator) {
  const std::string relu = R"({"name": "a", "type": "Activation", "inputs": ["data"], "outputs": ["y"])";
  expect_error("{", "this is no JSON");
  expect_error("[]", "expected an object, got a list");
  expect_error(network(relu + R"(, "options": {"activation": "swish"}})"),
               "[Activation 'a'] expected one of identity|relu|");
  expect_error(network(relu + R"(, "options": {"activation": 3}})"),
               "[Activation 'a'] expected a text for 'activation', got 3");
  expect_error(network(relu + R"(, "options": {"activatoin": "relu"}})"), "[Activation 'a'] unknown keys: activatoin");
  expect_error(network(relu + R"(, "option": {}})"), "[Activation 'a'] unknown keys: option");
  expect_error(network(relu + R"(, "params": ["w"]})"), "expected at most 0 params, got 1");
  expect_error(network(relu + "}, " + relu + "}"), "the name 'a' is used twice");
  expect_error(network(relu + "}", "\"z\""), "no operator gives 'z'");
  expect_error(network(R"({"name": "a", "type": "Activation", "inputs": ["x"], "outputs": ["y"]})"),
               "reads 'x', which is not defined");
  expect_error(network(R"({"name": "a", "type": "Flatten", "inputs": ["data"], "outputs": []})"),
               "expected 1 outputs, got 0");
  expect_error(network(R"({"type": "Flatten", "inputs": ["data"], "outputs": ["y"]})"),
               "[Flatten #0] 'name' is missing");
  expect_error<NotImplementedError>(network(R"({"name": "a", "type": "Swoosh", "inputs": ["data"], "outputs": ["y"]})"),
                                    "'Swoosh'");
  expect_error(
      network(
          R"({"name": "c", "type": "Convolution2D", "inputs": ["data"], "outputs": ["y"], "options": {"kernel": 3}})"),
      "[Convolution2D 'c'] 'channels_out' is missing");
  expect_error(network(R"({"name": "c", "type": "Convolution2D", "inputs": ["data"], "outputs": ["y"],
                           "options": {"kernel": [3, 3, 3], "channels_out": 4}})"),
               "expected an integer or two for 'kernel'");
  expect_error(network(R"({"name": "c", "type": "Convolution2D", "inputs": ["data"], "outputs": ["y"],
                           "options": {"kernel": 7, "channels_out": 4}})"),
               "does not fit [2, 3, 4, 4]");
  expect_error(network(R"({"name": "c", "type": "InnerProduct", "inputs": ["data"], "outputs": ["y"],
                           "options": {"outputs": 1099511627776}})"),
               "is out of range");
  expect_error(R"({"inputs": [{"shape": [2, 0]}], "outputs": ["data"]})", "[input #0] expected sizes of 1 or more");
  expect_error(R"({"inputs": [{"shape": [2], "dtype": "quad"}], "outputs": ["data"]})", "quad");
}

TEST(Json, ParametersAreNamedSharedAndFrozen) {
  Net net{Context(device())};
  net.load_from_json(R"({"inputs": [{"shape": [2, 3]}], "outputs": ["y"], "operators": [
    {"name": "one", "type": "InnerProduct", "inputs": ["data"], "outputs": ["a"],
     "options": {"outputs": 3}, "params": ["w", "auto"]},
    {"name": "two", "type": "InnerProduct", "inputs": ["a"], "outputs": ["a"],
     "options": {"outputs": 3}, "params": ["w"], "frozen": true},
    {"name": "three", "type": "BatchNorm", "inputs": ["a"], "outputs": ["y"], "params": ["", "auto", "gamma"]}]})");
  EXPECT_EQ(net.param_names(),
            (std::vector<std::string>{"w", "one.1", "two.1", "three.0", "three.1", "gamma", "three.3"}));
  EXPECT_TRUE(net.trainable("w"));
  EXPECT_TRUE(net.trainable("one.1"));
  EXPECT_FALSE(net.trainable("two.1"));
  EXPECT_FALSE(net.trainable("three.0"));
  EXPECT_THROW(net.param("two.0"), ValidationError);
  const auto w = read_values(net, net.param("w"));
  EXPECT_LE(*std::max_element(w.begin(), w.end()), 1 / std::sqrt(3.0));
  EXPECT_NE(w[0], w[1]);
  EXPECT_EQ(read_values(net, net.param("gamma")), (std::vector<double>{1, 1, 1}));
  net.initialize_parameters(7);
  EXPECT_NE(read_values(net, net.param("w")), w);
  net.initialize_parameters(0);
  EXPECT_EQ(read_values(net, net.param("w")), w);

  const ExecutionContext ec = net.context().make_execution_context();
  net.mode(CalculationsMode::train);
  net.input(0).to_device(ec, random_floats(6));
  net.forward(ec);
  net.output_diff("y").to_device(ec, random_floats(6, 2));
  net.backward(ec);
  EXPECT_TRUE(net.param_diff("w").defined());
  EXPECT_FALSE(net.param_diff("two.1").defined());
  EXPECT_THROW(net.backward(ec), ValidationError);
}

TEST(Json, SharedParametersMustFit) {
  expect_error(R"({"inputs": [{"shape": [2, 3]}], "outputs": ["y"], "operators": [
    {"name": "one", "type": "InnerProduct", "inputs": ["data"], "outputs": ["a"],
     "options": {"outputs": 3}, "params": ["w"]},
    {"name": "two", "type": "InnerProduct", "inputs": ["a"], "outputs": ["y"],
     "options": {"outputs": 4}, "params": ["w"]}]})",
               "parameter 'w' is shared: expected float32 [3, 3], got float32 [4, 3]");
}

TEST(Json, BatchSizeMayChangeAndValuesAreFound) {
  Net net{Context(device())};
  net.load_from_json(network(R"({"name": "f", "type": "Flatten", "inputs": ["data"], "outputs": ["flat"]},
                                {"name": "p", "type": "InnerProduct", "inputs": ["flat"], "outputs": ["y"],
                                 "options": {"outputs": 5}})"));
  const ExecutionContext ec = net.context().make_execution_context();
  net.keep_intermediate_tensors();
  for (std::int64_t batch : {2, 5, 1}) {
    net.set_batch(batch);
    net.forward(ec);
    EXPECT_EQ(net.output(0).shape(), (Shape{batch, 5}));
    EXPECT_EQ(net.tensor("flat").shape(), (Shape{batch, 48}));
  }
  net.keep_intermediate_tensors(false);
  net.forward(ec);
  EXPECT_THROW(net.tensor("flat"), ValidationError);
  EXPECT_THROW(net.tensor("nothing"), ValidationError);
}

TEST(Json, NetConfigWritesWhatLoads) {
  NetConfig config;
  config.add_input("data", {2, 1, 8, 8})
      .add({"Convolution2D",
            {{"channels_out", 4}, {"kernel", std::vector<std::int64_t>{3, 3}}, {"bias", false}},
            "conv"})
      .add({"Activation", {{"activation", std::string("relu")}}})
      .add({"InnerProduct", {{"outputs", 3}}, "fc"})
      .add({"Softmax", {}, "prob"});
  Net net{Context(device())};
  net.load_from_json(config.text());
  EXPECT_EQ(net.output_info(0).name, "prob");
  EXPECT_EQ(net.output(0).shape(), (Shape{2, 3}));
  EXPECT_EQ(net.param_names(), (std::vector<std::string>{"conv.0", "fc.0", "fc.1"}));
}

TEST(Json, LabelsOfUntouchedInputsAreZero) {
  Net net{Context(device())};
  net.load_from_json(
      R"({"inputs": [{"shape": [2, 3]}, {"name": "label", "shape": [2], "dtype": "int"}], "outputs": ["loss"],
    "operators": [
    {"name": "loss", "type": "SoftmaxWithLoss", "inputs": ["data", "label"], "outputs": ["loss"]}]})");
  EXPECT_EQ(net.loss_weight("loss"), 1);
  EXPECT_NEAR(read_values(net, net.output(0))[0], std::log(3.0), 1e-6);
}

TEST(Json, LabelsThatAreNoClassCostNothing) {
  Net net{Context(device())};
  net.load_from_json(
      R"({"inputs": [{"shape": [4, 3]}, {"name": "label", "shape": [4, 1]}], "outputs": ["loss"], "operators": [
    {"name": "loss", "type": "SoftmaxWithLoss", "inputs": ["data", "label"], "outputs": ["loss"]}]})");
  const ExecutionContext ec = net.context().make_execution_context();
  net.mode(CalculationsMode::train);
  net.want_gradient("data");
  net.input("label").to_device(ec, std::vector<float>{1, -1, 3, 2});
  net.forward(ec);
  EXPECT_EQ(net.output(0).shape(), (Shape{1}));
  EXPECT_NEAR(read_values(net, net.output(0))[0], std::log(3.0) / 2, 1e-6);
  net.backward(ec);
  const std::vector<double> dx = read_values(net, net.tensor_diff("data"));
  EXPECT_NEAR(dx[1], (1.0 / 3 - 1) / 4, 1e-6);
  for (std::size_t i = 3; i < 9; i++) EXPECT_EQ(dx[i], 0);
}

}  // namespace
}  // namespace dlprim::testing
