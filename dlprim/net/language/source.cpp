// SPDX-License-Identifier: MIT
#include "source.hpp"

#include <dlprim/error.hpp>

#include "checkpoint.hpp"

namespace dlprim {

namespace {

constexpr std::uint64_t largest_config = std::uint64_t(4) << 20, largest_vocabulary = std::uint64_t(64) << 20;

// Tokens that end texts: a number, or a list of them; perhaps without a piece.
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

LanguageSource open_folder(const std::string& path) {
  const ModelFolder folder(path);
  const Json config = folder.json("config.json", largest_config);
  LanguageSource source;
  source.name = folder.name();
  source.weights = std::make_unique<Checkpoint>(folder);
  source.shape = read_shape(config, *source.weights);
  source.vocabulary = read_vocabulary(folder.json("tokenizer.json", largest_vocabulary), source.shape.vocabulary);
  read_ends(config, "config.json", source);
  const char* generation = "generation_config.json";
  if (folder.has(generation)) read_ends(folder.json(generation, largest_config), generation, source);
  return source;
}

}  // namespace

LanguageSource open_language_model(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_folder(path);
  auto file = std::make_unique<GgufFile>(path);
  LanguageSource source;
  source.shape = read_shape(*file), source.vocabulary = read_vocabulary(*file);
  if (const std::string* text = file->text("general.name")) source.name = *text;
  source.weights = std::move(file);
  return source;
}

}  // namespace dlprim
