// SPDX-License-Identifier: MIT
#include <dlprim/primitives/foreach.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>
#include <array>
#include <bit>

namespace dlprim {

namespace {

constexpr int scalar_limit = 8;
constexpr std::uint32_t chunk = 8192;  // elements a work-group handles
constexpr std::size_t group_size = 256;

// What one launch can describe: buffers it can address and bytes of its table of tensors. Every buffer costs the host
// time in each launch, so that there is a kernel for each power of 2.
struct Form {
  std::uint16_t buffers, table_bytes;
};
constexpr Form small_form{8, 760};  // with the other parameters within the 1024 bytes that every device takes
constexpr std::uint16_t buffer_limit = 64;
constexpr std::size_t tables[] = {760, 2304, 7168, 12032};  // 64 buffers and the scalars fill 1088 bytes
constexpr std::size_t other_parameters = 1280;

struct Key {
  std::uint64_t code;
  Form form;
  std::uint8_t compute, lists, tensor_scalars, scalars;
  std::uint8_t dtypes[16], modes[16];
};

Key make_key(const ForeachCode& code, const Form& form, DataType compute, std::span<const ForeachList> lists,
             std::size_t scalars, std::size_t tensor_scalars) {
  Key key{};
  const std::size_t hash = std::hash<std::string_view>{}(code.name);
  key.code = hash, key.form = form;
  key.compute = std::uint8_t(compute), key.lists = std::uint8_t(lists.size());
  key.scalars = std::uint8_t(scalars), key.tensor_scalars = std::uint8_t(tensor_scalars);
  for (std::size_t i = 0; i < lists.size(); i++)
    key.dtypes[i] = std::uint8_t(lists[i].dtype), key.modes[i] = std::uint8_t(lists[i].mode);
  return key;
}

// Tensors one launch can describe.
std::size_t capacity(const Form& form, std::size_t lists, std::size_t tensor_scalars) {
  return (form.table_bytes - 8) / (8 * lists + 8 + 8 * std::max<std::size_t>(tensor_scalars, 1) + 4) / 2 * 2;
}

// Numbers for buffers, in the order in which they first appear.
class Buffers {
 public:
  // The number of `memory`, which the list `list` refers to; the size when it is a new one for which there is no room.
  std::size_t number(std::size_t list, cl_mem memory, std::size_t room) {
    std::size_t& last = last_[list];  // tensors of a list tend to lie together
    if (last < size_ && all_[last] == memory) return last;
    const std::size_t found = std::size_t(std::find(all_.begin(), all_.begin() + size_, memory) - all_.begin());
    if (found == size_ && size_ < room) all_[size_++] = memory;
    return last = found;
  }
  std::size_t size() const { return size_; }
  cl_mem operator[](std::size_t number) const { return all_[number]; }
  void resize(std::size_t size) { size_ = size; }

 private:
  std::array<cl_mem, buffer_limit> all_;
  std::array<std::size_t, 16> last_{};
  std::size_t size_ = 0;
};

// The smallest form of which one launch suffices, else the largest.
Form choose_form(const DeviceInfo& device, std::span<const ForeachList> lists, std::size_t tensors,
                 std::size_t tensor_scalars) {
  if (device.max_parameters < tables[1] + other_parameters) return small_form;
  Form form = small_form;
  for (const std::size_t bytes : tables)
    if (bytes + other_parameters <= device.max_parameters && tensors > capacity(form, lists.size(), tensor_scalars))
      form.table_bytes = std::uint16_t(bytes);
  Buffers buffers;
  for (std::size_t k = 0; k < lists.size(); k++)
    for (const BufferRef& data : lists[k].data) buffers.number(k, data.memory, buffer_limit);
  form.buffers = std::max(small_form.buffers, std::uint16_t(std::bit_ceil(buffers.size())));
  return form;
}

// A scalar's type: the compute type for floats, 64 bits otherwise, so that the table has one layout.
DataType scalar_type(DataType compute) { return is_floating(compute) ? compute : DataType::int64; }

const char* value_type(DataType type) {
  return type == DataType::float64 ? "double" : type == DataType::float32 ? "float" : "long";
}

KernelSource make_source(const ForeachCode& code, const Form& form, bool cpu, DataType compute,
                         std::span<const ForeachList> lists, std::size_t scalars, std::size_t tensor_scalars) {
  const std::string value = std::string("value_") + tag(compute);
  std::string parameters, cases, pointers, broadcasts, values, loads, each, stores;
  for (int b = 0; b < form.buffers; b++) {
    const std::string n = std::to_string(b);
    parameters += "GLOBAL(char, b" + n + "), ";
    cases += "case " + n + ": base = b" + n + "_memory; break; ";
  }
  for (std::size_t k = 0; k < lists.size(); k++) {
    const std::string n = std::to_string(k), t = tag(lists[k].dtype);
    const ForeachMode mode = lists[k].mode;
    auto load = [&](const char* index) {
      return cl_cast(lists[k].dtype, compute, "LOAD(" + t + ", p" + n + ", " + index + ")") + "; ";
    };
    pointers += "__global storage_" + t + " *p" + n + " = (__global storage_" + t + " *)address[" + n + "]; ";
    if (mode == ForeachMode::broadcast) {
      broadcasts += value + " x" + n + " = " + load("0");
      continue;
    }
    pointers += "p" + n + " += begin; ";
    if (mode == ForeachMode::write) {
      each += value + " x" + n + " = 0; ";
    } else {
      values += value + " v" + n + "[UNROLL]; ";
      loads += "v" + n + "[u] = " + load("i");
      each += value + " x" + n + " = v" + n + "[u]; ";
    }
    if (mode != ForeachMode::read)
      stores += "STORE(" + t + ", p" + n + ", i, " + cl_cast(compute, lists[k].dtype, "x" + n) + "); ";
  }
  const bool independent = std::none_of(lists.begin(), lists.end(), [](const ForeachList& list) {
    return list.mode == ForeachMode::broadcast;
  });
  // Intel's compiler crashes where it turns a loop with such conversions into vectors.
  const bool converts = std::any_of(lists.begin(), lists.end(), [&](const ForeachList& list) {
    return is_floating(compute) && !is_floating(list.dtype);
  });
  for (std::size_t s = 0; s < scalars; s++)
    broadcasts += "const " + value + " s" + std::to_string(s) + " = scalars.value[" + std::to_string(s) + "]; ";
  for (std::size_t s = 0; s < tensor_scalars; s++)
    broadcasts +=
        "const " + value + " t" + std::to_string(s) + " = table.tensor_scalar[" + std::to_string(s) + "][tensor]; ";
  KernelSource source("foreach.cl", "foreach");
  source.define("LISTS", std::int64_t(lists.size()))
      .define("TENSORS", std::int64_t(capacity(form, lists.size(), tensor_scalars)))
      .define("SCALARS", std::int64_t(scalar_limit))
      .define("TENSOR_SCALARS", std::int64_t(std::max<std::size_t>(tensor_scalars, 1)))
      .define("CHUNK", std::int64_t(chunk))
      .define("UNROLL", cpu && !converts ? 1 : 4)
      .define("INDEPENDENT", independent)
      .define("S", value_type(scalar_type(compute)))
      .define("T", value)
      .define("BUFFERS", parameters)
      .define("BUFFER_CASES", cases)
      .define("POINTERS", pointers)
      .define("BROADCASTS", broadcasts + code.once)
      .define("VALUES", values)
      .define("LOADS", loads)
      .define("EACH", each + code.each)
      .define("STORES", stores);
  return source;
}

// The parameters of one launch as they fill up.
class Batch {
 public:
  Batch(const Form& form, std::span<const ForeachList> lists, std::size_t tensor_scalars, DataType compute)
      : form_(form), lists_(lists), tensor_scalars_(tensor_scalars),
        tensors_(capacity(form, lists.size(), tensor_scalars)), scalar_(scalar_type(compute)) {}

  // False when the launch is full; then nothing was added.
  bool add(std::size_t tensor, std::int64_t size, const double* tensor_scalars) {
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
      put_scalar(table_.data() + at_scalars(), s * tensors_ + count_, tensor_scalars[s]);
    chunks_ += std::uint32_t((size + chunk - 1) / chunk);
    put(at_chunks() + 4 * count_, chunks_);
    count_++;
    return true;
  }

  // Launches what was added and starts anew.
  void run(Queue& queue, Kernel& kernel, std::span<const double> scalars) {
    if (chunks_ == 0) return;
    put(at_tensors(), std::uint32_t(count_));
    alignas(8) std::array<std::byte, 8 * scalar_limit> values;
    for (std::size_t s = 0; s < scalars.size(); s++) put_scalar(values.data(), s, scalars[s]);
    std::array<BufferRef, buffer_limit> b;
    for (std::size_t k = 0; k < form_.buffers; k++) b[k] = {buffers_[std::min(k, buffers_.size() - 1)], 0};
    const std::size_t group = queue.device().info().cpu ? 1 : std::min(group_size, kernel.max_work_group());
    launch(queue, kernel, NDRange(chunks_ * group, group), std::span<const BufferRef>(b.data(), form_.buffers),
           std::span<const std::byte>(table_.data(), (at_tensors() + sizeof(std::uint32_t) + 7) / 8 * 8),
           std::span<const std::byte>(values.data(), scalar_limit * size_of(scalar_)));
    buffers_.resize(0);
    count_ = 0, chunks_ = 0;
  }

 private:
  std::size_t at_scalars() const { return 8 * (lists_.size() + 1) * tensors_; }
  std::size_t at_chunks() const {
    return at_scalars() + size_of(scalar_) * std::max<std::size_t>(tensor_scalars_, 1) * tensors_;
  }
  std::size_t at_tensors() const { return at_chunks() + 4 * tensors_; }

  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(table_.data() + offset, &value, sizeof value);
  }

  void put_scalar(std::byte* to, std::size_t index, double value) const {
    auto store = [&](auto number) { std::memcpy(to + index * sizeof number, &number, sizeof number); };
    if (scalar_ == DataType::float64) store(value);
    else if (scalar_ == DataType::float32) store(float(value));
    else store(std::int64_t(value));
  }

  Form form_;
  std::span<const ForeachList> lists_;
  std::size_t tensor_scalars_, tensors_;
  DataType scalar_;
  alignas(8) std::array<std::byte, tables[std::size(tables) - 1]> table_;  // the kernel's Table, as far as it is filled
  Buffers buffers_;
  std::size_t count_ = 0;
  std::uint32_t chunks_ = 0;
};

}  // namespace

void foreach(Queue& queue, const ForeachCode& code, DataType compute, std::span<const std::int64_t> sizes,
             std::span<const ForeachList> lists, std::span<const double> scalars,
             std::span<const double> tensor_scalars) {
  compute = compute_type(compute);
  for (const ForeachList& list : lists)
    if (list.data.size() != sizes.size())
      throw ValidationError("[" + std::string(code.name) + "] expected lists of " + std::to_string(sizes.size()) +
                            " tensors, got " + std::to_string(list.data.size()));
  if (sizes.empty()) return;
  const DeviceInfo& info = queue.device().info();
  const std::size_t per_tensor = tensor_scalars.size() / sizes.size();
  const Form form = choose_form(info, lists, sizes.size(), per_tensor);
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), make_key(code, form, compute, lists, scalars.size(), per_tensor), [&] {
    return make_source(code, form, info.cpu, compute, lists, scalars.size(), per_tensor);
  });
  Batch batch(form, lists, per_tensor, compute);
  for (std::size_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] == 0) continue;
    const double* own = tensor_scalars.data() + i * per_tensor;
    if (batch.add(i, sizes[i], own)) continue;
    batch.run(queue, kernel, scalars);
    batch.add(i, sizes[i], own);
  }
  batch.run(queue, kernel, scalars);
}

}  // namespace dlprim
