// SPDX-License-Identifier: MIT
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <sys/stat.h>
#include <unistd.h>

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

// Operators whose sizes are numbers of the file, with one input of the network beside them.
ModelBuilder signals() {
  ModelBuilder m;
  m.input("x", {1, 16, 1}).integers("mels", {4}).integers("length", {16}).integers("rate", {8000});
  m.integers("step", {4});
  m.constant("low", {}, {100}).constant("high", {}, {3000});
  m.node("MelWeightMatrix", {"mels", "length", "rate", "low", "high"}, {"w"});
  attribute(m.node("STFT", {"x", "step", "", "eight"}, {"f"}), "onesided", 1);
  m.integers("eight", {8});
  attribute(m.node("DFT", {"x", "length"}, {"d"}), "inverse", 0);
  m.node("HannWindow", {"length"}, {"h"}), m.node("ReduceSum", {"f"}, {"s"});
  m.node("ReduceSum", {"d"}, {"t"}), m.node("Add", {"s", "t"}, {"u"});
  attribute(m.node("CenterCropPad", {"h", "length"}, {"c"}), "axes", std::vector<std::int64_t>{0});
  m.node("Add", {"c", "u"}, {"y"});
  return m.output("y", {16}).output("w", {9, 4});
}

ModelBuilder windows() {
  ModelBuilder m(18);
  m.input("x", {1, 4, 6, 6}).integers("image", {6, 6}).integers("block", {2, 2}).integers("flat", {1, 4, 36});
  auto* pool = m.node("AveragePool", {"x"}, {"a"});
  attribute(pool, "kernel_shape", std::vector<std::int64_t>{2, 2}),
      attribute(pool, "dilations", std::vector<std::int64_t>{2, 2}),
      attribute(pool, "pads", std::vector<std::int64_t>{1, 1, 1, 1});
  auto* largest = m.node("MaxPool", {"x"}, {"b", "i"});
  attribute(largest, "kernel_shape", std::vector<std::int64_t>{2, 2}),
      attribute(largest, "strides", std::vector<std::int64_t>{2, 2}), attribute(largest, "storage_order", 1);
  auto* unpool = m.node("MaxUnpool", {"b", "i"}, {"c"});
  attribute(unpool, "kernel_shape", std::vector<std::int64_t>{2, 2}),
      attribute(unpool, "strides", std::vector<std::int64_t>{2, 2});
  m.node("Reshape", {"x", "flat"}, {"columns"});
  attribute(m.node("Col2Im", {"columns", "image", "block"}, {"e"}), "strides", std::vector<std::int64_t>{1, 1});
  attribute(m.node("LRN", {"c"}, {"g"}), "size", 3);
  attribute(m.node("GroupNormalization", {"g", "scale", "scale"}, {"n"}), "num_groups", 2);
  m.constant("scale", {2}, {1, 2});
  return m.output("a", {1, 4, 6, 6}).output("n", {1, 4, 6, 6}).output("e", {1, 1, 6, 6});
}

ModelBuilder pieces() {
  ModelBuilder m(18);
  m.input("x", {2, 6}).integers("depth", {4}).integers("pick", {0, 1, 1, 3}).integers("pair", {2, 2});
  m.integers("two", {2});
  m.constant("on_off", {2}, {0, 1}).constant("region", {4}, {0, 0, 1, 1}).integers("sizes", {2, 9});
  m.node("Reshape", {"pick", "pair"}, {"tuples"});
  attribute(m.node("GatherND", {"x", "tuples"}, {"a"}), "batch_dims", 0);
  attribute(m.node("OneHot", {"pick", "depth", "on_off"}, {"b"}), "axis", -1);
  attribute(m.node("EyeLike", {"x"}, {"c"}), "k", 1);
  auto* resize = m.node("Resize", {"x", "region", "", "sizes"}, {"d"});
  attribute(resize, "coordinate_transformation_mode", std::string("tf_crop_and_resize")),
      attribute(resize, "mode", std::string("cubic"));
  attribute(m.node("SplitToSequence", {"x", "two"}, {"parts"}), "axis", 1);
  attribute(m.node("ConcatFromSequence", {"parts"}, {"e"}), "axis", 1);
  attribute(m.node("Split", {"e"}, {"f", "g"}), "num_outputs", 2);
  auto* grams = m.node("TfIdfVectorizer", {"pick"}, {"t"});
  for (const auto& [name, values] : {std::pair{"pool_int64s", std::vector<std::int64_t>{0, 1, 1, 3}},
                                     {"ngram_counts", {0, 2}},
                                     {"ngram_indexes", {0, 1, 2}}})
    attribute(grams, name, values);
  attribute(grams, "mode", std::string("TF")), attribute(grams, "max_gram_length", 2);
  attribute(grams, "min_gram_length", 1), attribute(grams, "max_skip_count", 1);
  m.output("a", {2}).output("b", {4, 4}).output("c", {2, 6}).output("d", {2, 9});
  return m.output("g", {1, 6}).output("t", {3});
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

std::string parameters(const std::string& end) {
  const float weights[] = {1, 2, 3, 4, 5, 6};
  const std::string name = "seed" + std::to_string(getpid()) + "." + end;
  const std::string path = (std::filesystem::path(external_folder()) / name).string();
  write_parameters(path, {{"fc.0", Tensor::from_host(DataType::float32, {2, 3}, weights)},
                          {"fc.1", Tensor::from_host(DataType::float32, {2}, weights)}});
  const std::string contents = contents_of(path);
  std::filesystem::remove(path);
  return contents;
}

// The simplest of the formats with runs: 3 x 2 pixels of three bytes.
std::string tga() {
  std::string file("\0\0\x0a\0\0\0\0\0\0\0\0\0\x03\0\x02\0\x18\0", 18);
  return file + "\x85" + "abc";
}

}  // namespace

std::string external_folder() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "dlprim_fuzz";
  std::error_code exists;  // another process may make them at the same time
  fs::create_directories(folder / "folder", exists);
  if (!fs::exists(folder / "file")) std::ofstream(folder / "file", std::ios::binary) << std::string(1024, 'f');
  fs::create_symlink("file", folder / "link", exists), fs::create_symlink("/etc/passwd", folder / "away", exists);
#ifndef _WIN32
  mkfifo((folder / "pipe").c_str(), 0600);
#endif
  return folder.string();
}

std::vector<Seed> seeds(const std::string& corpus) {
  std::vector<Seed> list;
  const std::pair<const char*, ModelBuilder (*)()> models[] = {
      {"convolutions", convolutions}, {"shapes", shapes},       {"generated", generated}, {"matrices", matrices},
      {"resizing", resizing},         {"recurrent", recurrent}, {"loops", loops},         {"ranges", ranges},
      {"signals", signals},           {"windows", windows},     {"pieces", pieces}};
  for (const auto& [name, make] : models) list.push_back({name, Kind::onnx, make().bytes()});
  for (int i = 0; i < 2; i++) {
    list.push_back({"lenet", Kind::json, lenet});
    list.push_back({"layers", Kind::json, layers});
  }
  for (const char* end : {"dlp", "safetensors", "h5"}) list.push_back({end, Kind::parameters, parameters(end)});
  list.push_back({"image", Kind::image, "P6 3 2 255\n" + std::string(18, 'x')});
  list.push_back({"image", Kind::image, tga()});
  if (corpus.empty()) return list;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(corpus)) {
    const auto extension = entry.path().extension();
    if ((extension == ".onnx" || extension == ".json") && entry.file_size() < 100000) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    const Kind kind = path.extension() == ".json" ? Kind::json : Kind::onnx;
    list.push_back({path.string(), kind, contents_of(path)});
  }
  return list;
}

}  // namespace dlprim::fuzz
