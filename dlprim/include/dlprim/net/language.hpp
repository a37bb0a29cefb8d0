// SPDX-License-Identifier: MIT
// Language models in GGUF files, folders of transformers and ONNX files: text in, text out.
#pragma once
#include <dlprim/dtype.hpp>
#include <dlprim/net/context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlprim {

/// How a model is held on the device.
struct GeneratorOptions {
  std::int64_t context = 0;  ///< positions that there is room for; 0: the model's, at most 4096
  /// Of what is computed, and of weights that the file has as floating numbers: float32, float16 or bfloat16. None:
  /// float32 on CPUs, bfloat16 elsewhere. A network in an ONNX file has its own: no other may be given.
  std::optional<DataType> dtype = {};
};

/// How the next token is chosen, and when to end.
struct SamplingOptions {
  std::int64_t tokens = 128;  ///< at most
  double temperature = 0;     ///< 0: the most probable token, always
  std::int64_t top_k = 40;    ///< only the most probable ones; 0: all
  double top_p = 0.95;        ///< only the most probable ones that have this probability together; 1: all
  std::uint64_t seed = 0;     ///< equal seeds choose equally
  bool stop = true;           ///< end where the model ends the text
};

struct ModelSummary {
  std::string architecture, name;
  std::int64_t layers = 0, width = 0, vocabulary = 0, context = 0;
  std::uint64_t weight_bytes = 0;  ///< that each token reads
  DataType dtype = DataType::float32;
};

/// Of the last text.
struct GenerationTimes {
  std::int64_t prompt_tokens = 0, tokens = 0;
  double prompt_seconds = 0, seconds = 0;  ///< until the first token was there; for those behind it
};

/// A language model on a device, with its vocabulary. Weights, and the keys and values of past tokens, stay there; for
/// each token the host waits once. Not thread-safe.
class Generator {
 public:
  /// Loads a GGUF file, a folder of transformers, or an ONNX decoder or its folder (docs/language_models.md). Throws ValidationError for files
  /// that are damaged, NotImplementedError for models and vocabularies that are not supported.
  Generator(const Context& context, const std::string& path, const GeneratorOptions& options = {});
  ~Generator();
  Generator(Generator&&) noexcept;

  ModelSummary summary() const;
  /// The numbers of a text in the vocabulary, behind the token that begins texts where the model wants it; and back.
  std::vector<std::int64_t> encode(std::string_view text, bool begin = true) const;
  std::string decode(std::span<const std::int64_t> tokens) const;

  /// The text that follows `prompt`. `take` gets it piece by piece, whole characters (U+FFFD for
  /// bytes that make none); it may return false to end.
  std::string generate(std::string_view prompt, const SamplingOptions& options = {},
                       const std::function<bool(std::string_view)>& take = {});
  /// The same step by step: tokens are read, then next() gives one after the other, and nothing at the end.
  void start(std::span<const std::int64_t> tokens, const SamplingOptions& options = {});
  std::optional<std::int64_t> next();
  /// The bytes that a token adds to the text, perhaps a part of a character.
  std::string piece(std::int64_t token) const;
  GenerationTimes times() const;

  /// Scores (logits) [tokens, vocabulary] of the successor of each token of a text. Ends what start() began.
  std::vector<float> scores(std::span<const std::int64_t> tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlprim
