// SPDX-License-Identifier: MIT
#include "tokenizer.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <cstdio>

namespace dlprim {

namespace {

const std::string mark = "\xe2\x96\x81";  // stands for a space in vocabularies of characters

[[noreturn]] void fail(const std::string& message) { throw ValidationError("[tokenizer] " + message); }

std::string utf8(unsigned code) {
  if (code < 0x80) return std::string(1, char(code));
  return {char(0xc0 | code >> 6), char(0x80 | (code & 63))};
}

// How vocabularies of bytes write each byte: as itself where it is a visible sign, others as characters from 256 on.
const std::vector<std::string>& byte_signs() {
  static const std::vector<std::string> signs = [] {
    std::vector<std::string> result;
    unsigned next = 256;
    for (unsigned b = 0; b < 256; b++) {
      const bool visible = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      result.push_back(utf8(visible ? b : next++));
    }
    return result;
  }();
  return signs;
}

// The bytes that a piece of such a vocabulary stands for.
std::string to_bytes(const std::string& piece) {
  static const std::unordered_map<std::string, char> bytes = [] {
    std::unordered_map<std::string, char> result;
    for (unsigned b = 0; b < 256; b++) result.emplace(byte_signs()[b], char(b));
    return result;
  }();
  std::string result;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t count = std::max<std::size_t>(1, character_bytes(std::string_view(piece).substr(at)));
    const std::string sign = piece.substr(at, count);
    const auto found = bytes.find(sign);
    result += found == bytes.end() ? sign : std::string(1, found->second);
    at += count;
  }
  return result;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.find(from, at), text.size());
    result += text.substr(at, found - at);
    if (found < text.size()) result += to;
    at = found + from.size();
  }
  return result;
}

void check_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = character_bytes(text.substr(at));
    if (count == 0) fail("expected a text in UTF-8; byte " + std::to_string(at) + " belongs to no character");
    at += count;
  }
}

}  // namespace

Tokenizer::Tokenizer(const GgufFile& file) {
  const std::string* model = file.text("tokenizer.ggml.model");
  const std::vector<std::string>* pieces = file.texts("tokenizer.ggml.tokens");
  if (!model || !pieces || pieces->empty()) fail("the file has no vocabulary");
  if (*model != "gpt2" && *model != "llama")
    throw NotImplementedError("[tokenizer] vocabularies of the model '" + *model +
                              "' are not supported; expected gpt2 or llama");
  if (pieces->size() >= std::size_t(1) << 31) fail("a vocabulary of " + std::to_string(pieces->size()) + " pieces");
  pieces_ = *pieces, by_bytes_ = *model == "gpt2";
  numbers_.reserve(pieces_.size());
  for (std::size_t i = 0; i < pieces_.size(); i++) numbers_.emplace(pieces_[i], std::int64_t(i));
  read_kinds(file), read_ends(file);
  std::fill_n(bytes_, 256, -1);
  if (by_bytes_) {
    const std::string* way = file.text("tokenizer.ggml.pre");
    splitter_ = std::make_unique<Splitter>(way ? *way : "default");
    whole_words_ = splitter_->whole_words();
    for (std::size_t b = 0; b < 256; b++) bytes_[b] = find(byte_signs()[b]);
  } else {
    char text[8];
    for (unsigned b = 0; b < 256; b++) {
      std::snprintf(text, sizeof text, "<0x%02X>", b);
      bytes_[b] = find(text);
    }
    space_first_ = file.flag("tokenizer.ggml.add_space_prefix").value_or(true);
  }
  pairs_ = PairMerges(merges(file));
}

std::int64_t Tokenizer::find(const std::string& piece) const {
  const auto found = numbers_.find(piece);
  return found == numbers_.end() ? -1 : found->second;
}

std::int64_t Tokenizer::checked(std::int64_t token, const char* what) const {
  if (token < 0 || token >= size())
    fail(std::string("'") + what + "' is " + std::to_string(token) + ", with " + std::to_string(size()) + " pieces");
  return token;
}

void Tokenizer::read_kinds(const GgufFile& file) {
  const std::vector<std::int64_t>* kinds = file.integers("tokenizer.ggml.token_type");
  if (kinds && kinds->size() != pieces_.size())
    fail(std::to_string(kinds->size()) + " types of " + std::to_string(pieces_.size()) + " pieces");
  kinds_ = kinds ? *kinds : std::vector<std::int64_t>(pieces_.size(), normal);
  for (std::size_t i = 0; i < kinds_.size(); i++)
    if ((kinds_[i] == control || kinds_[i] == user) && !pieces_[i].empty())
      specials_[static_cast<unsigned char>(pieces_[i][0])].push_back({pieces_[i], std::int64_t(i)});
  for (std::vector<Special>& list : specials_)
    std::ranges::stable_sort(list, std::greater(), [](const Special& s) { return s.text.size(); });
}

void Tokenizer::read_ends(const GgufFile& file) {
  const auto token = [&](const char* name) {
    const std::string key = "tokenizer.ggml." + std::string(name);
    const std::optional<std::int64_t> found = file.integer(key);
    return found ? checked(*found, key.c_str()) : -1;
  };
  for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"})
    if (const std::int64_t end = token(name); end >= 0) ends_.push_back(end);
  // Turns of conversations end with these, whatever the file names.
  for (const char* piece : {"<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>"})
    if (const std::int64_t end = find(piece); end >= 0 && kinds_[std::size_t(end)] == control) ends_.push_back(end);
  begin_ = token("bos_token_id"), unknown_ = token("unknown_token_id");
  begins_ = begin_ >= 0 && file.flag("tokenizer.ggml.add_bos_token").value_or(!by_bytes_);
}

// Byte vocabularies list merges; others merge whatever gives a piece, that of the highest score first.
std::vector<Merge> Tokenizer::merges(const GgufFile& file) const {
  std::vector<Merge> result;
  if (by_bytes_) {
    const std::vector<std::string>* list = file.texts("tokenizer.ggml.merges");
    if (!list) fail("the vocabulary has no merges");
    for (std::size_t i = 0; i < list->size(); i++) {
      const std::string& merge = (*list)[i];
      const std::size_t space = merge.find(' ', 1);
      if (space == std::string::npos) fail("the merge '" + merge + "' is no pair");
      const std::string left = merge.substr(0, space), right = merge.substr(space + 1);
      const std::int64_t a = find(left), b = find(right), both = find(left + right);
      if (a >= 0 && b >= 0 && both >= 0) result.push_back({a, b, both, double(i)});
    }
    return result;
  }
  const std::vector<double>* scores = file.reals("tokenizer.ggml.scores");
  if (!scores || scores->size() != pieces_.size()) fail("the vocabulary has no score for each piece");
  for (std::size_t i = 0; i < pieces_.size(); i++) {
    const std::string& piece = pieces_[i];
    if (kinds_[i] != normal && kinds_[i] != user && kinds_[i] != unused) continue;
    if (piece.size() > 256 || find(piece) != std::int64_t(i)) continue;
    for (std::size_t at = character_bytes(piece); at > 0 && at < piece.size();) {
      const std::int64_t a = find(piece.substr(0, at)), b = find(piece.substr(at));
      if (a >= 0 && b >= 0) result.push_back({a, b, std::int64_t(i), -(*scores)[i]});
      const std::size_t next = character_bytes(std::string_view(piece).substr(at));
      if (next == 0) break;
      at += next;
    }
  }
  return result;
}

const Tokenizer::Special* Tokenizer::special_at(std::string_view text) const {
  for (const Special& special : specials_[static_cast<unsigned char>(text[0])])
    if (text.starts_with(special.text)) return &special;
  return nullptr;
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool begin) const {
  check_utf8(text);
  std::vector<std::int64_t> tokens;
  if (begin && begins_) tokens.push_back(begin_);
  std::size_t from = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Special* special = special_at(text.substr(at));
    if (!special) {
      at++;
      continue;
    }
    encode_plain(text.substr(from, at - from), from == 0, tokens);
    tokens.push_back(special->token);
    at += special->text.size(), from = at;
  }
  encode_plain(text.substr(from), from == 0, tokens);
  return tokens;
}

void Tokenizer::encode_plain(std::string_view text, bool first, std::vector<std::int64_t>& to) const {
  if (text.empty()) return;
  if (by_bytes_) return splitter_->split(text, [&](std::string_view word) { encode_bytes(word, to); });
  encode_characters((first && space_first_ ? mark : "") + replaced(text, " ", mark), to);
}

void Tokenizer::encode_bytes(std::string_view text, std::vector<std::int64_t>& to) const {
  if (whole_words_) {
    std::string word;
    for (char c : text) word += byte_signs()[static_cast<unsigned char>(c)];
    if (const std::int64_t token = find(word); token >= 0) return to.push_back(token);
  }
  std::vector<std::int64_t> tokens;
  for (char c : text) {
    const std::int64_t token = bytes_[static_cast<unsigned char>(c)];
    if (token < 0) fail("the vocabulary lacks byte " + std::to_string(static_cast<unsigned char>(c)));
    tokens.push_back(token);
  }
  pairs_.apply(tokens);
  to.insert(to.end(), tokens.begin(), tokens.end());
}

void Tokenizer::encode_characters(std::string_view text, std::vector<std::int64_t>& to) const {
  std::vector<std::int64_t> tokens;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = character_bytes(text.substr(at));
    const std::string character(text.substr(at, count));
    if (const std::int64_t token = find(character); token >= 0) {
      tokens.push_back(token);
    } else {
      for (char c : character) {
        const std::int64_t piece = bytes_[static_cast<unsigned char>(c)];
        if (piece < 0 && unknown_ < 0) fail("the vocabulary lacks '" + character + "' and bytes");
        tokens.push_back(piece < 0 ? unknown_ : piece);
        if (piece < 0) break;
      }
    }
    at += count;
  }
  pairs_.apply(tokens);
  to.insert(to.end(), tokens.begin(), tokens.end());
}

std::string Tokenizer::piece(std::int64_t token) const {
  const auto i = std::size_t(checked(token, "token"));
  if (kinds_[i] == control || kinds_[i] == unknown) return "";
  if (kinds_[i] == user) return pieces_[i];
  if (by_bytes_) return to_bytes(pieces_[i]);
  if (kinds_[i] == byte) {
    for (unsigned b = 0; b < 256; b++)
      if (bytes_[b] == token) return std::string(1, char(b));
  }
  return replaced(pieces_[i], mark, " ");
}

std::string Tokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (std::int64_t token : tokens) text += piece(token);
  return space_first_ && text.starts_with(' ') ? text.substr(1) : text;
}

bool Tokenizer::ends(std::int64_t token) const noexcept { return std::ranges::find(ends_, token) != ends_.end(); }

}  // namespace dlprim
