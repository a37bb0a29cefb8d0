// SPDX-License-Identifier: MIT
// tokenizer.json of the package tokenizers.
#include <dlprim/error.hpp>

#include <algorithm>

#include "../json/fields.hpp"
#include "splitter.hpp"
#include "vocabulary.hpp"

namespace dlprim {

namespace {

const std::string mark = "\xe2\x96\x81";
const Json none;

[[noreturn]] void refuse(const std::string& what) { throw NotImplementedError("[tokenizer] " + what); }
[[noreturn]] void fail(const std::string& what) { throw ValidationError("[tokenizer] " + what); }

// A member, or null.
const Json& member(const Json& object, const char* key) {
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

std::string text_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

bool is_true(const Json& object, const char* key, bool otherwise = false) {
  const Json& value = member(object, key);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

// Calls `take` with each part of a normalizer, pre-tokenizer or processor, which may be a sequence of them.
template <class Take>
void each_part(const Json& part, const char* list, const Take& take) {
  if (part.is_null()) return;
  if (text_of(part, "type") != "Sequence") return take(part, text_of(part, "type"));
  const Json& parts = member(part, list);
  if (!parts.is_array()) fail(std::string("a sequence without '") + list + "'");
  for (const Json& inner : parts) {
    if (text_of(inner, "type") == "Sequence") refuse("sequences within sequences are not supported");
    take(inner, text_of(inner, "type"));
  }
}

struct Reader {
  Vocabulary v;
  bool spaces_are_marks = false;

  void read_normalizer(const Json& normalizer) {
    each_part(normalizer, "normalizers", [&](const Json& part, const std::string& type) {
      const Json& pattern = member(part, "pattern");
      if (type == "NFC") return;  // texts are taken as they are
      if (type == "Prepend" && text_of(part, "prepend") == mark) v.prefix = Vocabulary::Prefix::every;
      else if (type == "Replace" && text_of(pattern, "String") == " " && text_of(part, "content") == mark)
        spaces_are_marks = true;
      else refuse("the normalizer '" + type + "' is not supported, as it is used here");
    });
  }

  void read_metaspace(const Json& part) {
    if (text_of(part, "replacement") != mark) refuse("spaces that become '" + text_of(part, "replacement") + "'");
    const std::string scheme = member(part, "prepend_scheme").is_null()
                                   ? (is_true(part, "add_prefix_space", true) ? "always" : "never")
                                   : text_of(part, "prepend_scheme");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      fail("expected always, first or never for 'prepend_scheme', got '" + scheme + "'");
    spaces_are_marks = true, v.words = is_true(part, "split", true), v.prefix_unless_space = true;
    v.prefix = scheme == "always"  ? Vocabulary::Prefix::every
               : scheme == "first" ? Vocabulary::Prefix::first
                                   : Vocabulary::Prefix::none;
  }

  void read_split(const Json& part) {
    const Json& pattern = member(part, "pattern");
    const std::string behavior = text_of(part, "behavior");
    if (spaces_are_marks && text_of(pattern, "String") == " " && behavior == "MergedWithPrevious") return;  // none left
    if (!member(pattern, "Regex").is_string() || behavior != "Isolated" || is_true(part, "invert"))
      refuse("texts that are split by '" + pattern.dump(-1, ' ', true).substr(0, 80) + "' with the behavior '" +
             behavior + "' are not supported; expected a regular expression and Isolated");
    v.splits.push_back(text_of(pattern, "Regex"));
  }

  void read_pre_tokenizer(const Json& pre_tokenizer) {
    each_part(pre_tokenizer, "pretokenizers", [&](const Json& part, const std::string& type) {
      if (v.by_bytes) refuse("the pre-tokenizer '" + type + "' behind ByteLevel is not supported");
      if (type == "ByteLevel") {
        if (is_true(part, "add_prefix_space", true)) refuse("ByteLevel with 'add_prefix_space' is not supported");
        if (is_true(part, "use_regex", true)) v.splits.emplace_back(gpt2_words);
        v.by_bytes = true;
      } else if (type == "Metaspace") {
        read_metaspace(part);
      } else if (type == "Split") {
        read_split(part);
      } else if (type == "Digits") {
        v.splits.emplace_back(is_true(part, "individual_digits") ? "\\p{N}" : "\\p{N}+");
      } else {
        refuse("the pre-tokenizer '" + type + "' is not supported; expected ByteLevel, Metaspace, Split or Digits");
      }
    });
    if (v.by_bytes == spaces_are_marks)
      refuse("expected either ByteLevel, or spaces that become U+2581, by Metaspace or Replace");
    if (!v.by_bytes && !v.splits.empty()) refuse("characters that are split by expressions are not supported");
  }

  void put(const std::string& piece, const Json& number, std::int64_t most, Vocabulary::Kind kind) {
    if (!number.is_number_integer() || number < 0 || number >= most)
      fail("expected a number below " + std::to_string(most) + " for '" + piece.substr(0, 40) + "', got " +
           number.dump(-1, ' ', true).substr(0, 40));
    const auto at = number.get<std::size_t>();
    if (at >= v.pieces.size()) v.pieces.resize(at + 1), v.kinds.resize(at + 1, Vocabulary::unused);
    if (v.kinds[at] != Vocabulary::unused && v.pieces[at] != piece)
      fail("'" + piece.substr(0, 40) + "' and '" + v.pieces[at].substr(0, 40) + "' have the number " +
           std::to_string(at));
    v.pieces[at] = piece, v.kinds[at] = kind;
  }

  void read_pieces(const Json& model, const Json& added, std::int64_t most) {
    const Json& pieces = member(model, "vocab");
    if (!pieces.is_object() || pieces.empty()) fail("the file has no vocabulary");
    for (const auto& entry : pieces.items()) {
      const std::string& piece = entry.key();
      const bool byte =
          !v.by_bytes && v.byte_fallback && piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with(">");
      put(piece, entry.value(), most, byte ? Vocabulary::byte : Vocabulary::normal);
    }
    if (!added.is_null() && !added.is_array()) fail("expected a list for 'added_tokens'");
    for (const Json& token : added) {
      const std::string piece = text_of(token, "content");
      for (const char* option : {"single_word", "lstrip"})
        if (is_true(token, option)) refuse("'" + piece + "' with '" + option + "' is not supported");
      put(piece, member(token, "id"), most, is_true(token, "special") ? Vocabulary::control : Vocabulary::user);
      if (is_true(token, "rstrip")) v.strips.push_back(member(token, "id").get<std::int64_t>());
    }
    v.number_pieces();
    if (const Json& unknown = member(model, "unk_token"); unknown.is_string()) {
      v.unknown = v.find(unknown.get<std::string>());
      if (v.unknown < 0) fail("'unk_token' is '" + unknown.get<std::string>() + "', which is no piece");
    }
  }

  void read_merges(const Json& merges) {
    if (!merges.is_array()) fail("the vocabulary has no merges");
    for (std::size_t i = 0; i < merges.size(); i++) {
      const Json& merge = merges[i];
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        v.add_merge(merge[0].get<std::string>(), merge[1].get<std::string>(), double(i));
      } else {
        const std::string text = merge.is_string() ? merge.get<std::string>() : "";
        const std::size_t space = text.empty() ? std::string::npos : text.find(' ', 1);
        if (space == std::string::npos) fail("the merge '" + merge.dump(-1, ' ', true).substr(0, 40) + "' is no pair");
        v.add_merge(text.substr(0, space), text.substr(space + 1), double(i));
      }
    }
  }

  // Which token the template puts in front.
  void read_processor(const Json& processor) {
    each_part(processor, "processors", [&](const Json& part, const std::string& type) {
      if (type == "ByteLevel") return;
      if (type != "TemplateProcessing") refuse("the processor '" + type + "' is not supported");
      const Json& single = member(part, "single");
      std::vector<std::string> front;
      if (!single.is_array() || single.empty() || member(single.back(), "Sequence").is_null())
        refuse("templates with tokens behind the text are not supported");
      for (std::size_t i = 0; i + 1 < single.size(); i++)
        front.push_back(text_of(member(single[i], "SpecialToken"), "id"));
      if (front.empty()) return;
      const Json& ids = member(member(member(part, "special_tokens"), front[0].c_str()), "ids");
      if (front.size() > 1 || !ids.is_array() || ids.size() != 1 || !ids[0].is_number_integer())
        refuse("templates with more than one token in front of the text are not supported");
      v.begin = v.checked(ids[0].get<std::int64_t>(), front[0]), v.begins = true;
    });
  }
};

}  // namespace

Vocabulary read_vocabulary(const Json& tokenizer, std::int64_t most) {
  if (!tokenizer.is_object()) fail("expected an object");
  const Json& model = member(tokenizer, "model");
  const std::string type = text_of(model, "type");
  if (type != "BPE" && !(type.empty() && member(model, "merges").is_array()))
    refuse("vocabularies of the model '" + type + "' are not supported; expected BPE");
  for (const char* option : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!text_of(model, option).empty()) refuse(std::string("vocabularies with '") + option + "' are not supported");
  if (const Json& dropout = member(model, "dropout"); dropout.is_number() && dropout != 0)
    refuse("merges that are dropped at random are not supported");
  Reader reader;
  reader.v.byte_fallback = is_true(model, "byte_fallback"), reader.v.fuse_unknown = is_true(model, "fuse_unk");
  reader.v.whole_words = is_true(model, "ignore_merges");
  reader.read_normalizer(member(tokenizer, "normalizer"));
  reader.read_pre_tokenizer(member(tokenizer, "pre_tokenizer"));
  reader.read_pieces(model, member(tokenizer, "added_tokens"), most);
  reader.read_merges(member(model, "merges"));
  reader.read_processor(member(tokenizer, "post_processor"));
  return std::move(reader.v);
}

}  // namespace dlprim
