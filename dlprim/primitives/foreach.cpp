// SPDX-License-Identifier: MIT
#include <dlprim/primitives/foreach.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>
#include <vector>

namespace dlprim {

namespace {

constexpr int buffer_limit = 8;  // buffers one launch can address
constexpr std::size_t table_bytes = 760;  // with the other parameters within the 1024 bytes every device takes
constexpr int scalar_limit = 8;
constexpr std::uint32_t chunk = 8192;  // elements a work-group handles
constexpr std::size_t group_size = 256;

struct Key {
  std::uint64_t code;
  std::uint8_t compute, lists, tensor_scalars, scalars;
  std::uint8_t dtypes[14], modes[14];
};

Key make_key(const ForeachCode& code, DataType compute, std::span<const ForeachList> lists, std::size_t scalars,
             std::size_t tensor_scalars) {
  Key key{};
  const std::size_t hash = std::hash<std::string_view>{}(code.name);
  key.code = hash;
  key.compute = std::uint8_t(compute), key.lists = std::uint8_t(lists.size());
  key.scalars = std::uint8_t(scalars), key.tensor_scalars = std::uint8_t(tensor_scalars);
  for (std::size_t i = 0; i < lists.size(); i++)
    key.dtypes[i] = std::uint8_t(lists[i].dtype), key.modes[i] = std::uint8_t(lists[i].mode);
  return key;
}

// Tensors one launch can describe.
std::size_t capacity(std::size_t lists, std::size_t tensor_scalars) {
  return (table_bytes - 8) / (8 * lists + 8 + 8 * std::max<std::size_t>(tensor_scalars, 1) + 4) / 2 * 2;
}

// A scalar's type: the compute type for floats, 64 bits otherwise, so that the table has one layout.
DataType scalar_type(DataType compute) { return is_floating(compute) ? compute : DataType::int64; }

const char* value_type(DataType type) {
  return type == DataType::float64 ? "double" : type == DataType::float32 ? "float" : "long";
}

KernelSource make_source(const ForeachCode& code, DataType compute, std::span<const ForeachList> lists,
                         std::size_t scalars, std::size_t tensor_scalars) {
  const std::string value = std::string("value_") + tag(compute);
  std::string loads, stores, broadcasts;
  for (std::size_t k = 0; k < lists.size(); k++) {
    const std::string x = "x" + std::to_string(k), t = tag(lists[k].dtype);
    const std::string pointer = "((__global storage_" + t + " *)ARG(" + std::to_string(k) + "))";
    auto load = [&](const char* index) {
      return value + " " + x + " = " +
             cl_cast(lists[k].dtype, compute, "LOAD(" + t + ", " + pointer + ", " + index + ")") + "; ";
    };
    const ForeachMode mode = lists[k].mode;
    if (mode == ForeachMode::broadcast) broadcasts += load("0");
    else if (mode == ForeachMode::write) loads += value + " " + x + " = 0; ";
    else loads += load("i");
    if (mode == ForeachMode::write || mode == ForeachMode::update)
      stores += "STORE(" + t + ", " + pointer + ", i, " + cl_cast(compute, lists[k].dtype, x) + "); ";
  }
  for (std::size_t s = 0; s < scalars; s++)
    broadcasts += "const " + value + " s" + std::to_string(s) + " = scalars.value[" + std::to_string(s) + "]; ";
  for (std::size_t s = 0; s < tensor_scalars; s++)
    broadcasts += "const " + value + " t" + std::to_string(s) + " = table.tensor_scalar[" + std::to_string(s) + "][tensor]; ";
  KernelSource source("foreach.cl", "foreach");
  source.define("LISTS", std::int64_t(lists.size()))
      .define("TENSORS", std::int64_t(capacity(lists.size(), tensor_scalars)))
      .define("SCALARS", std::int64_t(scalar_limit))
      .define("TENSOR_SCALARS", std::int64_t(std::max<std::size_t>(tensor_scalars, 1)))
      .define("CHUNK", std::int64_t(chunk))
      .define("S", value_type(scalar_type(compute)))
      .define("T", value)
      .define("BROADCASTS", broadcasts)
      .define("ONCE", code.once)
      .define("LOADS", loads)
      .define("EACH", code.each)
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
  Batch(std::size_t lists, std::size_t tensor_scalars, DataType compute)
      : lists_(lists), tensor_scalars_(std::max<std::size_t>(tensor_scalars, 1)),
        tensors_(capacity(lists, tensor_scalars)), scalar_(scalar_type(compute)) {
    const std::size_t bytes = at_tensors() + sizeof(std::uint32_t);
    table_.data.resize((bytes + 7) / 8 * 8);
  }

  // False when the launch is full; then nothing was added.
  bool add(std::span<const ForeachList> lists, std::size_t tensor, std::int64_t size, const double* tensor_scalars,
           std::size_t tensor_scalar_count) {
    if (count_ == tensors_) return false;
    std::array<std::uint64_t, 16> packed{};
    const std::size_t before = buffers_.size();
    for (std::size_t k = 0; k < lists.size(); k++) {
      const BufferRef& data = lists[k].data[tensor];
      const auto found = std::find(buffers_.begin(), buffers_.end(), data.memory);
      const std::size_t number = std::size_t(found - buffers_.begin());
      if (number >= buffer_limit) {
        buffers_.resize(before);
        return false;
      }
      if (found == buffers_.end()) buffers_.push_back(data.memory);
      packed[k] = (std::uint64_t(number) << 56) | data.offset;
    }
    for (std::size_t k = 0; k < lists.size(); k++) table_.put(8 * (k * tensors_ + count_), packed[k]);
    table_.put(8 * (lists_ * tensors_ + count_), std::uint64_t(size));
    for (std::size_t s = 0; s < tensor_scalar_count; s++) put_scalar(table_, at_scalars(), s * tensors_ + count_, tensor_scalars[s]);
    chunks_ += std::uint32_t((size + chunk - 1) / chunk);
    table_.put(at_chunks() + 4 * count_, chunks_);
    count_++;
    return true;
  }

  void run(Queue& queue, Kernel& kernel, std::span<const double> scalars) {
    if (chunks_ == 0) return;
    table_.put(at_tensors(), std::uint32_t(count_));
    Bytes values{std::vector<std::byte>(scalar_limit * size_of(scalar_))};
    for (std::size_t s = 0; s < scalars.size(); s++) put_scalar(values, 0, s, scalars[s]);
    std::array<BufferRef, buffer_limit> b;
    for (std::size_t k = 0; k < b.size(); k++) b[k] = {buffers_[std::min(k, buffers_.size() - 1)], 0};
    const std::size_t group = std::min(group_size, kernel.max_work_group());
    launch(queue, kernel, NDRange(chunks_ * group, group), b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7],
           std::span<const std::byte>(table_.data), std::span<const std::byte>(values.data));
  }

 private:
  std::size_t at_scalars() const { return 8 * (lists_ + 1) * tensors_; }
  std::size_t at_chunks() const { return at_scalars() + size_of(scalar_) * tensor_scalars_ * tensors_; }
  std::size_t at_tensors() const { return at_chunks() + 4 * tensors_; }

  void put_scalar(Bytes& bytes, std::size_t offset, std::size_t index, double value) const {
    if (scalar_ == DataType::float64) bytes.put(offset + 8 * index, value);
    else if (scalar_ == DataType::float32) bytes.put(offset + 4 * index, float(value));
    else bytes.put(offset + 8 * index, std::int64_t(value));
  }

  std::size_t lists_, tensor_scalars_, tensors_;
  DataType scalar_;
  Bytes table_{};
  std::vector<cl_mem> buffers_;
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
  const std::size_t per_tensor = tensor_scalars.size() / sizes.size();
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), make_key(code, compute, lists, scalars.size(), per_tensor), [&] {
    return make_source(code, compute, lists, scalars.size(), per_tensor);
  });
  Batch batch(lists.size(), per_tensor, compute);
  for (std::size_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] == 0) continue;
    const double* own = tensor_scalars.data() + i * per_tensor;
    if (batch.add(lists, i, sizes[i], own, per_tensor)) continue;
    batch.run(queue, kernel, scalars);
    batch = Batch(lists.size(), per_tensor, compute);
    batch.add(lists, i, sizes[i], own, per_tensor);
  }
  batch.run(queue, kernel, scalars);
}

}  // namespace dlprim
