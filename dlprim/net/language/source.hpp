// SPDX-License-Identifier: MIT
// What a language model is read from.
#pragma once
#include <memory>
#include <string>

#include "shape.hpp"
#include "tensors.hpp"
#include "vocabulary.hpp"

namespace dlprim {

struct LanguageSource {
  std::unique_ptr<WeightFile> weights;
  LanguageShape shape;
  Vocabulary vocabulary;
  std::string name;
};

/// Opens a GGUF file, or a folder of transformers with config.json, weights in safetensors, tokenizer.json and perhaps
/// generation_config.json. Throws ValidationError and NotImplementedError; weights are not read yet.
LanguageSource open_language_model(const std::string& path);

}  // namespace dlprim
