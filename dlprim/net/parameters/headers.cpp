// SPDX-License-Identifier: MIT
// The JSON headers of DLP and safetensors files.
#include <dlprim/error.hpp>

#include <istream>

#include "../json/fields.hpp"
#include "format.hpp"

namespace dlprim {

namespace {

constexpr std::uint64_t largest_header = std::uint64_t(64) << 20;

// A header of the length that `bytes` bytes give.
std::string read_header(std::istream& file, std::uint64_t file_size, std::size_t bytes, bool big_endian) {
  unsigned char digits[8] = {};
  file.read(reinterpret_cast<char*>(digits), std::streamsize(bytes));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < bytes; i++) length = length << 8 | digits[big_endian ? i : bytes - 1 - i];
  const std::uint64_t at = std::uint64_t(file.tellg());
  if (!file || length > largest_header || at + length > file_size)
    throw ValidationError(
        "[parameters] expected a file of DLP, HDF5 or safetensors; this one has no valid header or is cut off");
  std::string header(std::size_t(length), '\0');
  if (!file.read(header.data(), std::streamsize(length)))
    throw ValidationError("[parameters] the header cannot be read");
  return header;
}

constexpr std::pair<const char*, DataType> safetensors_types[] = {
    {"F64", DataType::float64}, {"F32", DataType::float32}, {"F16", DataType::float16}, {"BF16", DataType::bfloat16},
    {"I64", DataType::int64},   {"I32", DataType::int32},   {"I16", DataType::int16},   {"I8", DataType::int8},
    {"U64", DataType::uint64},  {"U32", DataType::uint32},  {"U16", DataType::uint16},  {"U8", DataType::uint8},
    {"BOOL", DataType::boolean}};

std::string digits(std::uint64_t value, std::size_t bytes, bool big_endian) {
  std::string result(bytes, '\0');
  for (std::size_t i = 0; i < bytes; i++) result[big_endian ? bytes - 1 - i : i] = char(value >> (8 * i) & 255);
  return result;
}

}  // namespace

StoredIndex read_dlp_index(std::istream& file, std::uint64_t size) {
  file.seekg(4);
  const std::string header = read_header(file, size, 4, true);
  StoredIndex index;
  index.data = std::uint64_t(8) + header.size();
  const Json json = parse_json(header, "parameters");
  Fields top(json, "parameters");
  const Json& tensors = top.at("tensors");
  if (!tensors.is_object()) top.fail("expected an object for 'tensors'");
  for (const auto& member : tensors.items()) {
    Fields fields(member.value(), "parameters '" + member.key() + "'");
    const std::int64_t start = fields.integer("start", {}, 0), bytes = fields.integer("size", {}, 0);
    index.tensors.push_back({member.key(), fields.dtype("dtype"), Shape(fields.integers("shape")), std::uint64_t(start),
                             std::uint64_t(start) + std::uint64_t(bytes)});
  }
  return index;
}

StoredIndex read_safetensors_index(std::istream& file, std::uint64_t size) {
  const std::string header = read_header(file, size, 8, false);
  StoredIndex index;
  index.data = std::uint64_t(8) + header.size();
  const Json json = parse_json(header, "parameters");
  if (!json.is_object()) throw ValidationError("[parameters] expected an object as header");
  for (const auto& member : json.items()) {
    if (member.key() == "__metadata__") continue;
    Fields fields(member.value(), "parameters '" + member.key() + "'");
    const std::string type = fields.text("dtype");
    const auto* row = std::find_if(std::begin(safetensors_types), std::end(safetensors_types),
                                   [&](const auto& entry) { return type == entry.first; });
    if (row == std::end(safetensors_types)) fields.fail("elements of type " + type + " are not supported");
    const std::vector<std::int64_t> place = fields.integers("data_offsets");
    if (place.size() != 2 || place[0] < 0 || place[1] < place[0]) fields.fail("expected two offsets, the end last");
    index.tensors.push_back(
        {member.key(), row->second, Shape(fields.integers("shape")), std::uint64_t(place[0]), std::uint64_t(place[1])});
  }
  return index;
}

std::string dlp_header(const NamedTensors& tensors) {
  Json json = {{"tensors", Json::object()}};
  std::uint64_t start = 0;
  for (const auto& [name, tensor] : tensors) {
    const char* type = tensor.dtype() == DataType::float32 ? "float" : dlprim::name(tensor.dtype());
    json["tensors"][name] = {
        {"dtype", type}, {"shape", tensor.shape().sizes()}, {"size", tensor.bytes()}, {"start", start}};
    start += tensor.bytes();
  }
  const std::string header = json.dump();
  return "DLPW" + digits(header.size(), 4, true) + header;
}

std::string safetensors_header(const NamedTensors& tensors) {
  Json json = Json::object();
  std::uint64_t start = 0;
  for (const auto& [name, tensor] : tensors) {
    const char* type = nullptr;
    for (const auto& [tag, dtype] : safetensors_types)
      if (dtype == tensor.dtype()) type = tag;
    if (!type)
      throw ValidationError("[parameters] '" + name + "': safetensors have no " + dlprim::name(tensor.dtype()));
    json[name] = {
        {"dtype", type}, {"shape", tensor.shape().sizes()}, {"data_offsets", {start, start + tensor.bytes()}}};
    start += tensor.bytes();
  }
  std::string header = json.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return digits(header.size(), 8, false) + header;
}

}  // namespace dlprim
