// SPDX-License-Identifier: MIT
#include <dlprim/runtime/environment.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

namespace dlprim::environment {

namespace {

struct Value {
  bool is_set;
  std::string text;
};

// Values are never freed: pointers to them are given out, and some are used while the process ends.
std::array<std::atomic<const Value*>, std::size(names)> values;

const Value& value_of(Variable variable) {
  std::atomic<const Value*>& slot = values[variable.index()];
  if (const Value* known = slot.load(std::memory_order_acquire)) return *known;
  const char* text = std::getenv(std::string(names[variable.index()]).c_str());
  const Value *fresh = new Value{text != nullptr, text ? text : ""}, *none = nullptr;
  if (slot.compare_exchange_strong(none, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;  // another thread was first
  return *none;
}

}  // namespace

const char* raw(Variable variable) {
  const Value& value = value_of(variable);
  return value.is_set ? value.text.c_str() : nullptr;
}

const char* text(Variable variable) {
  const Value& value = value_of(variable);
  return value.text.empty() ? nullptr : value.text.c_str();
}

std::optional<bool> choice(Variable variable) {
  const char* given = text(variable);
  if (!given) return std::nullopt;
  std::string word = given;
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return word != "0" && word != "off" && word != "false" && word != "no";
}

std::optional<std::int64_t> number(Variable variable) {
  const char* given = text(variable);
  if (!given) return std::nullopt;
  std::int64_t value = 0;
  const char* end = given + std::strlen(given);
  const auto parsed = std::from_chars(given, end, value);
  return parsed.ec == std::errc() && parsed.ptr == end && value > 0 ? std::optional(value) : std::nullopt;
}

void reread() {
  for (auto& slot : values) slot.store(nullptr, std::memory_order_release);
}

}  // namespace dlprim::environment
