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

// Bytes of the white space that a text begins with.
std::size_t space_bytes(std::string_view text) {
  constexpr std::string_view spaces[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
                                         "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    const auto* found = std::ranges::find_if(spaces, [&](std::string_view space) { return rest.starts_with(space); });
    const bool wide = rest.starts_with("\xe2\x80") && rest.size() > 2 && rest[2] >= '\x80' && rest[2] <= '\x8a';
    if (rest[0] == ' ' || (rest[0] >= '\t' && rest[0] <= '\r')) at++;
    else if (wide) at += 3;  // U+2000 to U+200A
    else if (found != std::end(spaces)) at += found->size();
    else break;
  }
  return at;
}

void check_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = character_bytes(text.substr(at));
    if (count == 0) fail("expected a text in UTF-8; byte " + std::to_string(at) + " belongs to no character");
    at += count;
  }
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary) : v_(std::move(vocabulary)), pairs_(v_.merges) {
  for (std::size_t i = 0; i < v_.pieces.size(); i++) {
    const std::string& piece = v_.pieces[i];
    if ((v_.kinds[i] == Vocabulary::control || v_.kinds[i] == Vocabulary::user) && !piece.empty())
      specials_[static_cast<unsigned char>(piece[0])].push_back(
          {piece, std::int64_t(i), std::ranges::find(v_.strips, std::int64_t(i)) != v_.strips.end()});
  }
  for (std::vector<Special>& list : specials_)
    std::ranges::stable_sort(list, std::greater(), [](const Special& s) { return s.text.size(); });
  // Turns of conversations end with these, whatever the file names.
  for (const char* piece : {"<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>"})
    if (const std::int64_t end = v_.find(piece); end >= 0 && v_.kinds[std::size_t(end)] == Vocabulary::control)
      v_.ends.push_back(end);
  if (v_.by_bytes) splitter_ = std::make_unique<Splitter>(v_.splits);
  for (unsigned b = 0; b < 256; b++) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", b);
    bytes_[b] = v_.find(v_.by_bytes ? byte_signs()[b] : text);
  }
}

const Tokenizer::Special* Tokenizer::special_at(std::string_view text) const {
  for (const Special& special : specials_[static_cast<unsigned char>(text[0])])
    if (text.starts_with(special.text)) return &special;
  return nullptr;
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool begin) const {
  check_utf8(text);
  std::vector<std::int64_t> tokens;
  if (begin && v_.begins) tokens.push_back(v_.begin);
  std::size_t from = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Special* special = special_at(text.substr(at));
    if (!special) {
      at++;
      continue;
    }
    encode_plain(text.substr(from, at - from), from == 0, tokens);
    tokens.push_back(special->token);
    at += special->text.size();
    if (special->strips) at += space_bytes(text.substr(at));
    from = at;
  }
  encode_plain(text.substr(from), from == 0, tokens);
  return tokens;
}

void Tokenizer::encode_plain(std::string_view text, bool first, std::vector<std::int64_t>& to) const {
  if (text.empty()) return;
  if (v_.by_bytes) return splitter_->split(text, [&](std::string_view word) { encode_bytes(word, to); });
  std::string marked = replaced(text, " ", mark);
  const bool prefixed = v_.prefix == Vocabulary::Prefix::every || (v_.prefix == Vocabulary::Prefix::first && first);
  if (prefixed && !(v_.prefix_unless_space && marked.starts_with(mark))) marked.insert(0, mark);
  for (std::size_t at = 0; at < marked.size();) {
    const std::size_t next = v_.words ? std::min(marked.find(mark, at + 1), marked.size()) : marked.size();
    encode_characters(std::string_view(marked).substr(at, next - at), to);
    at = next;
  }
}

void Tokenizer::encode_bytes(std::string_view text, std::vector<std::int64_t>& to) const {
  if (v_.whole_words) {
    std::string word;
    for (char c : text) word += byte_signs()[static_cast<unsigned char>(c)];
    if (const std::int64_t token = v_.find(word); token >= 0) return to.push_back(token);
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
  if (v_.whole_words)
    if (const std::int64_t token = v_.find(std::string(text)); token >= 0) return to.push_back(token);
  std::vector<std::int64_t> tokens;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = character_bytes(text.substr(at));
    const std::string character(text.substr(at, count));
    if (const std::int64_t token = v_.find(character); token >= 0) {
      tokens.push_back(token);
    } else if (const auto byte = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
               v_.byte_fallback && std::ranges::all_of(character, [&](char c) { return byte(c) >= 0; })) {
      for (char c : character) tokens.push_back(byte(c));
    } else if (v_.unknown < 0) {
      fail("the vocabulary lacks '" + character + "' and bytes");
    } else if (!v_.fuse_unknown || tokens.empty() || tokens.back() != v_.unknown) {
      tokens.push_back(v_.unknown);
    }
    at += count;
  }
  pairs_.apply(tokens);
  to.insert(to.end(), tokens.begin(), tokens.end());
}

std::string Tokenizer::piece(std::int64_t token) const {
  const auto i = std::size_t(v_.checked(token, "token"));
  if (v_.kinds[i] == Vocabulary::control || v_.kinds[i] == Vocabulary::unknown_piece) return "";
  if (v_.by_bytes) return v_.kinds[i] == Vocabulary::user ? v_.pieces[i] : to_bytes(v_.pieces[i]);
  if (v_.kinds[i] == Vocabulary::byte) {
    for (unsigned b = 0; b < 256; b++)
      if (bytes_[b] == token) return std::string(1, char(b));
  }
  return replaced(v_.pieces[i], mark, " ");
}

std::string Tokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (std::int64_t token : tokens) text += piece(token);
  return v_.prefix != Vocabulary::Prefix::none && text.starts_with(' ') ? text.substr(1) : text;
}

bool Tokenizer::ends(std::int64_t token) const noexcept { return std::ranges::find(v_.ends, token) != v_.ends.end(); }

}  // namespace dlprim
