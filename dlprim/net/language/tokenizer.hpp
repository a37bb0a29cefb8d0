// SPDX-License-Identifier: MIT
// Text as the numbers of a model's vocabulary, and back.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "merges.hpp"
#include "splitter.hpp"
#include "vocabulary.hpp"

namespace dlprim {

/// Makes tokens of texts. Control tokens are recognized in texts by their spelling.
class Tokenizer {
 public:
  explicit Tokenizer(Vocabulary vocabulary);

  std::int64_t size() const noexcept { return std::int64_t(v_.pieces.size()); }
  /// Numbers of a text (UTF-8; ValidationError otherwise), behind the token that begins texts where the model wants it.
  std::vector<std::int64_t> encode(std::string_view text, bool begin = true) const;
  /// The bytes of one token: a part of a text, perhaps of a character; nothing for control tokens.
  std::string piece(std::int64_t token) const;
  std::string decode(std::span<const std::int64_t> tokens) const;
  /// Whether a text ends with this token.
  bool ends(std::int64_t token) const noexcept;

 private:
  struct Special {
    std::string text;
    std::int64_t token;
    bool strips;
  };
  const Special* special_at(std::string_view text) const;
  void encode_plain(std::string_view text, bool first, std::vector<std::int64_t>& to) const;
  void encode_bytes(std::string_view text, std::vector<std::int64_t>& to) const;
  void encode_characters(std::string_view text, std::vector<std::int64_t>& to) const;

  Vocabulary v_;
  std::vector<Special> specials_[256];  // by their first byte, the longest first
  std::int64_t bytes_[256];  // the token of each byte, or -1
  std::unique_ptr<Splitter> splitter_;
  PairMerges pairs_;
};

}  // namespace dlprim
