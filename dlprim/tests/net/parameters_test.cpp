// SPDX-License-Identifier: MIT
#include <cstring>
#include <filesystem>
#include <fstream>

#include "finite_differences.hpp"

namespace dlprim::testing {
namespace {

std::string temporary(const char* end) {
  return (std::filesystem::temp_directory_path() /
          ("dlprim_parameters_test_" + std::to_string(std::random_device()()) + end))
      .string();
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

NamedTensors example() {
  const float weights[] = {1, 2, 3, 4, 5, 6}, bias[] = {-1, 0.5};
  return {{"fc.0", Tensor::from_host(DataType::float32, {2, 3}, weights)},
          {"fc.1", Tensor::from_host(DataType::float32, {2}, bias)}};
}

TEST(Parameters, EveryFormatGivesBackWhatWasWritten) {
  for (const char* end : {".dlp", ".h5", ".safetensors"}) {
    const std::string path = temporary(end);
    write_parameters(path, example());
    const NamedTensors back = read_parameters(path);
    ASSERT_EQ(back.size(), 2u) << end;
    for (const auto& [name, tensor] : example()) {
      EXPECT_EQ(back.at(name).shape(), tensor.shape()) << end;
      EXPECT_EQ(back.at(name).host(), tensor.host()) << end;
    }
    std::filesystem::remove(path);
  }
}

TEST(Parameters, DlpAsDescribed) {
  const std::string path = temporary(".dlp");
  const std::string header = R"({"tensors": {"w": {"dtype": "float", "shape": [2], "size": 8, "start": 4}}})";
  const float values[] = {9, 1.5, -2};
  std::string bytes = std::string("DLPW") + '\0' + '\0' + '\0' + char(header.size()) + header;
  bytes.append(reinterpret_cast<const char*>(values), sizeof values);
  write(path, bytes);
  const std::vector<std::byte> elements = read_parameters(path).at("w").host();
  float back[2];
  std::memcpy(back, elements.data(), sizeof back);
  EXPECT_EQ(back[0], 1.5f);
  EXPECT_EQ(back[1], -2.f);
  std::filesystem::remove(path);
}

// Every prefix and every flipped bit of a file either reads or says what is wrong.
TEST(Parameters, DamagedFilesAreErrors) {
  for (const char* end : {".dlp", ".h5", ".safetensors"}) {
    const std::string path = temporary(end);
    write_parameters(path, example());
    const std::string good = read(path);
    const std::size_t step = std::max<std::size_t>(1, good.size() / 300);
    for (std::size_t i = 0; i < good.size(); i += step) {
      for (const std::string& bad :
           {good.substr(0, i), good.substr(0, i) + char(good[i] ^ (1 << (i % 8))) + good.substr(i + 1)}) {
        write(path, bad);
        try {
          read_parameters(path);
        } catch (const ValidationError&) {}
      }
    }
    write(path, good.substr(0, good.size() / 2));
    EXPECT_THROW(read_parameters(path), ValidationError) << end;
    std::filesystem::remove(path);
  }
  EXPECT_THROW(read_parameters("/no/such/file"), ValidationError);
}

TEST(Parameters, SizesMustFitTheData) {
  const std::string path = temporary(".dlp");
  for (const char* tensor :
       {R"("shape": [1099511627776, 1099511627776], "size": 8, "start": 0)",
        R"("shape": [2], "size": 1099511627776, "start": 0)", R"("shape": [-2], "size": 8, "start": 0)",
        R"("shape": [3], "size": 8, "start": 0)", R"("shape": [2], "size": 8, "start": 9)"}) {
    const std::string header = std::string(R"({"tensors": {"w": {"dtype": "float", )") + tensor + "}}}";
    write(path, std::string("DLPW") + '\0' + '\0' + '\0' + char(header.size()) + header + std::string(8, '\0'));
    EXPECT_THROW(read_parameters(path), ValidationError) << tensor;
  }
  std::filesystem::remove(path);
}

TEST(Parameters, ANetTakesWhatFits) {
  Net net{Context(device())};
  net.load_from_json(R"({"inputs": [{"shape": [1, 3]}], "outputs": ["y"], "operators": [
    {"name": "fc", "type": "InnerProduct", "inputs": ["data"], "outputs": ["y"], "options": {"outputs": 2}}]})");
  net.load_parameters(example());
  const ExecutionContext ec = net.context().make_execution_context();
  net.input(0).to_device(ec, std::vector<float>{1, 1, 1});
  net.forward(ec);
  EXPECT_EQ(read_values(net, net.output(0)), (std::vector<double>{5, 15.5}));
  NamedTensors part = example();
  part.erase("fc.1");
  EXPECT_THROW(net.load_parameters(part), ValidationError);
  net.load_parameters(part, true);
  NamedTensors wrong = example();
  wrong["fc.1"] = wrong["fc.0"];
  EXPECT_THROW(net.load_parameters(wrong), ValidationError);

  // What is written to the device is what is saved and used.
  net.param("fc.1").to_device(ec, std::vector<float>{0, 0});
  net.forward(ec);
  EXPECT_EQ(read_values(net, net.output(0)), (std::vector<double>{6, 15}));
  EXPECT_EQ(net.parameters().at("fc.1").host(), std::vector<std::byte>(8));
}

}  // namespace
}  // namespace dlprim::testing
