// SPDX-License-Identifier: MIT
// Tensors in the files of a language model.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dlprim {

class RegularFile;
struct Arrangement;
struct Part;

/// Element types, with their numbers in GGUF files. Those behind the first three pack blocks of numbers.
enum class WeightType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  bf16 = 30,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  mxfp4 = 39,
  u8 = 0x10000,  // bytes, of which arrangements make weights; not in GGUF files
};

/// How a type's blocks lie in memory.
struct WeightLayout {
  WeightType type;
  const char* name;
  std::int64_t elements, bytes;  ///< of a block
};
const WeightLayout& layout_of(WeightType type);

struct WeightTensor {
  std::string name;
  WeightType type = WeightType::f32;
  std::vector<std::int64_t> sizes;     ///< outermost first, all above 0; the last is whole blocks
  std::uint64_t begin = 0, bytes = 0;  ///< in the file
  std::size_t file = 0;                ///< which of the files
  std::shared_ptr<const Arrangement> arrangement;  ///< of what the file holds, in place of a position; or null
  std::int64_t elements() const noexcept;
  std::string text() const;  ///< "'name' Q4_0 [2, 3]"
};

/// Open files that hold tensors. What they say is checked when they are opened: a ValidationError names what is wrong.
/// Tensors lie in their file and do not overlap.
class WeightFile {
 public:
  WeightFile(const WeightFile&) = delete;
  virtual ~WeightFile();

  const std::vector<WeightTensor>& tensors() const noexcept { return tensors_; }
  /// The tensor of a name, or null.
  const WeightTensor* find(const std::string& name) const noexcept;
  /// Fills `to` with bytes of a tensor from `offset` on: whole rows of one that is arranged.
  void read(const WeightTensor& tensor, std::uint64_t offset, std::span<std::byte> to) const;

 protected:
  /// `format` begins the errors.
  explicit WeightFile(std::string format);
  [[noreturn]] void fail(const std::string& message) const;
  /// Adds a tensor of the file opened last, with its name, type, sizes and position counted from the data's begin;
  /// finds out how many bytes it has.
  void add(WeightTensor tensor);
  /// Checks the tensors of the file opened last, whose data begin at a byte of it.
  void place(std::uint64_t data);
  /// Takes tensors out, which others have become, and adds these.
  void replace(const std::vector<std::string>& stored, std::vector<WeightTensor> others);

  std::vector<std::unique_ptr<RegularFile>> files_;
  std::vector<WeightTensor> tensors_;

 private:
  std::string format_;
  std::map<std::string, std::size_t> places_;
};

}  // namespace dlprim
