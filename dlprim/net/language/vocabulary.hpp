// SPDX-License-Identifier: MIT
// The pieces that a model's texts are made of, and how texts become them, as files say.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "gguf.hpp"
#include "merges.hpp"

namespace dlprim {

/// A vocabulary of bytes, or of characters with bytes for what is unknown. Pairs of pieces are merged in the order of
/// their ranks.
struct Vocabulary {
  enum Kind : std::int64_t { normal = 1, unknown_piece = 2, control = 3, user = 4, unused = 5, byte = 6 };
  enum class Prefix { none, first, every };

  std::vector<std::string> pieces;
  std::vector<std::int64_t> kinds;  ///< of each piece
  std::vector<Merge> merges;
  std::vector<std::int64_t> ends;            ///< tokens that end texts
  std::vector<std::int64_t> strips;          ///< control and user tokens that swallow the space behind them
  std::int64_t begin = -1, unknown = -1;     ///< -1: none
  bool begins = false;                       ///< texts begin with `begin`
  bool by_bytes = false;
  bool whole_words = false;  ///< a word that is a piece stays whole even where merges lead elsewhere
  std::vector<std::string> splits;  ///< of bytes: expressions that cut texts into words, each what the last one gave
  /// Of characters: whether parts of a text between control tokens get a space in front, the first or every one, ...
  Prefix prefix = Prefix::none;
  bool prefix_unless_space = false;  ///< ... those that begin with a space, not
  bool words = false;                ///< merges do not cross the begin of a word
  bool byte_fallback = true;         ///< bytes stand for characters that are no pieces
  bool fuse_unknown = false;         ///< neighbours that are unknown become one token

  void number_pieces();                              ///< find() knows the pieces from here on
  std::int64_t find(const std::string& piece) const;  ///< -1: none
  /// `token`, where there is such a piece; ValidationError that calls it `what` otherwise.
  std::int64_t checked(std::int64_t token, const std::string& what) const;
  /// The merge of two pieces into a third, where all three exist.
  void add_merge(const std::string& left, const std::string& right, double rank);

 private:
  std::unordered_map<std::string, std::int64_t> numbers_;
};

/// Models "gpt2" and "llama" of GGUF. Throws NotImplementedError for others and for ways to split text that are not
/// known, ValidationError for vocabularies that are no such thing.
Vocabulary read_vocabulary(const GgufFile& file);
/// tokenizer.json of the package tokenizers, model BPE, for `most` tokens at most; errors as above.
Vocabulary read_vocabulary(const nlohmann::json& tokenizer, std::int64_t most);

}  // namespace dlprim
