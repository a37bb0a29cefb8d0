// SPDX-License-Identifier: MIT
#include "splitter.hpp"

#include <dlprim/error.hpp>

#ifdef DLPRIM_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

namespace dlprim {

#ifdef DLPRIM_PCRE2

namespace {

// Contractions, letters, numbers, other signs, and spaces, of which the last belongs to the word behind it.
#define GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define DIGITS_ALONE R"(\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+)"
#define BY_LINES(digits)                                                  \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" digits \
  R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"

struct Way {
  const char *name, *expression;
  bool whole_words;
};
constexpr Way ways[] = {{"gpt-2", GPT2, false},
                        {"default", GPT2, false},
                        {"smollm", DIGITS_ALONE, false},
                        {"llama-bpe", BY_LINES("{1,3}"), true},
                        {"llama-v3", BY_LINES("{1,3}"), true},
                        {"llama3", BY_LINES("{1,3}"), true},
                        {"qwen2", BY_LINES(""), false},
                        {"deepseek-r1-qwen", BY_LINES(""), false}};

const Way& way_of(const std::string& name) {
  std::string known;
  for (const Way& way : ways) {
    if (name == way.name) return way;
    known += (known.empty() ? "" : ", ") + std::string(way.name);
  }
  throw NotImplementedError("[tokenizer] texts that are split in the way '" + name + "' are not supported; expected " +
                            known);
}

}  // namespace

struct Splitter::State {
  explicit State(const std::string& name) : way(way_of(name)) {
    int error = 0;
    PCRE2_SIZE place = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(way.expression), PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &place, nullptr);
    if (!code) throw Error("[tokenizer] PCRE2 refuses the expression of '" + name + "'");
  }
  ~State() { pcre2_code_free(code); }
  State(const State&) = delete;
  const Way& way;
  pcre2_code* code = nullptr;
};

Splitter::Splitter(const std::string& name) : state_(std::make_unique<State>(name)) {}

bool Splitter::whole_words() const noexcept { return state_->way.whole_words; }

void Splitter::split(std::string_view text, const std::function<void(std::string_view)>& take) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(pcre2_match_data_create(1, nullptr),
                                                                             pcre2_match_data_free);
  for (std::size_t at = 0; at < text.size();) {
    const int found = pcre2_match(state_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH)
      throw ValidationError("[tokenizer] the text cannot be split: error " + std::to_string(found) + " of PCRE2");
    const PCRE2_SIZE* places = pcre2_get_ovector_pointer(match.get());
    const bool any = found >= 0 && places[1] > places[0];
    const std::size_t begin = any ? places[0] : text.size(), end = any ? places[1] : text.size();
    if (begin > at) take(text.substr(at, begin - at));
    if (end > begin) take(text.substr(begin, end - begin));
    at = end;
  }
}

#else

struct Splitter::State {};

Splitter::Splitter(const std::string&) {
  throw NotImplementedError("[tokenizer] vocabularies of bytes need PCRE2, which this build of dlprim lacks");
}

bool Splitter::whole_words() const noexcept { return false; }
void Splitter::split(std::string_view, const std::function<void(std::string_view)>&) const {}

#endif

Splitter::~Splitter() = default;

}  // namespace dlprim
