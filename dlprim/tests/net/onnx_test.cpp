// SPDX-License-Identifier: MIT
#include "models.hpp"

namespace dlprim::testing {
namespace {

TEST(Onnx, GarbageIsAnError) {
  ONNXModel model;
  EXPECT_THROW(model.load("/no/such/file.onnx"), ValidationError);
  EXPECT_THROW(model.load_bytes({}), ValidationError);
  const std::string text = "this is no model";
  EXPECT_THROW(model.load_bytes(std::as_bytes(std::span(text))), ValidationError);
}

TEST(Onnx, ValuesMustBeDefinedOnceAndBeforeUse) {
  ModelBuilder cycle;
  cycle.input("x", {1}).output("y", {1});
  cycle.node("Add", {"x", "z"}, {"y"});
  cycle.node("Neg", {"y"}, {"z"});
  EXPECT_THROW(cycle.model(), ValidationError);
  ModelBuilder twice;
  twice.input("x", {1}).output("x", {1});
  twice.node("Neg", {"x"}, {"x"});
  EXPECT_THROW(twice.model(), ValidationError);
}

TEST(Onnx, OneErrorListsEverythingUnsupported) {
  ModelBuilder builder(19);
  builder.input("x", {4}).input("names", {4}, 8).output("y", {4}).output("z", {4}, 17);
  builder.node("StringNormalizer", {"names"}, {"clean"});
  builder.node("Identity", {"names"}, {"same"});
  auto* cast = builder.node("Cast", {"x"}, {"z"});
  attribute(cast, "to", 17), cast->set_name("to_eight_bits");
  auto* constant = builder.node("Constant", {}, {"c"})->add_attribute();
  constant->set_name("value"), constant->set_type(4), constant->mutable_t()->set_data_type(22);
  attribute(builder.node("Resize", {"x", "", "x"}, {"r"}), "mode", std::string("lanczos"));
  builder.node("NoSuchOperator", {"x"}, {"n"});
  builder.node("Neg", {"x"}, {"y"});
  auto* weights = builder.graph()->add_initializer();
  weights->set_name("w"), weights->set_data_type(19), weights->add_dims(4);
  builder.node("Add", {"x", "w"}, {"s"});
  Net net{Context(device())};
  try {
    net.load_model(builder.model());
    FAIL() << "it loaded";
  } catch (const NotImplementedError& error) {
    const std::string message = error.what();
    for (const char* part :
         {"7 nodes", "StringNormalizer (opset 19)", "no such operator", "Identity", "'names' of element type string",
          "Cast (opset 19, node 'to_eight_bits')", "attribute to (element type float8e4m3fn)",
          "Constant (opset 19): attribute value of element type int4", "attribute mode=\"lanczos\"", "NoSuchOperator",
          "Add (opset 19): input 'w' of element type float8e5m2"})
      EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
    EXPECT_EQ(message.find("Neg"), std::string::npos) << message;
  }
}

TEST(Onnx, FoldingLeavesBrokenNodesToTheirOperators) {
  for (const bool weightless : {true, false}) {
    ModelBuilder builder;
    builder.input("x", {1, 1, 4, 4}).output("y", {1, 1, 4, 4});
    builder.constant("w", {1, 1, 1, 1}, {1}).constant("one", {1}, {1});
    std::vector<std::string> inputs{"x"};
    if (!weightless) inputs.push_back("w");
    builder.node("Conv", inputs, {"t"});
    auto* norm = builder.node("BatchNormalization", {"t", "one", "one", "one", "one"}, {"y"});
    if (!weightless) attribute(norm, "epsilon", std::string("small"));
    Net net{Context(device())};
    net.load_model(builder.model());
    EXPECT_THROW(net.forward(net.context().make_execution_context()), ValidationError);
  }
}

// 8 TB of zeros.
TEST(Onnx, HugeConstantsAreRefusedBeforeTheyFillTheHostsMemory) {
  ModelBuilder builder;
  builder.output("y", {-1}).integers("size", {std::int64_t(1) << 41});
  builder.node("ConstantOfShape", {"size"}, {"y"});
  Net net{Context(device())};
  net.load_model(builder.model());
  EXPECT_THROW(net.forward(net.context().make_execution_context()), Error);
}

TEST(Onnx, ConstantsMustFitTheirShape) {
  ModelBuilder builder;
  builder.output("w", {4}).constant("w", {4}, {1, 2, 3});
  EXPECT_THROW(builder.model(), ValidationError);
  ModelBuilder huge;
  huge.output("w", {4}).constant("w", {std::int64_t(1) << 40, std::int64_t(1) << 40}, {1});
  EXPECT_THROW(huge.model(), ValidationError);
}

TEST(Onnx, ExternalDataStaysBesideTheModel) {
  ModelBuilder builder;
  builder.output("w", {1}).constant("w", {1}, {1});
  auto* tensor = builder.graph()->mutable_initializer(0);
  tensor->clear_raw_data(), tensor->set_data_location(1);
  auto* entry = tensor->add_external_data();
  entry->set_key("location"), entry->set_value("../../etc/passwd");
  EXPECT_THROW(builder.model(), ValidationError);
}

// A loop that doubles x three times and collects the results.
TEST(Onnx, LoopsRunTheirBody) {
  ModelBuilder builder;
  builder.input("x", {2}).output("all", {3, 2}).integers("three", {3});
  auto* loop = builder.node("Loop", {"three", "", "x"}, {"last", "all"});
  auto* attribute = loop->add_attribute();
  attribute->set_name("body"), attribute->set_type(5);
  auto* body = attribute->mutable_g();
  for (const char* name : {"i", "go", "v"}) body->add_input()->set_name(name);
  auto* node = body->add_node();
  node->set_op_type("Add"), node->add_input("v"), node->add_input("v"), node->add_output("w");
  node = body->add_node();
  node->set_op_type("Identity"), node->add_input("go"), node->add_output("on");
  node = body->add_node();
  node->set_op_type("Identity"), node->add_input("w"), node->add_output("copy");
  for (const char* name : {"on", "w", "copy"}) body->add_output()->set_name(name);
  Net net{Context(device())};
  net.load_model(builder.model());
  for (int round = 0; round < 2; round++) EXPECT_EQ(run(net, {1, 3}), (std::vector<float>{2, 6, 4, 12, 8, 24}));
}

// A function of the model: f(a) = a * a + a.
TEST(Onnx, FunctionsAreExpanded) {
  ModelBuilder builder;
  builder.input("x", {2}).output("y", {2});
  builder.node("f", {"x"}, {"y"})->set_domain("own");
  onnx_format::Model model;
  model.ParseFromString(builder.bytes());
  auto* f = model.add_functions();
  f->set_name("f"), f->set_domain("own"), f->add_input("a"), f->add_output("r");
  f->add_opset_import()->set_version(17);
  auto* node = f->add_node();
  node->set_op_type("Mul"), node->add_input("a"), node->add_input("a"), node->add_output("s");
  node = f->add_node();
  node->set_op_type("Add"), node->add_input("s"), node->add_input("a"), node->add_output("r");
  const std::string data = model.SerializeAsString();
  ONNXModel loaded;
  loaded.load_bytes(std::as_bytes(std::span(data)));
  Net net{Context(device())};
  net.load_model(loaded);
  EXPECT_EQ(run(net, {2, 3}), (std::vector<float>{6, 12}));
}

}  // namespace
}  // namespace dlprim::testing
