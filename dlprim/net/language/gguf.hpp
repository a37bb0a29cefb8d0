// SPDX-License-Identifier: MIT
// GGUF files: metadata and tensors of language models, versions 2 and 3, little endian.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace dlprim {

class RegularFile;

/// Element types, with their numbers in files. Those behind the first three pack blocks of numbers.
enum class GgufType : std::uint32_t { f32 = 0, f16 = 1, bf16 = 30, q4_0 = 2, q8_0 = 8, q4_k = 12, q6_k = 14 };

/// How a type's blocks lie in memory.
struct GgufLayout {
  GgufType type;
  const char* name;
  std::int64_t elements, bytes;  ///< of a block
};
const GgufLayout& layout_of(GgufType type);

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<std::int64_t> sizes;  ///< outermost first, all above 0; the last is whole blocks
  std::uint64_t begin = 0, bytes = 0;  ///< in the file
  std::int64_t elements() const noexcept;
  std::string text() const;  ///< "'name' Q4_0 [2, 3]"
};

/// What a file says about itself: numbers, texts and arrays of them; arrays of arrays are read over.
using GgufValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>>;

/// An open file. What it says is checked when it is opened: a ValidationError names what is wrong, and nothing takes
/// more memory than some times the file's header. Tensors lie in the file and do not overlap.
class GgufFile {
 public:
  explicit GgufFile(const std::string& path);
  GgufFile(GgufFile&&) noexcept;
  ~GgufFile();

  const std::vector<GgufTensor>& tensors() const noexcept { return tensors_; }
  /// The tensor of a name, or null.
  const GgufTensor* find(const std::string& name) const noexcept;
  /// Fills `to` with bytes of a tensor from `offset` on.
  void read(const GgufTensor& tensor, std::uint64_t offset, std::span<std::byte> to) const;

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
  void place_tensors(std::uint64_t data);
  std::unique_ptr<RegularFile> file_;
  std::map<std::string, GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, std::size_t> places_;
};

}  // namespace dlprim
