// SPDX-License-Identifier: MIT
// Small models that ask for too much: each is refused before it takes memory or time, and says why.
#include <filesystem>
#include <fstream>

#include "models.hpp"

#ifndef _WIN32
#include <sys/stat.h>
#endif

namespace dlprim::testing {
namespace {

constexpr std::int64_t huge = std::int64_t(1) << 62;

void expect_refused(const ModelBuilder& builder) {
  Net net{Context(device())};
  EXPECT_THROW(
      {
        net.load_model(builder.model());
        for (int i = 0; i < net.inputs(); i++) net.input(i);
        net.forward(net.context().make_execution_context());
      },
      Error);
}

// A model whose node reads x [1, 4, 4, 4] and lists of integers.
void expect_refused(const char* type, const std::vector<std::vector<std::int64_t>>& lists,
                    const std::vector<std::pair<const char*, std::int64_t>>& attributes = {}, std::int64_t opset = 18) {
  ModelBuilder builder(opset);
  builder.input("x", {1, 4, 4, 4}).output("y", {-1});
  std::vector<std::string> inputs{"x"};
  for (const auto& list : lists) {
    inputs.push_back("list" + std::to_string(inputs.size()));
    builder.integers(inputs.back(), list);
  }
  auto* node = builder.node(type, inputs, {"y"});
  for (const auto& [name, value] : attributes) attribute(node, name, value);
  SCOPED_TRACE(type);
  expect_refused(builder);
}

TEST(Hostile, NumbersThatOverflow) {
  expect_refused("DepthToSpace", {}, {{"blocksize", std::int64_t(1) << 33}});
  expect_refused("DepthToSpace", {}, {{"blocksize", std::int64_t(1) << 32}});
  expect_refused("Tile", {{1, 1, huge, 8}});
  expect_refused("Reshape", {{huge, huge, huge}});
  expect_refused("Pad", {{huge, huge, 0, 0, huge, huge, 0, 0}});
  expect_refused("Split", {{INT64_MAX, INT64_MAX}});
  expect_refused("Expand", {{huge, huge, 4, 4, 4}});
  expect_refused("CenterCropPad", {{1, INT64_MIN, 4, 4}});
  expect_refused("Col2Im", {{huge, huge}, {huge, huge}});
}

TEST(Hostile, MelWeightsOfOverflowingSizes) {
  for (const auto& [mels, length] : {std::pair(std::int64_t(8), huge), {std::int64_t(1) << 40, std::int64_t(16)}}) {
    ModelBuilder builder;
    builder.output("w", {-1, -1}).integers("mels", {mels}).integers("length", {length}).integers("rate", {huge / 1000});
    builder.constant("low", {}, {0}).constant("high", {}, {1000});
    builder.node("MelWeightMatrix", {"mels", "length", "rate", "low", "high"}, {"w"});
    expect_refused(builder);
  }
}

TEST(Hostile, ResizeBeyondTheHostsMemory) {
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (float scale : {2147483648.f, 9e5f, std::numeric_limits<float>::infinity()}) {
      ModelBuilder builder;
      builder.input("x", {1, 1, 400, 400}).output("y", {1, 1, -1, -1}).constant("scales", {4}, {1, 1, 1, scale});
      attribute(builder.node("Resize", {"x", "", "scales"}, {"y"}), "mode", std::string(mode));
      expect_refused(builder);
    }
}

// Bias for 4 gates of 5 are 40 numbers.
TEST(Hostile, ViewsStayWithinTheirMemory) {
  ModelBuilder builder;
  builder.input("x", {3, 2, 4}).output("y", {-1});
  builder.constant("w", {1, 20, 4}, std::vector<float>(80)).constant("r", {1, 20, 5}, std::vector<float>(100));
  builder.constant("b", {1, 4}, std::vector<float>(4));
  attribute(builder.node("LSTM", {"x", "w", "r", "b"}, {"y"}), "hidden_size", 5);
  expect_refused(builder);
}

TEST(Hostile, FunctionsThatDouble) {
  ModelBuilder builder;
  builder.input("x", {2}).output("y", {2});
  builder.node("f0", {"x"}, {"y"})->set_domain("own");
  onnx_format::Model model;
  model.ParseFromString(builder.bytes());
  for (int i = 0; i < 40; i++) {
    auto* f = model.add_functions();
    f->set_name("f" + std::to_string(i)), f->set_domain("own"), f->add_input("a"), f->add_output("c");
    for (const auto& [from, to] : {std::pair("a", "b"), std::pair("b", "c")}) {
      auto* node = f->add_node();
      node->set_op_type(i < 39 ? "f" + std::to_string(i + 1) : "Relu"), node->set_domain(i < 39 ? "own" : "");
      node->add_input(from), node->add_output(to);
    }
  }
  const std::string data = model.SerializeAsString();
  ONNXModel loaded;
  EXPECT_THROW(loaded.load_bytes(std::as_bytes(std::span(data))), ValidationError);
}

TEST(Hostile, SparseTensorsThatPromiseGigabytes) {
  ModelBuilder builder;
  builder.output("w", {-1});
  auto* sparse = builder.graph()->add_sparse_initializer();
  auto* values = sparse->mutable_values();
  values->set_name("w"), values->set_data_type(1), values->add_dims(1), values->add_float_data(1);
  sparse->mutable_indices()->set_data_type(7), sparse->mutable_indices()->add_dims(1);
  sparse->mutable_indices()->add_int64_data(0);
  sparse->add_dims(std::int64_t(1) << 29);
  EXPECT_THROW(builder.model(), ValidationError);
  sparse->set_dims(0, 100);
  EXPECT_NO_THROW(builder.model());
}

// A model beside which lies `location`: 4 bytes of it are read.
bool reads(const std::filesystem::path& folder, const std::string& location, std::int64_t elements = 1) {
  ModelBuilder builder;
  builder.output("w", {1}).constant("w", {elements}, {1});
  auto* tensor = builder.graph()->mutable_initializer(0);
  tensor->clear_raw_data(), tensor->set_data_location(1);
  auto* entry = tensor->add_external_data();
  entry->set_key("location"), entry->set_value(location);
  std::ofstream(folder / "model.onnx", std::ios::binary) << builder.bytes();
  ONNXModel model;
  try {
    model.load((folder / "model.onnx").string());
    return true;
  } catch (const ValidationError&) {
    return false;
  }
}

TEST(Hostile, ExternalDataOfOtherFolders) {
  namespace fs = std::filesystem;
  const fs::path top = fs::temp_directory_path() / ("dlprim_hostile_" + std::to_string(std::random_device()()));
  fs::create_directories(top / "model" / "sub");
  std::ofstream(top / "secret") << "12345678", std::ofstream(top / "model" / "sub" / "data") << "12345678";
  const fs::path folder = top / "model";
  EXPECT_TRUE(reads(folder, "sub/data"));
  EXPECT_TRUE(reads(folder, "sub/../sub/data"));
  EXPECT_FALSE(reads(folder, "../secret"));
  EXPECT_FALSE(reads(folder, (top / "secret").string()));
  EXPECT_FALSE(reads(folder, "sub", std::int64_t(1) << 33));
  EXPECT_FALSE(reads(folder, "sub/data", 3));
  EXPECT_FALSE(reads(folder, std::string("sub/data\0x", 10)));
  std::error_code none;
  fs::create_symlink("sub/data", folder / "inside", none);
  if (!none) {
    fs::create_symlink(top / "secret", folder / "outside"), fs::create_directory_symlink(top, folder / "up");
    EXPECT_TRUE(reads(folder, "inside"));
    EXPECT_FALSE(reads(folder, "outside"));
    EXPECT_FALSE(reads(folder, "up/secret"));
  }
#ifndef _WIN32
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(reads(folder, "pipe"));
  ONNXModel model;
  EXPECT_THROW(model.load((folder / "pipe").string()), ValidationError);
#endif
  fs::remove_all(top);
}

}  // namespace
}  // namespace dlprim::testing
