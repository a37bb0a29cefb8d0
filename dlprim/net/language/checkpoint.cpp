// SPDX-License-Identifier: MIT
#include "checkpoint.hpp"

#include <dlprim/error.hpp>

#include <algorithm>

#include "../../runtime/system.hpp"

namespace dlprim {

namespace {

constexpr const char* single_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";
constexpr std::uint64_t largest_header = std::uint64_t(16) << 20, largest_index = std::uint64_t(64) << 20;
constexpr std::size_t most_files = 512;
constexpr std::size_t deepest = 16;  // nested lists and objects

constexpr std::pair<const char*, WeightType> types[] = {{"F32", WeightType::f32},
                                                        {"F16", WeightType::f16},
                                                        {"BF16", WeightType::bf16},
                                                        {"U8", WeightType::u8},
                                                        {"BOOL", WeightType::u8}};

std::string text_in(const RegularFile& file, std::uint64_t offset, std::uint64_t bytes) {
  std::string result(std::size_t(bytes), '\0');
  file.read(offset, std::as_writable_bytes(std::span(result)));
  return result;
}

[[noreturn]] void refuse(const std::string& name, const std::string& type) {
  throw NotImplementedError("[safetensors] '" + name + "': elements of type " + type +
                            " are not supported; expected F32, F16 or BF16");
}

WeightTensor tensor_of(const std::string& name, const Json& entry) {
  Fields fields(entry, "safetensors '" + name.substr(0, 200) + "'");
  const std::string type = fields.text("dtype");
  const auto* row = std::ranges::find(types, type, [](const auto& known) { return std::string(known.first); });
  if (row == std::end(types)) refuse(name, type);
  WeightTensor t;
  t.name = name, t.type = row->second, t.sizes = fields.integers("shape");
  if (t.sizes.empty()) t.sizes = {1};
  const std::vector<std::int64_t> place = fields.integers("data_offsets");
  if (place.size() != 2 || place[0] < 0 || place[1] < place[0]) fields.fail("expected two offsets, the end last");
  t.begin = std::uint64_t(place[0]), t.bytes = std::uint64_t(place[1] - place[0]);
  fields.finish();
  return t;
}

}  // namespace

ModelFolder::ModelFolder(const std::string& path) {
  std::error_code error;
  folder_ = std::filesystem::canonical(path, error);
  if (error) throw ValidationError("[checkpoint] cannot read '" + path + "': " + error.message());
  name_ = folder_.filename().string();
}

bool ModelFolder::has(const std::string& file) const {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(folder_ / file, error));
}

std::filesystem::path ModelFolder::locate(const std::string& file) const {
  const auto fail = [&](const std::string& why) {
    throw ValidationError("[checkpoint] '" + file.substr(0, 200) + "' in '" + folder_.string() + "' " + why);
  };
  if (file.empty() || file == "." || file == ".." || file.find_first_of(std::string_view("/\\:\0", 4)) != file.npos)
    fail("is no name of a file in the folder");
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(folder_ / file, error);
  if (error) fail("cannot be read: " + error.message());
  if (target.parent_path() != folder_) fail("is a link out of the folder, to '" + target.string() + "'");
  return target;
}

std::unique_ptr<RegularFile> ModelFolder::open(const std::string& file) const {
  return std::make_unique<RegularFile>(locate(file));
}

Json ModelFolder::json(const std::string& file, std::uint64_t largest) const {
  const std::unique_ptr<RegularFile> opened = open(file);
  if (opened->size() > largest)
    throw ValidationError("[checkpoint] '" + file + "' has " + std::to_string(opened->size()) +
                          " bytes, expected at most " + std::to_string(largest));
  Json result = parse_strict_json(text_in(*opened, 0, opened->size()), file, deepest);
  if (!result.is_object()) throw ValidationError("[" + file + "] expected an object");
  return result;
}

Checkpoint::Checkpoint(const ModelFolder& folder) : WeightFile("safetensors") {
  if (folder.has(single_file)) read_header(folder, single_file);
  else if (folder.has(index_file)) read_index(folder);
  else fail(std::string("the folder has neither '") + single_file + "' nor '" + index_file + "'");
}

void Checkpoint::arrange(const LanguageShape& shape) {
  std::vector<std::string> stored;
  std::vector<WeightTensor> parts;
  for (std::int64_t i = 0; i < shape.layers; i++)
    for (const Part& part : shape.names->parts) {
      const std::string layer = shape.names->layer + std::to_string(i) + ".";
      const WeightTensor *whole = find(layer + part.stored),
                         *scales = part.scales ? find(layer + part.scales) : nullptr;
      if (!whole) continue;
      stored.push_back(whole->name);
      if (!part.name) continue;
      parts.push_back(arranged(part, layer + part.name, *whole, scales, part.heads ? shape.head_width : 1));
      if (scales) stored.push_back(scales->name);
    }
  replace(stored, std::move(parts));
  for (const WeightTensor& t : tensors_)
    if (t.type == WeightType::u8) refuse(t.name, "U8");
}

void Checkpoint::read_index(const ModelFolder& folder) {
  const Json index = folder.json(index_file, largest_index);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) fail("the index has no 'weight_map'");
  std::vector<std::string> names;
  for (const Json& file : *map) {
    if (!file.is_string()) fail("expected names of files in 'weight_map'");
    names.push_back(file.get<std::string>());
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  if (names.size() > most_files)
    fail("the index lists " + std::to_string(names.size()) + " files, expected at most " + std::to_string(most_files));
  for (const std::string& name : names) read_header(folder, name);
  for (const auto& entry : map->items()) {
    const WeightTensor* t = find(entry.key());
    const auto& name = entry.value().get_ref<const std::string&>();
    if (!t || names[t->file] != name) fail("'" + name + "' lacks '" + entry.key() + "', which the index promises");
  }
  if (map->size() != tensors_.size())
    fail("the files have " + std::to_string(tensors_.size()) + " tensors, the index " + std::to_string(map->size()));
}

void Checkpoint::read_header(const ModelFolder& folder, const std::string& name) {
  try {
    files_.push_back(folder.open(name));
    const RegularFile& file = *files_.back();
    std::uint64_t length = 0;
    if (file.size() < 8) fail("this is no safetensors file");
    file.read(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > file.size() - 8 || length > largest_header)
      fail("a header of " + std::to_string(length) + " bytes in a file of " + std::to_string(file.size()) +
           "; expected at most " + std::to_string(largest_header));
    const Json header = parse_strict_json(text_in(file, 8, length), "safetensors", 4);
    if (!header.is_object()) fail("expected an object as header");
    std::uint64_t sum = 0;
    for (const auto& entry : header.items()) {
      if (entry.key() == "__metadata__") continue;
      const WeightTensor t = tensor_of(entry.key(), entry.value());
      add(t);
      if (tensors_.back().bytes != t.bytes)
        fail(t.text() + " has " + std::to_string(t.bytes) + " bytes, expected " +
             std::to_string(tensors_.back().bytes));
      sum += t.bytes;
    }
    place(8 + length);
    if (sum != file.size() - 8 - length)
      fail("the tensors have " + std::to_string(sum) + " of the " + std::to_string(file.size() - 8 - length) +
           " bytes behind the header");
  } catch (const ValidationError& problem) {
    throw ValidationError(problem.what() + std::string(", in '") + name.substr(0, 200) + "'");
  }
}

}  // namespace dlprim
