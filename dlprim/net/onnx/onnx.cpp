// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/net/onnx.hpp>

#include <google/protobuf/io/coded_stream.h>

#include <filesystem>
#include <limits>

#include "../file.hpp"
#include "importer.hpp"

namespace dlprim {

namespace {
constexpr std::size_t largest = std::size_t(std::numeric_limits<int>::max());  // of protobuf
}

void ONNXModel::load(const std::string& path) {
  const std::string contents = read_file(path, largest);
  load_bytes(std::as_bytes(std::span(contents)), std::filesystem::path(path).parent_path().string());
}

void ONNXModel::load_bytes(std::span<const std::byte> bytes, const std::string& folder) {
  if (bytes.size() > largest)
    throw ValidationError("[onnx] files beyond 2 GiB must keep their weights in external data");
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()), int(bytes.size()));
  stream.SetTotalBytesLimit(int(largest));
  onnx_format::Model model;
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    throw ValidationError("[onnx] the data is no ONNX model");
  network_ = import_onnx(model, bytes.size(), folder);
}

void ONNXModel::set_dynamic_axis(const std::string& name, std::int64_t size) {
  for (ValueInfo& input : network_.inputs)
    for (int d = 0; d < input.shape.size(); d++)
      if (input.shape[d] < 0 && input.names[std::size_t(d)] == name) input.shape[d] = size;
}

void ONNXModel::set_batch(std::int64_t size) {
  for (ValueInfo& input : network_.inputs)
    if (input.shape.size() > 0 && input.shape[0] < 0) input.shape[0] = size;
}

}  // namespace dlprim
