// SPDX-License-Identifier: MIT
// GGUF files: metadata and tensors of language models, versions 2 and 3, little endian.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tensors.hpp"

namespace dlprim {

/// What a file says about itself: numbers, texts and arrays of them; arrays of arrays are read over.
using GgufValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>>;

/// An open file; reading its header takes no more memory than some times the header's bytes.
class GgufFile : public WeightFile {
 public:
  explicit GgufFile(const std::string& path);

  bool has(const std::string& key) const noexcept { return values_.contains(key); }
  /// The value of a key, or nothing where the file lacks it. Throws ValidationError for values of another kind.
  std::optional<std::int64_t> integer(const std::string& key) const;
  std::optional<double> real(const std::string& key) const;  ///< integers too
  std::optional<bool> flag(const std::string& key) const;
  const std::string* text(const std::string& key) const;
  const std::vector<std::int64_t>* integers(const std::string& key) const;
  const std::vector<double>* reals(const std::string& key) const;
  const std::vector<std::string>* texts(const std::string& key) const;

 private:
  class Reader;
  template <class T>
  const T* value(const std::string& key, const char* kind) const;
  void read_values(Reader& reader, std::uint64_t count);
  void read_tensors(Reader& reader, std::uint64_t count);
  std::map<std::string, GgufValue> values_;
};

}  // namespace dlprim
