// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dlprim {

// Contractions, letters, numbers, other signs, and spaces, of which the last belongs to the word behind it.
inline constexpr char gpt2_words[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr char digits_alone[] =
    R"(\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+)";
#define DLPRIM_WORDS_BY_LINES(digits)                                     \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" digits \
  R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
inline constexpr char words_by_threes[] = DLPRIM_WORDS_BY_LINES("{1,3}");
inline constexpr char words_by_ones[] = DLPRIM_WORDS_BY_LINES("");
#undef DLPRIM_WORDS_BY_LINES
// The same with words cut where small letters end, contractions at their ends, and slashes at the ends of other signs.
#define DLPRIM_CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
inline constexpr char words_by_cases[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" DLPRIM_CONTRACTION
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" DLPRIM_CONTRACTION
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
#undef DLPRIM_CONTRACTION

/// Cuts texts into the words that are encoded each for itself, as the vocabulary was made: by regular expressions.
class Splitter {
 public:
  /// What an expression matches, and what lies between, are words; the next expression cuts those. Throws
  /// NotImplementedError for expressions that may mean something else elsewhere, and in builds without PCRE2.
  explicit Splitter(const std::vector<std::string>& expressions);
  ~Splitter();
  /// Calls `take` with all parts of `text` (UTF-8), in order.
  void split(std::string_view text, const std::function<void(std::string_view)>& take) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlprim
