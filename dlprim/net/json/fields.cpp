// SPDX-License-Identifier: MIT
#include "fields.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <sstream>
#include <unordered_set>

namespace dlprim {

namespace {

// What an error shows of a value.
std::string shown(const Json& value) {
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

// An error of the parser, which quotes the text: bytes that may be no characters are left out.
std::string plain(const char* message) {
  std::string result = message;
  std::ranges::replace_if(result, [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  try {
    return Json::parse(text.begin(), text.end(), nullptr, true, true);
  } catch (const Json::exception& error) {
    throw ValidationError("[" + where + "] this is no JSON: " + plain(error.what()));
  }
}

Json parse_strict_json(std::string_view text, const std::string& where, std::size_t deepest) {
  const auto fail = [&](const std::string& message) { throw ValidationError("[" + where + "] " + message); };
  std::vector<std::unordered_set<std::string>> open;  // names of members, for each object and list around
  const auto check = [&](int, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (open.size() >= deepest) fail("lists and objects lie more than " + std::to_string(deepest) + " in each other");
      open.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      open.pop_back();
    } else if (event == Event::key && !open.back().insert(parsed.get_ref<const std::string&>()).second) {
      fail("'" + parsed.get<std::string>().substr(0, 200) + "' is there twice");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    throw ValidationError("[" + where + "] this is no JSON: " + plain(error.what()));
  }
}

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object() && !object.is_null()) fail("expected an object, got " + shown(object));
}

void Fields::fail(const std::string& message) const { throw ValidationError("[" + where_ + "] " + message); }

void Fields::wrong(const char* key, const char* expected, const Json& got) const {
  fail(std::string("expected ") + expected + " for '" + key + "', got " + shown(got));
}

const Json* Fields::find(const char* key) {
  asked_.insert(key);
  if (object_.is_null()) return nullptr;
  auto it = object_.find(key);
  return it == object_.end() ? nullptr : &*it;
}

bool Fields::has(const char* key) { return find(key) != nullptr; }

const Json& Fields::at(const char* key) {
  const Json* value = find(key);
  if (!value) fail(std::string("'") + key + "' is missing");
  return *value;
}

std::string Fields::text(const char* key, std::optional<std::string> otherwise) {
  if (otherwise && !has(key)) return *otherwise;
  const Json& value = at(key);
  if (!value.is_string()) wrong(key, "a text", value);
  return value.get<std::string>();
}

std::string Fields::choice(const char* key, const char* choices, std::optional<std::string> otherwise) {
  const std::string value = text(key, std::move(otherwise));
  std::istringstream words(choices);
  for (std::string word; std::getline(words, word, '|');)
    if (word == value) return value;
  fail(std::string("expected one of ") + choices + " for '" + key + "', got " + value);
}

bool Fields::flag(const char* key, bool otherwise) {
  if (!has(key)) return otherwise;
  const Json& value = at(key);
  if (!value.is_boolean()) wrong(key, "true or false", value);
  return value.get<bool>();
}

double Fields::real(const char* key, std::optional<double> otherwise) {
  if (otherwise && !has(key)) return *otherwise;
  const Json& value = at(key);
  if (!value.is_number()) wrong(key, "a number", value);
  return value.get<double>();
}

std::int64_t Fields::whole(const char* key, const Json& value, std::int64_t least) const {
  constexpr std::int64_t limit = std::int64_t(1) << 40;
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t(limit)))
    wrong(key, "an integer", value);
  const std::int64_t result = value.get<std::int64_t>();
  if (result < least || result < -limit)
    fail(std::string("expected ") + std::to_string(least) + " or more for '" + key + "', got " + shown(value));
  return result;
}

std::int64_t Fields::integer(const char* key, std::optional<std::int64_t> otherwise, std::int64_t least) {
  if (otherwise && !has(key)) return *otherwise;
  return whole(key, at(key), least);
}

std::vector<std::int64_t> Fields::integers(const char* key) {
  const Json& list = at(key);
  if (!list.is_array()) wrong(key, "a list of integers", list);
  std::vector<std::int64_t> result;
  for (const Json& value : list) result.push_back(whole(key, value, INT64_MIN));
  return result;
}

std::vector<std::int64_t> Fields::pair(const char* key, std::optional<std::int64_t> otherwise, std::int64_t least) {
  if (otherwise && !has(key)) return {*otherwise, *otherwise};
  const Json& value = at(key);
  auto number = [&](const Json& from) {
    if (whole(key, from, least) > std::int64_t(1) << 30) fail(std::string("expected at most 2^30 for '") + key + "'");
    return from.get<std::int64_t>();
  };
  if (!value.is_array()) return std::vector<std::int64_t>(2, number(value));
  if (value.size() != 2) wrong(key, "an integer or two", value);
  return {number(value[0]), number(value[1])};
}

std::vector<std::string> Fields::texts(const char* key) {
  std::vector<std::string> result;
  if (!has(key)) return result;
  const Json& list = at(key);
  if (!list.is_array()) wrong(key, "a list of texts", list);
  for (const Json& value : list) {
    if (!value.is_string()) wrong(key, "a list of texts", value);
    result.push_back(value.get<std::string>());
  }
  return result;
}

DataType Fields::dtype(const char* key) {
  const std::string type = text(key, "float");
  try {
    return parse_data_type(type);
  } catch (const ValidationError& error) {
    fail(error.what());
  }
}

Shape Fields::shape(const char* key) {
  Shape shape(integers(key));
  for (std::int64_t size : shape)
    if (size < 1) fail(std::string("expected sizes of 1 or more for '") + key + "', got " + shape.text());
  return shape;
}

void Fields::finish() const {
  std::string unknown;
  for (const auto& member : object_.items())
    if (!asked_.contains(member.key())) unknown += (unknown.empty() ? "" : ", ") + member.key();
  if (!unknown.empty()) fail("unknown keys: " + unknown);
}

}  // namespace dlprim
