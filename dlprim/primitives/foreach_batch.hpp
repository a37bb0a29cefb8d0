// SPDX-License-Identifier: MIT
// Launches over many tensors: a table of their addresses and sizes as one argument, every distinct buffer as another.
#pragma once
#include <dlprim/primitives/foreach.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>
#include <array>

namespace dlprim {

constexpr std::uint32_t foreach_chunk = 8192;  // elements a work-group handles

// Chunks of a tensor; an empty one has one, too.
inline std::uint32_t foreach_chunks(std::int64_t size) {
  return std::uint32_t((std::max<std::int64_t>(size, 1) + foreach_chunk - 1) / foreach_chunk);
}

// What one launch can describe: buffers it can address and bytes of its table of tensors. Every buffer costs the host
// time in each launch, so that there is a kernel for each power of 2.
struct ForeachForm {
  static constexpr std::uint16_t most_buffers = 64, most_bytes = 12032;
  std::uint16_t buffers, table_bytes;
  std::uint16_t packed = 0;  // elements may be loaded and stored as vectors of four
  std::uint16_t unused = 0;
};

// The smallest form of which one launch suffices, else the largest.
ForeachForm choose_form(const DeviceInfo& device, std::span<const ForeachList> lists, std::size_t tensors,
                        std::size_t tensor_scalars);

// Type of a table's scalars: the compute type for floats, 64 bits otherwise, so that it has one layout.
inline DataType scalar_type(DataType compute) { return is_floating(compute) ? compute : DataType::int64; }

// As `scalar_type` stores a number at an index.
void put_scalar(DataType type, std::byte* to, std::size_t index, double value);

// Defines what lib/foreach.clh needs.
void define_table(KernelSource& source, const ForeachForm& form, std::size_t lists, std::size_t tensor_scalars,
                  DataType compute);

// Numbers for buffers, in the order in which they first appear.
class ForeachBuffers {
 public:
  // The number of `memory`, which the list `list` refers to; the size when it is a new one for which there is no room.
  std::size_t number(std::size_t list, cl_mem memory, std::size_t room);
  std::size_t size() const { return size_; }
  cl_mem operator[](std::size_t number) const { return all_[number]; }
  void resize(std::size_t size) { size_ = size; }

 private:
  std::array<cl_mem, ForeachForm::most_buffers> all_;
  std::array<std::size_t, 16> last_{};
  std::size_t size_ = 0;
};

// The parameters of one launch as they fill up.
class ForeachBatch {
 public:
  ForeachBatch(const ForeachForm& form, std::span<const ForeachList> lists, std::size_t tensor_scalars,
               DataType compute);

  // False when the launch is full; then nothing was added.
  bool add(std::size_t tensor, std::int64_t size, const double* tensor_scalars = nullptr);

  // Chunks of what was added.
  std::uint32_t chunks() const { return chunks_; }

  // Launches what was added, a group of work-items for each chunk, with `more` arguments behind the table; starts anew.
  template <class... More>
  void run(Queue& queue, Kernel& kernel, std::size_t group, const More&... more) {
    if (chunks_ == 0) return;
    std::array<BufferRef, ForeachForm::most_buffers> b;
    for (std::size_t k = 0; k < form_.buffers; k++) b[k] = {buffers_[std::min(k, buffers_.size() - 1)], 0};
    launch(queue, kernel, NDRange(chunks_ * group, group), std::span<const BufferRef>(b.data(), form_.buffers), table(),
           more...);
    buffers_.resize(0);
    count_ = 0, chunks_ = 0;
  }

 private:
  std::size_t at_scalars() const { return 8 * (lists_.size() + 1) * tensors_; }
  std::size_t at_chunks() const;
  std::size_t at_tensors() const { return at_chunks() + 4 * tensors_; }
  std::span<const std::byte> table();

  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(table_.data() + offset, &value, sizeof value);
  }

  ForeachForm form_;
  std::span<const ForeachList> lists_;
  std::size_t tensor_scalars_, tensors_;
  DataType scalar_;
  alignas(8) std::array<std::byte, ForeachForm::most_bytes> table_;  // the kernel's Table, as far as it is filled
  ForeachBuffers buffers_;
  std::size_t count_ = 0;
  std::uint32_t chunks_ = 0;
};

}  // namespace dlprim
