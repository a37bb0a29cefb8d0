// SPDX-License-Identifier: MIT
// Folders with a language model as a network of ONNX: those of onnxruntime-genai, of optimum and of transformers.js.
#pragma once
#include <dlprim/net/onnx.hpp>

#include <optional>

#include "source.hpp"

namespace dlprim {

/// What the network of a decoder calls its inputs and outputs; %d stands for the number of a layer.
struct DecoderNames {
  std::string tokens = "input_ids", mask = "attention_mask", positions = "position_ids", scores = "logits";
  std::string past_keys = "past_key_values.%d.key", past_values = "past_key_values.%d.value";
  std::string present_keys = "present.%d.key", present_values = "present.%d.value";
};

/// A network that takes tokens and the keys and values of those before, and gives scores and these with its own behind.
struct DecoderNetwork {
  ONNXModel model;
  DecoderNames names;
  std::int64_t heads = 0, head_width = 0;  ///< of keys and values, as the configuration says; 0: it does not
};

/// Whether a folder of this kind is meant.
bool has_onnx_network(const ModelFolder& folder);
/// Reads the network, the configuration and the vocabulary. `network`: a file in the folder, or in the folder "onnx" in
/// it; none: the one that the configuration names, or the one that such folders have. Throws as open_language_model.
LanguageSource open_onnx_folder(const ModelFolder& folder, std::optional<std::filesystem::path> network = {});

}  // namespace dlprim
