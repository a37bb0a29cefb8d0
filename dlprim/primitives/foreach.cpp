// SPDX-License-Identifier: MIT
#include <dlprim/primitives/foreach.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace dlprim {

namespace {

constexpr int scalar_limit = 8;
constexpr std::uint32_t chunk = 8192;  // elements a work-group handles
constexpr std::size_t group_size = 256;

// What one launch can describe: buffers it can address and bytes of its table of tensors.
struct Form {
  std::uint16_t buffers, table_bytes;
};
constexpr Form small_form{8, 760};  // with the other parameters within the 1024 bytes that every device takes
constexpr std::uint16_t buffer_limit = 64;

// The form of devices that take more parameters; 64 buffers and the scalars fill 1088 bytes.
Form large_form(const DeviceInfo& device) {
  if (device.max_parameters < 3584) return small_form;
  return {buffer_limit, std::uint16_t((std::min<std::size_t>(device.max_parameters, 13312) - 1280) / 8 * 8)};
}

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

// The small form where one launch of it suffices.
Form choose_form(const DeviceInfo& device, std::span<const ForeachList> lists, std::size_t tensors,
                 std::size_t tensor_scalars) {
  if (tensors > capacity(small_form, lists.size(), tensor_scalars)) return large_form(device);
  std::array<cl_mem, small_form.buffers> seen;
  auto end = seen.begin();
  for (const ForeachList& list : lists)
    for (const BufferRef& data : list.data) {
      if (std::find(seen.begin(), end, data.memory) != end) continue;
      if (end == seen.end()) return large_form(device);
      *end++ = data.memory;
    }
  return small_form;
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

// A parameter of run-time layout, passed by value as the kernel's Table and Scalars structs.
struct Bytes {
  std::vector<std::byte> data;
  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(data.data() + offset, &value, sizeof value);
  }
};

// The parameters of one launch as they fill up.
class Batch {
 public:
  Batch(const Form& form, std::span<const ForeachList> lists, std::size_t tensor_scalars, DataType compute)
      : form_(form), lists_(lists), tensor_scalars_(tensor_scalars),
        tensors_(capacity(form, lists.size(), tensor_scalars)), scalar_(scalar_type(compute)) {
    const std::size_t bytes = at_tensors() + sizeof(std::uint32_t);
    table_.data.resize((bytes + 7) / 8 * 8);
  }

  // False when the launch is full; then nothing was added.
  bool add(std::size_t tensor, std::int64_t size, const double* tensor_scalars) {
    if (count_ == tensors_) return false;
    std::array<std::uint64_t, 16> packed{};
    const std::size_t before = buffers_.size();
    for (std::size_t k = 0; k < lists_.size(); k++) {
      const BufferRef& data = lists_[k].data[tensor];
      std::size_t number = last_[k];  // tensors of a list tend to lie together
      if (number >= buffers_.size() || buffers_[number] != data.memory)
        number = std::size_t(std::find(buffers_.begin(), buffers_.end(), data.memory) - buffers_.begin());
      if (number >= form_.buffers) {
        buffers_.resize(before);
        return false;
      }
      if (number == buffers_.size()) buffers_.push_back(data.memory);
      last_[k] = number;
      packed[k] = (std::uint64_t(number) << 56) | data.offset;
    }
    for (std::size_t k = 0; k < lists_.size(); k++) table_.put(8 * (k * tensors_ + count_), packed[k]);
    table_.put(8 * (lists_.size() * tensors_ + count_), std::uint64_t(size));
    for (std::size_t s = 0; s < tensor_scalars_; s++)
      put_scalar(table_, at_scalars(), s * tensors_ + count_, tensor_scalars[s]);
    chunks_ += std::uint32_t((size + chunk - 1) / chunk);
    table_.put(at_chunks() + 4 * count_, chunks_);
    count_++;
    return true;
  }

  // Launches what was added and starts anew.
  void run(Queue& queue, Kernel& kernel, std::span<const double> scalars) {
    if (chunks_ == 0) return;
    table_.put(at_tensors(), std::uint32_t(count_));
    Bytes values{std::vector<std::byte>(scalar_limit * size_of(scalar_))};
    for (std::size_t s = 0; s < scalars.size(); s++) put_scalar(values, 0, s, scalars[s]);
    std::array<BufferRef, buffer_limit> b;
    for (std::size_t k = 0; k < b.size(); k++) b[k] = {buffers_[std::min(k, buffers_.size() - 1)], 0};
    const std::size_t group = queue.device().info().cpu ? 1 : std::min(group_size, kernel.max_work_group());
    launch(queue, kernel, NDRange(chunks_ * group, group), std::span<const BufferRef>(b.data(), form_.buffers),
           std::span<const std::byte>(table_.data), std::span<const std::byte>(values.data));
    buffers_.clear();
    count_ = 0, chunks_ = 0;
  }

 private:
  std::size_t at_scalars() const { return 8 * (lists_.size() + 1) * tensors_; }
  std::size_t at_chunks() const {
    return at_scalars() + size_of(scalar_) * std::max<std::size_t>(tensor_scalars_, 1) * tensors_;
  }
  std::size_t at_tensors() const { return at_chunks() + 4 * tensors_; }

  void put_scalar(Bytes& bytes, std::size_t offset, std::size_t index, double value) const {
    if (scalar_ == DataType::float64) bytes.put(offset + 8 * index, value);
    else if (scalar_ == DataType::float32) bytes.put(offset + 4 * index, float(value));
    else bytes.put(offset + 8 * index, std::int64_t(value));
  }

  Form form_;
  std::span<const ForeachList> lists_;
  std::size_t tensor_scalars_, tensors_;
  DataType scalar_;
  Bytes table_{};
  std::vector<cl_mem> buffers_;
  std::array<std::size_t, 16> last_{};
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
