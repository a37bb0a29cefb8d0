// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/dtype.hpp>
#include <dlprim/net/shape.hpp>

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <string>

namespace dlprim {

using Json = nlohmann::json;

/// Parses JSON in which // comments are allowed. Throws ValidationError that starts with `where`.
Json parse_json(std::string_view text, const std::string& where);
/// The same without comments; refuses members of one name, and lists and objects more than `deepest` in each other.
Json parse_strict_json(std::string_view text, const std::string& where, std::size_t deepest);

/// Reads the members of one JSON object; every error names `where`, the expected type and what is there. A null object
/// has no members.
class Fields {
 public:
  Fields(const Json& object, std::string where);

  bool has(const char* key);
  const Json& at(const char* key);  ///< ValidationError when absent
  std::string text(const char* key, std::optional<std::string> otherwise = {});
  /// One of `choices`, apart by |.
  std::string choice(const char* key, const char* choices, std::optional<std::string> otherwise = {});
  bool flag(const char* key, bool otherwise);
  double real(const char* key, std::optional<double> otherwise = {});
  std::int64_t integer(const char* key, std::optional<std::int64_t> otherwise = {}, std::int64_t least = INT64_MIN);
  std::vector<std::int64_t> integers(const char* key);
  /// A number for both, or [height, width]; of at most 2^30.
  std::vector<std::int64_t> pair(const char* key, std::optional<std::int64_t> otherwise, std::int64_t least);
  std::vector<std::string> texts(const char* key);  ///< none when absent
  DataType dtype(const char* key);                  ///< float32 when absent
  Shape shape(const char* key);
  /// Throws for members that nobody asked for.
  void finish() const;
  [[noreturn]] void fail(const std::string& message) const;
  const std::string& where() const noexcept { return where_; }

 private:
  const Json* find(const char* key);
  [[noreturn]] void wrong(const char* key, const char* expected, const Json& got) const;
  std::int64_t whole(const char* key, const Json& value, std::int64_t least) const;

  const Json& object_;
  std::string where_;
  std::set<std::string> asked_;
};

}  // namespace dlprim
