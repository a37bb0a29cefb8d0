// SPDX-License-Identifier: MIT
#include "source.hpp"

#include <dlprim/error.hpp>

#include "onnx_folder.hpp"

namespace dlprim {

LanguageSource::LanguageSource() = default;
LanguageSource::LanguageSource(LanguageSource&&) noexcept = default;
LanguageSource& LanguageSource::operator=(LanguageSource&&) noexcept = default;
LanguageSource::~LanguageSource() = default;

// A number, or a list of them; perhaps without a piece.
void read_ends(const Json& json, const std::string& where, LanguageSource& source) {
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null()) return;
  Fields fields(json, where);
  for (std::int64_t token :
       found->is_array() ? fields.integers("eos_token_id") : std::vector{fields.integer("eos_token_id")}) {
    if (token < 0 || token >= source.shape.vocabulary)
      fields.fail("'eos_token_id' is " + std::to_string(token) + ", in a vocabulary of " +
                  std::to_string(source.shape.vocabulary));
    source.vocabulary.ends.push_back(token);
  }
}

void read_generation_ends(const ModelFolder& folder, LanguageSource& source) {
  const char* name = "generation_config.json";
  if (folder.has(name)) read_ends(folder.json(name, largest_config), name, source);
}

namespace {

LanguageSource open_folder(const std::string& path) {
  const ModelFolder folder(path);
  if (has_onnx_network(folder)) return open_onnx_folder(folder);
  const Json config = folder.json("config.json", largest_config);
  LanguageSource source;
  source.name = folder.name();
  auto weights = std::make_unique<Checkpoint>(folder);
  source.shape = read_shape(config, *weights);
  weights->arrange(source.shape);
  source.weights = std::move(weights);
  source.vocabulary = read_vocabulary(folder.json("tokenizer.json", largest_vocabulary), source.shape.vocabulary);
  read_ends(config, "config.json", source);
  read_generation_ends(folder, source);
  return source;
}

// Its folder, or the one around the folder "onnx", has what belongs to the network.
LanguageSource open_network(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  if (error) throw ValidationError("[language] cannot read '" + path.string() + "': " + error.message());
  const ModelFolder folder(file.parent_path().string());
  const bool inner = folder.name() == "onnx" && !folder.has("tokenizer.json");
  return open_onnx_folder(inner ? ModelFolder(file.parent_path().parent_path().string()) : folder, file);
}

}  // namespace

LanguageSource open_language_model(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_folder(path);
  if (path.ends_with(".onnx")) return open_network(path);
  auto file = std::make_unique<GgufFile>(path);
  LanguageSource source;
  source.shape = read_shape(*file), source.vocabulary = read_vocabulary(*file);
  if (const std::string* text = file->text("general.name")) source.name = *text;
  source.weights = std::move(file);
  return source;
}

}  // namespace dlprim
