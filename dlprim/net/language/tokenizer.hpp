// SPDX-License-Identifier: MIT
// Text as the numbers of a model's vocabulary, and back.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf.hpp"
#include "merges.hpp"
#include "splitter.hpp"

namespace dlprim {

/// A vocabulary in a GGUF file: "gpt2" (bytes, and merges in the order of their rank) or "llama" (characters, merged by
/// the scores of pieces, with bytes for what is unknown). Control tokens are recognized in texts by their spelling.
class Tokenizer {
 public:
  /// Throws NotImplementedError for models of vocabularies and ways to split text that are not known, ValidationError
  /// for vocabularies that are no such thing.
  explicit Tokenizer(const GgufFile& file);

  std::int64_t size() const noexcept { return std::int64_t(pieces_.size()); }
  /// Numbers of a text (UTF-8; ValidationError otherwise), behind the token that begins texts where the model wants it.
  std::vector<std::int64_t> encode(std::string_view text, bool begin = true) const;
  /// The bytes of one token: a part of a text, perhaps of a character; nothing for control tokens.
  std::string piece(std::int64_t token) const;
  std::string decode(std::span<const std::int64_t> tokens) const;
  /// Whether a text ends with this token.
  bool ends(std::int64_t token) const noexcept;

 private:
  enum Kind : std::int64_t { normal = 1, unknown = 2, control = 3, user = 4, unused = 5, byte = 6 };
  struct Special {
    std::string text;
    std::int64_t token;
  };
  void read_kinds(const GgufFile& file);
  void read_ends(const GgufFile& file);
  std::vector<Merge> merges(const GgufFile& file) const;
  const Special* special_at(std::string_view text) const;
  void encode_plain(std::string_view text, bool first, std::vector<std::int64_t>& to) const;
  void encode_bytes(std::string_view text, std::vector<std::int64_t>& to) const;
  void encode_characters(std::string_view text, std::vector<std::int64_t>& to) const;
  std::int64_t find(const std::string& piece) const;  // -1: none
  std::int64_t checked(std::int64_t token, const char* what) const;

  bool by_bytes_ = false, whole_words_ = false, space_first_ = false, begins_ = false;
  std::vector<std::string> pieces_;
  std::vector<std::int64_t> kinds_, ends_;
  std::int64_t begin_ = -1, unknown_ = -1;
  std::unordered_map<std::string, std::int64_t> numbers_;
  std::vector<Special> specials_[256];  // by their first byte, the longest first
  std::int64_t bytes_[256];  // the token of each byte, or -1
  std::unique_ptr<Splitter> splitter_;
  PairMerges pairs_;
};

}  // namespace dlprim
