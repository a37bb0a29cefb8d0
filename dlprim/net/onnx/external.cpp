// SPDX-License-Identifier: MIT
#include "external.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <charconv>

#include "../../runtime/system.hpp"

namespace dlprim {

namespace {

std::uint64_t number(const std::string& text, const std::string& what) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw ValidationError("[onnx] expected a number for " + what + ", got '" + text + "'");
  return value;
}

bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [end, other] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && other != path.end();
}

}  // namespace

// Links are followed here, where it shows whether they leave the folder; opening the file follows none.
std::filesystem::path ExternalData::find(const onnx_format::Tensor& t, const std::string& location) const {
  const std::filesystem::path named(location);
  const bool textual = !location.empty() && location.find('\0') == std::string::npos && named.is_relative();
  std::error_code error;
  const auto folder = std::filesystem::canonical(folder_.empty() ? std::filesystem::path(".") : folder_, error);
  const auto path = textual ? std::filesystem::canonical(folder / named, error) : std::filesystem::path();
  if (!textual || (!error && !is_inside(path, folder)))
    throw ValidationError("[onnx] tensor '" + t.name() + "' names '" + location.substr(0, 200) +
                          "', which is no file beside the model");
  if (error)
    throw ValidationError("[onnx] tensor '" + t.name() + "': cannot read '" + location.substr(0, 200) +
                          "': " + error.message());
  return path;
}

std::vector<std::byte> ExternalData::read(const onnx_format::Tensor& t, std::size_t bytes) {
  std::string location;
  std::uint64_t offset = 0, length = bytes;
  for (const auto& pair : t.external_data()) {
    if (pair.key() == "location") location = pair.value();
    if (pair.key() == "offset") offset = number(pair.value(), "offset");
    if (pair.key() == "length") length = number(pair.value(), "length");
  }
  const auto path = find(t, location);
  const RegularFile file(path);
  if (length != bytes || offset > file.size() || length > file.size() - offset)
    throw ValidationError("[onnx] tensor '" + t.name() + "' expected " + std::to_string(bytes) + " bytes at " +
                          std::to_string(offset) + " of " + location + ", which has " + std::to_string(file.size()));
  std::uint64_t& unread = unread_.try_emplace(path, file.size()).first->second;
  if (bytes > unread) budget_.spend(bytes - unread, "[onnx] tensor '" + t.name() + "'");
  unread -= std::min<std::uint64_t>(unread, bytes);
  std::vector<std::byte> data(bytes);
  file.read(offset, data);
  return data;
}

}  // namespace dlprim
