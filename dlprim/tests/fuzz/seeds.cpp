// SPDX-License-Identifier: MIT
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "../net/models.hpp"
#include "fuzz.hpp"

namespace dlprim::fuzz {

namespace {

using testing::attribute;
using testing::ModelBuilder;

ModelBuilder convolutions() {
  ModelBuilder m;
  m.input("x", {-1, 3, 12, 12})
      .constant("w", {4, 3, 3, 3}, std::vector<float>(108, 0.1f))
      .constant("b", {4}, {0, 1, 2, 3});
  auto* conv = m.node("Conv", {"x", "w", "b"}, {"c"});
  attribute(conv, "pads", std::vector<std::int64_t>{1, 1, 1, 1}),
      attribute(conv, "strides", std::vector<std::int64_t>{2, 2});
  for (const char* name : {"scale", "shift", "mean", "var"}) m.constant(name, {4}, {1, 1, 1, 1});
  m.node("BatchNormalization", {"c", "scale", "shift", "mean", "var"}, {"n"});
  m.node("Relu", {"n"}, {"r"});
  attribute(m.node("MaxPool", {"r"}, {"p"}), "kernel_shape", std::vector<std::int64_t>{2, 2});
  attribute(m.node("ConvTranspose", {"p", "t"}, {"u"}), "strides", std::vector<std::int64_t>{2, 2});
  m.constant("t", {4, 2, 2, 2}, std::vector<float>(32, 0.2f));
  m.node("GlobalAveragePool", {"u"}, {"g"});
  m.node("Flatten", {"g"}, {"y"});
  return m.output("y", {-1, 2});
}

ModelBuilder shapes() {
  ModelBuilder m;
  m.input("x", {2, 3, 4})
      .integers("shape", {3, -1})
      .integers("starts", {1})
      .integers("ends", {3})
      .integers("axes", {1});
  m.integers("repeats", {2, 1}).integers("target", {2, 6, 3}).integers("pads", {0, 1, 0, 1});
  m.node("Reshape", {"x", "shape"}, {"a"});
  m.node("Slice", {"a", "starts", "ends", "axes"}, {"b"});
  attribute(m.node("Transpose", {"b"}, {"c"}), "perm", std::vector<std::int64_t>{1, 0});
  m.node("Tile", {"c", "repeats"}, {"d"});
  m.node("Pad", {"d", "pads"}, {"e"});
  attribute(m.node("Concat", {"e", "e"}, {"f"}), "axis", 1);
  m.node("Shape", {"f"}, {"s"});
  m.node("ConstantOfShape", {"s"}, {"z"});
  m.node("Add", {"f", "z"}, {"y"});
  return m.output("y", {-1, -1});
}

ModelBuilder generated() {
  ModelBuilder m;
  m.input("x", {4, 5}).integers("k", {2}).integers("start", {0}).integers("two", {2, 4, 5}).integers("indices", {3, 0});
  m.node("Expand", {"x", "two"}, {"a"});
  attribute(m.node("Gather", {"a", "indices"}, {"b"}), "axis", 1);
  m.node("TopK", {"b", "k"}, {"v", "i"});
  attribute(m.node("Softmax", {"v"}, {"s"}), "axis", -1);
  attribute(m.node("ReduceMean", {"s"}, {"r"}), "axes", std::vector<std::int64_t>{1});
  attribute(m.node("Split", {"r"}, {"p", "q"}), "axis", 0);
  m.node("Mul", {"p", "q"}, {"y"});
  return m.output("y", {1, 1, 2});
}

ModelBuilder matrices() {
  ModelBuilder m;
  m.input("x", {2, 6}).constant("w", {6, 4}, std::vector<float>(24, 0.5f)).constant("b", {4}, {1, 2, 3, 4});
  m.node("Gemm", {"x", "w", "b"}, {"a"});
  m.node("MatMul", {"a", "v"}, {"c"});
  m.constant("v", {4, 3}, std::vector<float>(12, 0.25f));
  attribute(m.node("Einsum", {"c", "c"}, {"e"}), "equation", std::string("ij,kj->ik"));
  attribute(m.node("LayerNormalization", {"e", "g"}, {"y"}), "axis", -1);
  m.constant("g", {2}, {1, 1});
  return m.output("y", {2, 2});
}

ModelBuilder resizing() {
  ModelBuilder m;
  m.input("x", {1, 2, 4, 4}).constant("scales", {4}, {1, 1, 2, 2}).integers("steps", {0});
  attribute(m.node("Resize", {"x", "", "scales"}, {"a"}), "mode", std::string("linear"));
  attribute(m.node("SpaceToDepth", {"a"}, {"b"}), "blocksize", 4);
  attribute(m.node("DepthToSpace", {"b"}, {"c"}), "blocksize", 2);
  attribute(m.node("CumSum", {"c", "steps"}, {"y"}), "exclusive", 1);
  return m.output("y", {1, 8, 4, 4});
}

ModelBuilder recurrent() {
  ModelBuilder m;
  m.input("x", {3, 2, 4})
      .constant("w", {1, 20, 4}, std::vector<float>(80, 0.1f))
      .constant("r", {1, 20, 5}, std::vector<float>(100, 0.1f));
  attribute(m.node("LSTM", {"x", "w", "r"}, {"y", "h"}), "hidden_size", 5);
  return m.output("y", {3, 1, 2, 5}).output("h", {1, 2, 5});
}

ModelBuilder loops() {
  ModelBuilder m;
  m.input("x", {2}).integers("trips", {3});
  auto* loop = m.node("Loop", {"trips", "", "x"}, {"last", "all"});
  auto* body = loop->add_attribute();
  body->set_name("body"), body->set_type(5);
  ModelBuilder inner;
  inner.input("i", {}, 7).input("go", {}, 9).input("v", {2});
  inner.node("Identity", {"go"}, {"on"}), inner.node("Add", {"v", "v"}, {"sum"}),
      inner.node("Add", {"sum", "x"}, {"out"});
  inner.output("on", {}, 9).output("out", {2}).output("sum", {2});
  *body->mutable_g() = *inner.graph();
  return m.output("last", {2}).output("all", {3, 2});
}

ModelBuilder ranges() {
  ModelBuilder m;
  m.input("x", {5});
  for (const auto& [name, value] : {std::pair{"start", 0.f}, {"limit", 5.f}, {"delta", 1.f}})
    m.constant(name, {}, {value});
  m.node("Range", {"start", "limit", "delta"}, {"a"});
  m.node("Less", {"x", "a"}, {"c"}), m.node("Where", {"c", "x", "a"}, {"w"}), m.node("NonZero", {"c"}, {"n"});
  m.node("Clip", {"w", "start", "limit"}, {"y"});
  return m.output("y", {5}).output("n", {1, -1}, 7);
}

const char* const lenet = R"({
  // a network of every kind of layer
  "inputs": [{"name": "data", "shape": [4, 1, 12, 12]}, {"name": "label", "shape": [4], "dtype": "int"}],
  "outputs": ["prob", {"name": "loss", "loss_weight": 1.0}],
  "operators": [
    {"name": "conv1", "type": "Convolution2D", "inputs": ["data"], "outputs": ["c1"],
     "options": {"channels_out": 4, "kernel": 3, "pad": 1, "activation": "relu"}},
    {"name": "bn", "type": "BatchNorm", "inputs": ["c1"], "outputs": ["b1"]},
    {"name": "pool", "type": "Pooling2D", "inputs": ["b1"], "outputs": ["p1"],
     "options": {"mode": "max", "kernel": [2, 2], "stride": 2}},
    {"name": "branch", "type": "Convolution2D", "inputs": ["p1"], "outputs": ["d1"], "frozen": true,
     "options": {"channels_out": 4, "kernel": 1, "bias": false}, "params": ["shared"]},
    {"name": "sum", "type": "Elementwise", "inputs": ["p1", "d1"], "outputs": ["s1"],
     "options": {"operation": "sum", "coef1": 0.5}},
    {"name": "global", "type": "GlobalPooling", "inputs": ["s1"], "outputs": ["g1"], "options": {"mode": "avg"}},
    {"name": "fc", "type": "InnerProduct", "inputs": ["g1"], "outputs": ["f1"], "options": {"outputs": 10}},
    {"name": "prob", "type": "Softmax", "inputs": ["f1"], "outputs": ["prob"]},
    {"name": "loss", "type": "SoftmaxWithLoss", "inputs": ["f1", "label"], "outputs": ["loss"]}
  ]
})";

const char* const layers = R"({
  "inputs": [{"name": "data", "shape": [2, 4, 6, 6], "dtype": "float"}],
  "outputs": ["y"],
  "operators": [
    {"name": "up", "type": "TransposedConvolution2D", "inputs": ["data"], "outputs": ["u"],
     "options": {"channels_out": 3, "kernel": 2, "stride": 2}},
    {"name": "interp", "type": "Interpolation", "inputs": ["u"], "outputs": ["i"],
     "options": {"method": "bilinear", "scale_y": 0.5, "scale_x": 0.5}},
    {"name": "slice", "type": "Slice", "inputs": ["i"], "outputs": ["s"], "options": {"dim": 1, "begin": 1, "end": 3}},
    {"name": "cat", "type": "Concat", "inputs": ["s", "i"], "outputs": ["c"], "options": {"dim": 1}},
    {"name": "tanh", "type": "Hardtanh", "inputs": ["c"], "outputs": ["h"],
     "options": {"min_val": -2.0, "max_val": 2.0}},
    {"name": "red", "type": "Reduction", "inputs": ["h"], "outputs": ["r"],
     "options": {"method": "mean", "dims": [2, 3], "keep_dim": true}},
    {"name": "squeeze", "type": "Squeeze", "inputs": ["r"], "outputs": ["q"], "options": {"dims": [2, 3]}},
    {"name": "shape", "type": "Reshape", "inputs": ["q"], "outputs": ["y"], "options": {"dims": [0, -1]}}
  ]
})";

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<Seed> seeds(const std::string& corpus) {
  std::vector<Seed> list;
  const std::pair<const char*, ModelBuilder (*)()> models[] = {
      {"convolutions", convolutions}, {"shapes", shapes},       {"generated", generated}, {"matrices", matrices},
      {"resizing", resizing},         {"recurrent", recurrent}, {"loops", loops},         {"ranges", ranges}};
  for (const auto& [name, make] : models) list.push_back({name, false, make().bytes()});
  for (int i = 0; i < 2; i++) {
    list.push_back({"lenet", true, lenet});
    list.push_back({"layers", true, layers});
  }
  if (corpus.empty()) return list;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(corpus)) {
    const auto extension = entry.path().extension();
    if ((extension == ".onnx" || extension == ".json") && entry.file_size() < 100000) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) list.push_back({path.string(), path.extension() == ".json", contents_of(path)});
  return list;
}

}  // namespace dlprim::fuzz
