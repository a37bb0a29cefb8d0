// SPDX-License-Identifier: MIT
#include "vocabulary.hpp"

#include <dlprim/error.hpp>

#include "splitter.hpp"

namespace dlprim {

namespace {

[[noreturn]] void fail(const std::string& message) { throw ValidationError("[tokenizer] " + message); }

struct Way {
  const char *name, *expression;
  bool whole_words;
};
constexpr Way ways[] = {{"gpt-2", gpt2_words, false},        {"default", gpt2_words, false},
                        {"smollm", digits_alone, false},     {"llama-bpe", words_by_threes, true},
                        {"llama-v3", words_by_threes, true}, {"llama3", words_by_threes, true},
                        {"qwen2", words_by_ones, false},     {"deepseek-r1-qwen", words_by_ones, false},
                        {"dbrx", words_by_threes, false},    {"smaug-bpe", words_by_threes, false},
                        {"glm4", words_by_threes, false},    {"chatglm-bpe", words_by_threes, false},
                        {"refact", digits_alone, false},     {"starcoder", digits_alone, false},
                        {"olmo", gpt2_words, false},         {"gpt-4o", words_by_cases, false},
                        {"phi-2", gpt2_words, false},        {"stablelm2", words_by_ones, false},
                        {"command-r", digits_alone, false}};

const Way& way_of(const std::string& name) {
  std::string known;
  for (const Way& way : ways) {
    if (name == way.name) return way;
    known += (known.empty() ? "" : ", ") + std::string(way.name);
  }
  throw NotImplementedError("[tokenizer] texts that are split in the way '" + name + "' are not supported; expected " +
                            known);
}

void read_listed_merges(const GgufFile& file, Vocabulary& v) {
  const std::vector<std::string>* list = file.texts("tokenizer.ggml.merges");
  if (!list) fail("the vocabulary has no merges");
  for (std::size_t i = 0; i < list->size(); i++) {
    const std::string& merge = (*list)[i];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string::npos) fail("the merge '" + merge + "' is no pair");
    v.add_merge(merge.substr(0, space), merge.substr(space + 1), double(i));
  }
}

// Whatever two pieces give a third is merged, that of the highest score first.
void read_scored_merges(const GgufFile& file, Vocabulary& v) {
  const std::vector<double>* scores = file.reals("tokenizer.ggml.scores");
  if (!scores || scores->size() != v.pieces.size()) fail("the vocabulary has no score for each piece");
  for (std::size_t i = 0; i < v.pieces.size(); i++) {
    const std::string& piece = v.pieces[i];
    if (v.kinds[i] != Vocabulary::normal && v.kinds[i] != Vocabulary::user && v.kinds[i] != Vocabulary::unused)
      continue;
    if (piece.size() > 256 || v.find(piece) != std::int64_t(i)) continue;
    for (std::size_t at = character_bytes(piece); at > 0 && at < piece.size();) {
      v.add_merge(piece.substr(0, at), piece.substr(at), -(*scores)[i]);
      const std::size_t next = character_bytes(std::string_view(piece).substr(at));
      if (next == 0) break;
      at += next;
    }
  }
}

}  // namespace

void Vocabulary::number_pieces() {
  numbers_.reserve(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); i++) numbers_.emplace(pieces[i], std::int64_t(i));
}

std::int64_t Vocabulary::find(const std::string& piece) const {
  const auto found = numbers_.find(piece);
  return found == numbers_.end() ? -1 : found->second;
}

std::int64_t Vocabulary::checked(std::int64_t token, const std::string& what) const {
  if (token < 0 || token >= std::int64_t(pieces.size()))
    fail("'" + what + "' is " + std::to_string(token) + ", with " + std::to_string(pieces.size()) + " pieces");
  return token;
}

void Vocabulary::add_merge(const std::string& left, const std::string& right, double rank) {
  const std::int64_t a = find(left), b = find(right), both = find(left + right);
  if (a >= 0 && b >= 0 && both >= 0) merges.push_back({a, b, both, rank});
}

Vocabulary read_vocabulary(const GgufFile& file) {
  const std::string* model = file.text("tokenizer.ggml.model");
  const std::vector<std::string>* pieces = file.texts("tokenizer.ggml.tokens");
  if (!model || !pieces || pieces->empty()) fail("the file has no vocabulary");
  if (*model != "gpt2" && *model != "llama")
    throw NotImplementedError("[tokenizer] vocabularies of the model '" + *model +
                              "' are not supported; expected gpt2 or llama");
  if (pieces->size() >= std::size_t(1) << 31) fail("a vocabulary of " + std::to_string(pieces->size()) + " pieces");
  Vocabulary v;
  v.pieces = *pieces, v.by_bytes = *model == "gpt2";
  v.number_pieces();
  const std::vector<std::int64_t>* kinds = file.integers("tokenizer.ggml.token_type");
  if (kinds && kinds->size() != pieces->size())
    fail(std::to_string(kinds->size()) + " types of " + std::to_string(pieces->size()) + " pieces");
  v.kinds = kinds ? *kinds : std::vector<std::int64_t>(pieces->size(), Vocabulary::normal);
  const auto token = [&](const char* name) {
    const std::string key = "tokenizer.ggml." + std::string(name);
    const std::optional<std::int64_t> found = file.integer(key);
    return found ? v.checked(*found, key) : -1;
  };
  for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"})
    if (const std::int64_t end = token(name); end >= 0) v.ends.push_back(end);
  v.begin = token("bos_token_id"), v.unknown = token("unknown_token_id");
  v.begins = v.begin >= 0 && file.flag("tokenizer.ggml.add_bos_token").value_or(!v.by_bytes);
  if (v.by_bytes) {
    const std::string* name = file.text("tokenizer.ggml.pre");
    const Way& way = way_of(name ? *name : "default");
    v.splits = {way.expression}, v.whole_words = way.whole_words;
    read_listed_merges(file, v);
  } else {
    if (file.flag("tokenizer.ggml.add_space_prefix").value_or(true)) v.prefix = Vocabulary::Prefix::first;
    read_scored_merges(file, v);
  }
  return v;
}

}  // namespace dlprim
