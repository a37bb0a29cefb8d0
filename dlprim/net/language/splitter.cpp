// SPDX-License-Identifier: MIT
#include "splitter.hpp"

#include <dlprim/error.hpp>

#include <algorithm>

#ifdef DLPRIM_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

namespace dlprim {

#ifdef DLPRIM_PCRE2

namespace {

constexpr std::size_t longest = 4096;  // bytes of an expression
constexpr std::size_t most = 16;       // expressions

[[noreturn]] void refuse(const std::string& expression, const std::string& why) {
  throw NotImplementedError("[tokenizer] the expression '" + expression.substr(0, 200) + "' that splits texts " + why);
}

// Files have the syntax of Oniguruma. What both have in common is taken; what one reads in another way is not.
void check_syntax(const std::string& e) {
  if (e.empty() || e.size() > longest) refuse(e, "has " + std::to_string(e.size()) + " bytes; expected 1 to 4096");
  bool list = false;
  for (std::size_t i = 0; i < e.size(); i++) {
    const std::string_view rest = std::string_view(e).substr(i);
    if (e[i] == '\\') {
      const char next = rest.size() > 1 ? rest[1] : 0;
      const bool letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || (next >= '0' && next <= '9');
      if (next == 0 || (letter && std::string_view("pPsSdDwWrntfv").find(next) == std::string_view::npos))
        refuse(e, "has '\\" + std::string(next ? 1 : 0, next) + "', which is not supported");
      const bool named = (next == 'p' || next == 'P') && rest.substr(2).starts_with('{');
      i += named ? std::min(rest.find('}'), rest.size() - 1) : 1;
    } else if (list && (rest.starts_with("&&") || e[i] == '[')) {
      refuse(e, "has lists within lists, which are not supported");
    } else if (e[i] == '[') {
      list = true;
    } else if (e[i] == ']') {
      list = false;
    } else if (!list && rest.starts_with("(?")) {
      bool known = false;
      for (const char* group : {"(?:", "(?i:", "(?!", "(?=", "(?<!", "(?<="}) known |= rest.starts_with(group);
      if (!known) refuse(e, "has a group '" + std::string(rest.substr(0, 4)) + "', which is not supported");
    } else if (!list && (rest.starts_with("(*") || rest.starts_with("}+"))) {
      refuse(e, "has '" + std::string(rest.substr(0, 2)) + "', which is not supported");
    }
  }
}

}  // namespace

struct Splitter::State {
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::vector<std::unique_ptr<pcre2_code, Free>> codes;

  void split(std::size_t step, std::string_view text, const std::function<void(std::string_view)>& take) const {
    if (step == codes.size()) return take(text);
    const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(pcre2_match_data_create(1, nullptr),
                                                                               pcre2_match_data_free);
    for (std::size_t at = 0; at < text.size();) {
      const int found = pcre2_match(codes[step].get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                    PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), nullptr);
      if (found < 0 && found != PCRE2_ERROR_NOMATCH)
        throw ValidationError("[tokenizer] the text cannot be split: error " + std::to_string(found) + " of PCRE2");
      const PCRE2_SIZE* places = pcre2_get_ovector_pointer(match.get());
      const std::size_t begin = found >= 0 ? places[0] : text.size(), end = found >= 0 ? places[1] : text.size();
      if (begin > at) split(step + 1, text.substr(at, begin - at), take);
      if (end > begin) split(step + 1, text.substr(begin, end - begin), take);
      at = end;
    }
  }
};

Splitter::Splitter(const std::vector<std::string>& expressions) : state_(std::make_unique<State>()) {
  if (expressions.size() > most)
    throw NotImplementedError("[tokenizer] texts are split by " + std::to_string(expressions.size()) +
                              " expressions; expected at most 16");
  for (const std::string& e : expressions) {
    check_syntax(e);
    int error = 0;
    PCRE2_SIZE place = 0;
    state_->codes.emplace_back(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(e.data()), e.size(), PCRE2_UTF | PCRE2_UCP,
                                             &error, &place, nullptr));
    if (!state_->codes.back()) refuse(e, "is refused by PCRE2 with error " + std::to_string(error));
  }
}

void Splitter::split(std::string_view text, const std::function<void(std::string_view)>& take) const {
  state_->split(0, text, take);
}

#else

struct Splitter::State {};

Splitter::Splitter(const std::vector<std::string>&) {
  throw NotImplementedError("[tokenizer] vocabularies of bytes need PCRE2, which this build of dlprim lacks");
}

void Splitter::split(std::string_view, const std::function<void(std::string_view)>&) const {}

#endif

Splitter::~Splitter() = default;

}  // namespace dlprim
