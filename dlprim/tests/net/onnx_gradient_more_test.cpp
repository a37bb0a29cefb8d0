// SPDX-License-Identifier: MIT
#include "gradient.hpp"
#include "onnx_gradients.hpp"

namespace dlprim::testing {
namespace {

GRADIENTS(MorePointwise) {
  check({"Swish", {{3, 4}}, {{"alpha", 1.5}}});
  check({"SwiGLU", {{3, 4}, {3, 4}}, {{"alpha", 1.5}}});
  check({"Mod", {{3, 4}, {4}}, {{"fmod", std::int64_t(1)}}, {}, 0.6, 3.1});
  check({"Where", {{3, 4}, {4}}, {}, {truths({3, 1}, {1, 0, 1})}, -1.5, 1.5, 17, 1, "cxx"});
  check({"Cast", {{3, 4}}, {{"to", std::int64_t(widest() == DataType::float64 ? 11 : 1)}}});
  check({"CastLike", {{3, 4}}, {}, {number(0)}});
  const std::vector<std::uint8_t> elements{1, 2, 3, 4, 5, 6};
  const Tensor bytes = Tensor::from_host(DataType::uint8, {3, 2}, elements.data());
  check({"DequantizeLinear", {{3}}, {{"axis", std::int64_t(0)}}, {bytes}, 0.5, 2, 21, 1, "cx"});
}

GRADIENTS(MoreShapes) {
  for (const char* mode : {"edge", "reflect", "wrap"})
    check({"Pad", {{3, 4}}, {{"mode", std::string(mode)}}, {integers({1, 2, 0, 1})}, -1.5, 1.5, 19});
  check({"Pad", {{3, 4}}, {}, {integers({1, 1}), number(0.5), integers({-1})}, -1.5, 1.5, 19});
  check({"CenterCropPad", {{3, 6}}, {}, {integers({5, 3})}, -1.5, 1.5, 18});
  check({"ReverseSequence", {{3, 2, 2}}, {}, {integers({2, 3})}});
  check({"Col2Im",
         {{1, 8, 10}},
         {{"pads", Integers{0, 1, 1, 0}}, {"strides", Integers{1, 2}}},
         {integers({5, 4}), integers({2, 2})},
         -1.5,
         1.5,
         18});
}

GRADIENTS(Choosing) {
  check({"TopK", {{3, 5}}, {{"axis", std::int64_t(0)}}, {integers({2})}});
  check({"TopK", {{3, 5}}, {{"largest", std::int64_t(0)}}, {integers({3})}, -1.5, 1.5, 17, 2});
  check({"Compress", {{3, 4}}, {{"axis", std::int64_t(1)}}, {truths({3}, {0, 1, 1})}});
  check({"Compress", {{3, 4}}, {}, {truths({5}, {0, 1, 0, 0, 1})}});
  check({"Unique", {{7}}});
  check({"Unique", {{3, 4}}, {{"axis", std::int64_t(1)}, {"sorted", std::int64_t(0)}}});
  check({"GatherND", {{2, 3, 4}}, {{"batch_dims", std::int64_t(1)}}, {integers({2, 1}, {2, 0})}});
  check({"TensorScatter", {{2, 5, 3}, {2, 2, 3}}, {}, {integers({1, 3})}, -1.5, 1.5, 24});
  check({"TensorScatter",
         {{2, 4, 3}, {2, 3, 3}},
         {{"mode", std::string("circular")}},
         {integers({3, 2})},
         -1.5,
         1.5,
         24});
  check({"MaxUnpool",
         {{1, 2, 2, 2}},
         {{"kernel_shape", Integers{2, 2}}, {"strides", Integers{2, 2}}},
         {integers({1, 2, 2, 2}, {0, 3, 8, 11, 17, 18, 29, 31})}});
  check({"MaxUnpool",
         {{1, 1, 2, 2}},
         {{"kernel_shape", Integers{2, 2}}, {"strides", Integers{2, 2}}},
         {integers({1, 1, 2, 2}, {5, 7, 13, 15}), integers({1, 1, 5, 5})}});
}

GRADIENTS(Scattering) {
  for (const char* type : {"ScatterElements", "Scatter"})
    check({type, {{3, 4}, {2, 4}}, {}, {integers({2, 4}, {0, 1, 2, 0, 2, 2, 0, 1})}, -1.5, 1.5, 17, 1, "xcx"});
  for (const std::string how : {"none", "add", "mul", "max", "min"}) {
    // Several updates of a position, unless one would win at random.
    const Integers rows = how == "none" ? Integers{0, 1, 2, 0, 2, 2, 0, 1} : Integers{0, 1, 2, 0, 0, -2, 2, 0};
    const Integers places = how == "none" ? Integers{2, 0, -2} : Integers{2, 0, -1};
    const Attributes reduction{{"reduction", how}};
    check({"ScatterElements", {{3, 4}, {2, 4}}, reduction, {integers({2, 4}, rows)}, -1.5, 1.5, 18, 1, "xcx"});
    check({"ScatterND", {{3, 4}, {3, 4}}, reduction, {integers({3, 1}, places)}, -1.5, 1.5, 18, 1, "xcx"});
  }
}

// Zeros in products, one or two at a position; two equal extremes, which share the gradient as central differences do.
TEST(OnnxGradient, ScatteringAtZerosAndTies) {
  for (const std::string how : {"mul", "max", "min"}) {
    SCOPED_TRACE(how);
    Net net{Context(device())};
    net.load_model(one_operator(
        {"ScatterElements", {{4}, {4}}, {{"reduction", how}}, {integers({0, 1, 1, 3})}, 0, 0, 18, 1, "xcx"}));
    write_values(net, net.input(0), {0, 2, 3, 0});
    write_values(net, net.input(1), {0, 0.5, 0.5, 4});
    expect_finite_differences(net);
  }
}

GRADIENTS(MorePools) {
  check({"LpPool",
         {{1, 2, 5, 5}},
         {{"kernel_shape", Integers{2, 3}}, {"pads", Integers{1, 0, 0, 1}}, {"p", std::int64_t(3)}}});
  check({"LpPool",
         {{1, 2, 7}},
         {{"kernel_shape", Integers{2}},
          {"dilations", Integers{2}},
          {"strides", Integers{2}},
          {"ceil_mode", std::int64_t(1)}},
         {},
         -1.5,
         1.5,
         18});
  check({"GlobalLpPool", {{2, 3, 4, 2}}, {{"p", std::int64_t(3)}}});
  for (std::int64_t count : {0, 1})
    check({"AveragePool",
           {{1, 2, 6, 7}},
           {{"kernel_shape", Integers{2, 2}},
            {"dilations", Integers{2, 3}},
            {"pads", Integers{1, 0, 1, 2}},
            {"strides", Integers{2, 2}},
            {"count_include_pad", count}},
           {},
           -1.5,
           1.5,
           19});
}

GRADIENTS(Images) {
  for (const char* mode : {"linear", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      check({"GridSample",
             {{1, 2, 4, 5}, {1, 2, 3, 2}},
             {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}},
             {},
             -1.2,
             1.2,
             20});
  check({"GridSample", {{1, 1, 3, 4, 3}, {1, 2, 2, 2, 3}}, {{"align_corners", std::int64_t(1)}}, {}, -0.9, 0.9, 20});
  check({"AffineGrid", {{2, 2, 3}}, {}, {integers({2, 1, 3, 4})}, -1.5, 1.5, 20});
  check({"AffineGrid", {{1, 3, 4}}, {{"align_corners", std::int64_t(1)}}, {integers({1, 1, 2, 3, 2})}, -1.5, 1.5, 20});
  const std::vector<double> boxes{0.3, 0.4, 3.2, 2.9, 1.1, 0.2, 4.7, 3.3};
  for (const char* mode : {"avg", "max"})
    for (std::int64_t samples : {0, 2})
      check({"RoiAlign",
             {{2, 2, 4, 5}},
             {{"mode", std::string(mode)},
              {"output_height", std::int64_t(2)},
              {"output_width", std::int64_t(3)},
              {"sampling_ratio", samples}},
             {numbers({2, 4}, boxes), integers({1, 0})},
             -1.5,
             1.5,
             16});
  check({"MaxRoiPool",
         {{2, 2, 4, 5}},
         {{"pooled_shape", Integers{2, 2}}},
         {numbers({2, 5}, {1, 0, 0, 3, 2, 0, 1, 1, 4, 3})},
         -1.5,
         1.5,
         22});
  const Attributes two{{"offset_group", std::int64_t(2)}, {"pads", Integers{1, 0, 1, 0}}};
  check({"DeformConv", {{1, 2, 4, 5}, {2, 2, 2, 2}, {1, 16, 5, 4}, {2}, {1, 8, 5, 4}}, two, {}, -0.8, 0.8, 19});
  check({"DeformConv", {{1, 4, 4, 4}, {2, 2, 2, 2}, {1, 8, 3, 3}}, {{"group", std::int64_t(2)}}, {}, -0.8, 0.8, 19});
}

GRADIENTS(LinearAlgebra) {
  check({"Det", {{2, 3, 3}}});
  check({"CumProd", {{3, 4}}, {}, {integers({0})}, -1.5, 1.5, 26});
  check({"CumProd",
         {{3, 4}},
         {{"exclusive", std::int64_t(1)}, {"reverse", std::int64_t(1)}},
         {integers({1})},
         -1.5,
         1.5,
         26});
  check({"DFT", {{2, 5, 1}}, {}, {}, -1.5, 1.5, 20});
  check({"DFT", {{1, 4, 3, 2}}, {{"inverse", std::int64_t(1)}}, {Tensor(), integers({1})}, -1.5, 1.5, 20});
  check({"DFT", {{1, 6, 1}}, {{"onesided", std::int64_t(1)}}, {}, -1.5, 1.5, 20});
  check({"DFT", {{1, 5, 2}}, {{"onesided", std::int64_t(1)}}, {integers({7})}, -1.5, 1.5, 20});
  check({"DFT", {{1, 5, 2}}, {}, {integers({3})}, -1.5, 1.5, 20});
  const Attributes to_real{{"inverse", std::int64_t(1)}, {"onesided", std::int64_t(1)}};
  check({"DFT", {{2, 4, 2}}, to_real, {}, -1.5, 1.5, 20});
  check({"DFT", {{2, 4, 2}}, to_real, {integers({7})}, -1.5, 1.5, 20});
  check({"STFT", {{1, 9, 1}}, {}, {integers({2}), numbers({4}, {0.5, 1, 1, 0.3})}, -1.5, 1.5, 17});
  check({"Einsum", {{2, 3, 4}, {4, 5}}, {{"equation", std::string("...j,jk->...k")}}});
  check({"Einsum", {{3, 3}}, {{"equation", std::string("ii->i")}}});
  check({"Einsum", {{3, 4}, {4, 2}}, {{"equation", std::string("ij,jk")}}});
  check({"Einsum", {{3, 2, 3}, {3}}, {{"equation", std::string("iji,i->")}}});
  check({"Einsum", {{1, 4}, {3, 4}}, {{"equation", std::string("...j,...j->...")}}});
}

GRADIENTS(Attention) {
  for (std::int64_t causal : {0, 1}) {
    const Attributes how{{"is_causal", causal}, {"softcap", causal ? 2.0 : 0.0}};
    check({"Attention", {{1, 4, 3, 2}, {1, 2, 5, 2}, {1, 2, 5, 3}, {3, 5}}, how, {}, -1.5, 1.5, 24});
    check({"Attention",
           {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}},
           {{"q_num_heads", std::int64_t(2)}, {"kv_num_heads", std::int64_t(2)}, {"is_causal", causal}},
           {},
           -1.5,
           1.5,
           24});
  }
  // The first query sees no key.
  check({"Attention",
         {{1, 1, 2, 2}, {1, 1, 3, 2}, {1, 1, 3, 2}},
         {},
         {truths({2, 3}, {0, 0, 0, 1, 0, 1})},
         -1.5,
         1.5,
         24});
  for (std::int64_t interleaved : {0, 1})
    check({"RotaryEmbedding",
           {{1, 2, 3, 4}, {1, 3, 1}, {1, 3, 1}},
           {{"interleaved", interleaved}, {"rotary_embedding_dim", std::int64_t(2)}},
           {},
           -1.5,
           1.5,
           23});
  check({"CausalConvWithState",
         {{1, 2, 5}, {2, 1, 3}, {2}, {1, 2, 2}},
         {{"activation", std::string("silu")}},
         {},
         -1.5,
         1.5,
         26,
         2});
  for (const char* rule : {"linear", "gated", "delta", "gated_delta"}) {
    std::vector<Shape> inputs{{1, 3, 4}, {1, 3, 4}, {1, 3, 6}, {1, 2, 2, 3}};
    const std::string name = rule;
    std::string layout = "xxxx";
    if (name.starts_with("gated")) inputs.push_back({1, 3, 4}), layout += 'x';
    if (name == "delta") layout += 'c';
    if (name.ends_with("delta")) inputs.push_back({1, 3, 2}), layout += 'x';
    const Attributes how{{"update_rule", name}, {"q_num_heads", std::int64_t(2)}, {"kv_num_heads", std::int64_t(2)}};
    check({"LinearAttention", inputs, how, {Tensor()}, -0.8, 0.8, 26, 2, layout});
  }
}

// One net: the operators inside of its composition change with the shapes.
TEST(OnnxGradient, CompositionsOfOtherShapes) {
  HandMade m;
  m.node(m.made.graph, "CumProd", {m.input({-1, 2}), m.constant(integers({0}))}, {m.output()});
  Net net{Context(device())};
  net.load_model(m);
  for (const std::int64_t size : {3, 5, 2, 5}) {
    net.reshape_input(0, {size, 2});
    write_values(net, net.input(0), distinct_values(std::size_t(2 * size), unsigned(size), 0.5, 1.5));
    expect_finite_differences(net);
  }
}

// One net: the same operators inside, of another dimension.
TEST(OnnxGradient, CompositionsOfOtherRanks) {
  HandMade m;
  const int scale = m.input({}), x = m.input({});
  for (ValueInfo& info : m.made.inputs) info.ranked = false;
  m.made.inputs[1].dtype = DataType::int8;
  const Attributes how{{"axis", std::int64_t(-1)}, {"block_size", std::int64_t(2)}};
  m.node(m.made.graph, "DequantizeLinear", {x, scale}, {m.output()}, how, 21);
  Net net{Context(device())};
  net.load_model(m);
  const std::int8_t elements[] = {3, -4, 5, 7, -1, 2, 9, 6};
  for (const Shape& shape : {Shape{2, 4}, Shape{2, 2, 2}, Shape{2, 4}}) {
    net.set_input(1, Tensor::from_host(DataType::int8, shape, elements));
    Shape blocks = shape;
    blocks[shape.size() - 1] /= 2;
    net.reshape_input(0, blocks);
    write_values(net, net.input(0), distinct_values(std::size_t(blocks.total_size()), 1, 0.5, 1.5));
    expect_finite_differences(net);
  }
}

// One net: gradients of one output of a composition, and then of both.
TEST(OnnxGradient, CompositionsOfOtherOutputs) {
  const HandMade m =
      one_operator({"CausalConvWithState", {{1, 2, 5}, {2, 1, 3}, {2}, {1, 2, 2}}, {}, {}, -1, 1, 26, 2});
  Net net{Context(device())};
  net.load_model(m);
  net.mode(CalculationsMode::train);
  for (int i = 0; i < net.inputs(); i++) {
    net.want_gradient(net.input_info(i).name);
    write_values(net, net.input(i), distinct_values(std::size_t(net.input(i).numel()), unsigned(i), -1, 1));
  }
  const ExecutionContext ec = net.context().make_execution_context();
  net.forward(ec);
  Tensor& last = net.output_diff("y1");
  write_values(net, last, std::vector<double>(std::size_t(last.numel()), 1));
  net.backward(ec);
  EXPECT_FALSE(net.tensor_diff("x1").defined());  // the weights
  EXPECT_EQ(read_values(net, net.tensor_diff("x0")), (std::vector<double>{0, 0, 0, 1, 1, 0, 0, 0, 1, 1}));
  expect_finite_differences(net);
}

// Graphs that read a value of the graph around them.
GRADIENTS(ControlFlow) {
  if (other_use()) {
    for (const char* type : {"If", "Loop", "Scan"}) other_use()({type, {}});
    return;
  }
  for (bool condition : {true, false}) {
    HandMade m;
    const int x = m.input({2, 3}), y = m.input({3});
    auto yes = std::make_shared<Graph>(), no = std::make_shared<Graph>();
    yes->outputs = {m.node(*yes, "Mul", {x, y})};
    no->outputs = {m.node(*no, "Sin", {m.node(*no, "Add", {x, x})})};
    m.node(m.made.graph, "If", {m.constant(truths({}, {condition}))}, {m.output()},
           {{"then_branch", yes}, {"else_branch", no}});
    check(m);
  }
  {  // state = sin(state * w) + trip, collected; a second value is carried through
    HandMade m;
    const int x = m.input({2, 3}), w = m.input({3});
    auto body = std::make_shared<Graph>();
    body->inputs = {m.fresh("i"), m.fresh("go"), m.fresh("state"), m.fresh("same")};
    const int product = m.node(*body, "Sin", {m.node(*body, "Mul", {body->inputs[2], w})});
    const int next = m.node(*body, "Add", {product, m.node(*body, "CastLike", {body->inputs[0], x})});
    body->outputs = {body->inputs[1], next, body->inputs[3], m.node(*body, "Mul", {product, body->inputs[3]})};
    const std::vector<int> outputs{m.output(), m.output(), m.output()};
    m.node(m.made.graph, "Loop", {m.constant(integers(Shape(), {3})), -1, x, w}, outputs, {{"body", body}});
    check(m);
  }
  for (std::int64_t reverse : {0, 1}) {
    HandMade m;
    const int start = m.input({2}), x = m.input({2, 4}), w = m.input({2});
    auto body = std::make_shared<Graph>();
    body->inputs = {m.fresh("state"), m.fresh("element")};
    const int next = m.node(*body, "Mul", {m.node(*body, "Add", {body->inputs[0], body->inputs[1]}), w});
    body->outputs = {next, m.node(*body, "Tanh", {next})};
    const std::vector<int> outputs{m.output(), m.output()};
    const Attributes how{{"body", body},
                         {"num_scan_inputs", std::int64_t(1)},
                         {"scan_input_axes", Integers{1}},
                         {"scan_input_directions", Integers{reverse}},
                         {"scan_output_axes", Integers{-1}},
                         {"scan_output_directions", Integers{1 - reverse}}};
    m.node(m.made.graph, "Scan", {start, x}, outputs, how);
    check(m);
  }
}

// What has no gradient here, and why.
const std::map<std::string, std::string> without = {
    {"Optional", "gives what is no tensor"},    {"OptionalGetElement", "takes what is no tensor"},
    {"SequenceAt", "takes a sequence"},         {"SequenceConstruct", "gives a sequence"},
    {"SequenceErase", "gives a sequence"},      {"SequenceInsert", "gives a sequence"},
    {"SequenceMap", "gives sequences"},         {"SplitToSequence", "gives a sequence"},
    {"ConcatFromSequence", "takes a sequence"},
};

// Every operator of ONNX has a gradient with a case here, or one of 0, or a reason.
TEST(OnnxGradient, EveryOperatorIsCovered) {
  std::set<std::string> noted;
  use_all_cases([&](const Case& c) { noted.insert(c.type); });
  for (const auto& [key, implementation] : Registry::get().all()) {
    if (!key.first.empty()) continue;
    Node node;
    node.type = key.second, node.implementation = &implementation;
    const Gradient* gradient = GradientRegistry::get().find(node);
    EXPECT_NE(gradient != nullptr, without.contains(node.type)) << node.type;
    EXPECT_TRUE(!gradient || !gradient->function || noted.contains(node.type)) << node.type << " has no case";
  }
}

void forward_or_refuse(const Case& c) {
  SCOPED_TRACE(c.type);
  try {
    Net net{Context(device())};
    net.load_model(one_operator(c));
    for (int i = 0; i < net.inputs(); i++) net.input(i);
    net.forward(net.context().make_execution_context());
  } catch (const Error&) {}
  try {
    queue().finish();
  } catch (const IndexError&) {}  // which a kernel found
}

// Whatever numbers attributes are, an operator gives a result or one of our errors.
TEST(Hostile, NumbersOfAttributes) {
  use_all_cases([](const Case& c) {
    const Operator* implementation = Registry::get().find("", c.type);
    std::set<std::string> names;
    std::istringstream words(implementation->attributes);
    for (std::string word; words >> word;)
      if (word.find('=') == std::string::npos) names.insert(word);
    if (c.inputs.empty()) return;
    for (const std::string& name : names)
      for (const std::int64_t number : {INT64_MIN, std::int64_t(-1), std::int64_t(0), INT64_MAX - 1, INT64_MAX}) {
        Case other = c;
        const auto given = c.attributes.find(name);
        const auto* list = given == c.attributes.end() ? nullptr : std::get_if<Integers>(&given->second);
        if (list) other.attributes[name] = Integers(list->size(), number);
        else other.attributes[name] = number;
        forward_or_refuse(other);
      }
  });
}

TEST(Hostile, RotatedElementsBelowNone) {
  Net net{Context(device())};
  net.load_model(one_operator({"RotaryEmbedding",
                               {{1, 2, 3, 4}, {1, 3, 1}, {1, 3, 1}},
                               {{"rotary_embedding_dim", std::int64_t(-2)}},
                               {},
                               -1,
                               1,
                               23}));
  for (int i = 0; i < net.inputs(); i++) net.input(i);
  try {
    net.forward(net.context().make_execution_context());
    FAIL() << "it ran";
  } catch (const ValidationError& error) {
    EXPECT_NE(std::string(error.what()).find("an even rotary_embedding_dim"), std::string::npos) << error.what();
  }
}

TEST(OnnxGradient, WhatHasNoneIsListed) {
  HandMade m;
  const int x = m.input({3});
  m.node(m.made.graph, "ConcatFromSequence", {m.node(m.made.graph, "SequenceConstruct", {x, x})}, {m.output()},
         {{"axis", std::int64_t(0)}});
  Net net{Context(device())};
  net.load_model(m);
  net.mode(CalculationsMode::train);
  net.want_gradient("x0");
  const ExecutionContext ec = net.context().make_execution_context();
  net.forward(ec);
  net.output_diff("y0");
  try {
    net.backward(ec);
    FAIL() << "it ran";
  } catch (const NotImplementedError& error) {
    EXPECT_NE(std::string(error.what()).find("ConcatFromSequence"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dlprim::testing
