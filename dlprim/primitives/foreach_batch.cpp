// SPDX-License-Identifier: MIT
#include "foreach_batch.hpp"

#include <algorithm>
#include <bit>

namespace dlprim {

namespace {

constexpr ForeachForm small_form{8, 760};  // with the other parameters within the 1024 bytes that every device takes
// 64 buffers and the scalars fill 1088 bytes
constexpr std::size_t tables[] = {760, 2304, 7168, ForeachForm::most_bytes};
constexpr std::size_t other_parameters = 1280;

// Tensors one launch can describe.
std::size_t capacity(const ForeachForm& form, std::size_t lists, std::size_t tensor_scalars) {
  return (form.table_bytes - 8) / (8 * lists + 8 + 8 * std::max<std::size_t>(tensor_scalars, 1) + 4) / 2 * 2;
}

const char* value_type(DataType type) {
  return type == DataType::float64 ? "double" : type == DataType::float32 ? "float" : "long";
}

}  // namespace

std::size_t ForeachBuffers::number(std::size_t list, cl_mem memory, std::size_t room) {
  std::size_t& last = last_[list];  // tensors of a list tend to lie together
  if (last < size_ && all_[last] == memory) return last;
  const std::size_t found = std::size_t(std::find(all_.begin(), all_.begin() + size_, memory) - all_.begin());
  if (found == size_ && size_ < room) all_[size_++] = memory;
  return last = found;
}

ForeachForm choose_form(const DeviceInfo& device, std::span<const ForeachList> lists, std::size_t tensors,
                        std::size_t tensor_scalars) {
  if (device.max_parameters < tables[1] + other_parameters) return small_form;
  ForeachForm form = small_form;
  for (const std::size_t bytes : tables)
    if (bytes + other_parameters <= device.max_parameters && tensors > capacity(form, lists.size(), tensor_scalars))
      form.table_bytes = std::uint16_t(bytes);
  ForeachBuffers buffers;
  for (std::size_t k = 0; k < lists.size(); k++)
    for (const BufferRef& data : lists[k].data) buffers.number(k, data.memory, ForeachForm::most_buffers);
  form.buffers = std::max(small_form.buffers, std::uint16_t(std::bit_ceil(buffers.size())));
  return form;
}

void put_scalar(DataType type, std::byte* to, std::size_t index, double value) {
  auto store = [&](auto number) { std::memcpy(to + index * sizeof number, &number, sizeof number); };
  if (type == DataType::float64) store(value);
  else if (type == DataType::float32) store(float(value));
  else store(std::int64_t(value));
}

void define_table(KernelSource& source, const ForeachForm& form, std::size_t lists, std::size_t tensor_scalars,
                  DataType compute) {
  std::string parameters, cases;
  for (int b = 0; b < form.buffers; b++) {
    const std::string n = std::to_string(b);
    parameters += "GLOBAL(char, b" + n + "), ";
    cases += "case " + n + ": base = b" + n + "_memory; break; ";
  }
  source.define("LISTS", std::int64_t(lists))
      .define("TENSORS", std::int64_t(capacity(form, lists, tensor_scalars)))
      .define("TENSOR_SCALARS", std::int64_t(std::max<std::size_t>(tensor_scalars, 1)))
      .define("CHUNK", std::int64_t(foreach_chunk))
      .define("S", value_type(scalar_type(compute)))
      .define("BUFFERS", parameters)
      .define("BUFFER_CASES", cases);
}

ForeachBatch::ForeachBatch(const ForeachForm& form, std::span<const ForeachList> lists, std::size_t tensor_scalars,
                           DataType compute)
    : form_(form), lists_(lists), tensor_scalars_(tensor_scalars),
      tensors_(capacity(form, lists.size(), tensor_scalars)), scalar_(scalar_type(compute)) {}

bool ForeachBatch::add(std::size_t tensor, std::int64_t size, const double* tensor_scalars) {
  if (count_ == tensors_) return false;
  std::array<std::uint64_t, 16> packed;
  const std::size_t before = buffers_.size();
  for (std::size_t k = 0; k < lists_.size(); k++) {
    const BufferRef& data = lists_[k].data[tensor];
    const std::size_t number = buffers_.number(k, data.memory, form_.buffers);
    if (number == form_.buffers) {
      buffers_.resize(before);
      return false;
    }
    packed[k] = (std::uint64_t(number) << 56) | data.offset;
  }
  for (std::size_t k = 0; k < lists_.size(); k++) put(8 * (k * tensors_ + count_), packed[k]);
  put(8 * (lists_.size() * tensors_ + count_), std::uint64_t(size));
  for (std::size_t s = 0; s < tensor_scalars_; s++)
    put_scalar(scalar_, table_.data() + at_scalars(), s * tensors_ + count_, tensor_scalars[s]);
  chunks_ += foreach_chunks(size);
  put(at_chunks() + 4 * count_, chunks_);
  count_++;
  return true;
}

std::size_t ForeachBatch::at_chunks() const {
  return at_scalars() + size_of(scalar_) * std::max<std::size_t>(tensor_scalars_, 1) * tensors_;
}

std::span<const std::byte> ForeachBatch::table() {
  put(at_tensors(), std::uint32_t(count_));
  return {table_.data(), (at_tensors() + sizeof(std::uint32_t) + 7) / 8 * 8};
}

}  // namespace dlprim
