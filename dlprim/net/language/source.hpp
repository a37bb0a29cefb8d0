// SPDX-License-Identifier: MIT
// What a language model is read from.
#pragma once
#include <memory>
#include <string>

#include "checkpoint.hpp"
#include "shape.hpp"
#include "tensors.hpp"
#include "vocabulary.hpp"

namespace dlprim {

struct DecoderNetwork;

/// Either weights of a known architecture, or a network that says itself what is to be computed.
struct LanguageSource {
  LanguageSource();
  LanguageSource(LanguageSource&&) noexcept;
  LanguageSource& operator=(LanguageSource&&) noexcept;
  ~LanguageSource();
  std::unique_ptr<WeightFile> weights;
  std::unique_ptr<DecoderNetwork> network;
  LanguageShape shape;
  Vocabulary vocabulary;
  std::string name;
};

/// Opens a GGUF file; a folder of transformers with config.json, weights in safetensors, tokenizer.json and perhaps
/// generation_config.json; or a folder with a network in an ONNX file, or that file. Throws ValidationError and NotImplementedError; weights are not read yet.
LanguageSource open_language_model(const std::string& path);

constexpr std::uint64_t largest_config = std::uint64_t(4) << 20, largest_vocabulary = std::uint64_t(64) << 20;  // bytes
/// Adds the tokens that end texts as a configuration says; of generation_config.json, where the folder has it.
void read_ends(const Json& config, const std::string& where, LanguageSource& source);
void read_generation_ends(const ModelFolder& folder, LanguageSource& source);

}  // namespace dlprim
