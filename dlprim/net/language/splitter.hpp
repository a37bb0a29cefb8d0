// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace dlprim {

/// Cuts texts into the words that are encoded each for itself, as the vocabulary was made: by a regular expression.
class Splitter {
 public:
  /// `name`: what GGUF files call the way (tokenizer.ggml.pre). Throws NotImplementedError for others, and in builds
  /// without PCRE2.
  explicit Splitter(const std::string& name);
  ~Splitter();
  /// Whether a word that is in the vocabulary stays whole even where merges lead elsewhere.
  bool whole_words() const noexcept;
  /// Calls `take` with all parts of `text` (UTF-8), in order.
  void split(std::string_view text, const std::function<void(std::string_view)>& take) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlprim
