// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pointwise_code.hpp>
#include <dlprim/runtime/settings.hpp>

#include <atomic>

#include "check.hpp"
#include "foreach_batch.hpp"

namespace dlprim {

namespace {

constexpr int scalar_limit = 8;
constexpr std::size_t group_size = 256;

struct Key {
  std::uint32_t code;
  ForeachForm form;
  std::uint8_t compute, lists, tensor_scalars, scalars;
  std::uint8_t dtypes[16], modes[16];
};

Key make_key(const ForeachCode& code, const ForeachForm& form, DataType compute, std::span<const ForeachList> lists,
             std::size_t scalars, std::size_t tensor_scalars) {
  Key key{};
  key.code = code.number, key.form = form;
  key.compute = std::uint8_t(compute), key.lists = std::uint8_t(lists.size());
  key.scalars = std::uint8_t(scalars), key.tensor_scalars = std::uint8_t(tensor_scalars);
  for (std::size_t i = 0; i < lists.size(); i++)
    key.dtypes[i] = std::uint8_t(lists[i].dtype), key.modes[i] = std::uint8_t(lists[i].mode);
  return key;
}

// Whether vectors of four elements of every tensor are aligned words of the compute type's precision or less.
bool packs(DataType compute, std::span<const ForeachList> lists) {
  for (const ForeachList& list : lists) {
    if (list.mode == ForeachMode::broadcast) continue;
    if (!is_floating(list.dtype) || compute_type(list.dtype) != compute) return false;
    for (const BufferRef& data : list.data)
      if (data.offset % (4 * size_of(list.dtype))) return false;
  }
  return true;
}

KernelSource make_source(const ForeachCode& code, const ForeachForm& form, bool cpu, DataType compute,
                         std::span<const ForeachList> lists, std::size_t scalars, std::size_t tensor_scalars) {
  const std::string value = std::string("value_") + tag(compute);
  std::string pointers, broadcasts, values, loads, each, stores, pack_loads, keep, pack_stores;
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
    values += value + " v" + n + "[UNROLL]; ";
    if (mode == ForeachMode::write) {
      each += value + " x" + n + " = 0; ";
    } else {
      pack_loads += "LOAD_PACK(" + t + ", p" + n + ", i, v" + n + "); ";
      loads += "v" + n + "[u] = " + load("i");
      each += value + " x" + n + " = v" + n + "[u]; ";
    }
    if (mode == ForeachMode::read) continue;
    keep += "v" + n + "[u] = x" + n + "; ";
    pack_stores += "STORE_PACK(" + t + ", p" + n + ", i, v" + n + "); ";
    stores += "STORE(" + t + ", p" + n + ", i, " + cl_cast(compute, lists[k].dtype, "x" + n) + "); ";
  }
  // Intel's compiler crashes where it vectorizes a loop with such conversions.
  const bool converts = std::any_of(lists.begin(), lists.end(), [&](const ForeachList& list) {
    return is_floating(compute) && !is_floating(list.dtype);
  });
  for (std::size_t s = 0; s < scalars; s++)
    broadcasts += "const " + value + " s" + std::to_string(s) + " = scalars.value[" + std::to_string(s) + "]; ";
  for (std::size_t s = 0; s < tensor_scalars; s++)
    broadcasts +=
        "const " + value + " t" + std::to_string(s) + " = table.tensor_scalar[" + std::to_string(s) + "][tensor]; ";
  KernelSource source("foreach.cl", "foreach");
  define_table(source, form, lists.size(), tensor_scalars, compute);
  source.define("SCALARS", std::int64_t(scalar_limit))
      .define("UNROLL", cpu && !converts ? 1 : 4)
      .define("T", value)
      .define("POINTERS", pointers)
      .define("BROADCASTS", broadcasts + code.once)
      .define("VALUES", values)
      .define("LOADS", loads)
      .define("EACH", each + code.each)
      .define("STORES", stores)
      .define("PACKED", form.packed)
      .define("PACK_LOADS", pack_loads)
      .define("KEEP", keep)
      .define("PACK_STORES", pack_stores);
  if (!code.rows) return source;
  source.define("ROWS");
  define_compute(source, compute);
  if (compute != DataType::float64) source.option("-cl-single-precision-constant");
  return source;
}

}  // namespace

ForeachCode::ForeachCode(std::string name, std::string each, std::string once, bool rows)
    : name(std::move(name)), each(std::move(each)), once(std::move(once)), rows(rows) {
  static std::atomic<std::uint32_t> made{0};
  number = made++;
}

void foreach(Queue& queue, const ForeachCode& code, DataType compute, std::span<const std::int64_t> sizes,
             std::span<const ForeachList> lists, std::span<const double> scalars,
             std::span<const double> tensor_scalars) {
  compute = compute_type(compute);
  for (const ForeachList& list : lists)
    DLPRIM_EXPECT(list.data.size() == sizes.size(), code.name.c_str(), "lists of ", sizes.size(), " tensors, got ",
                  list.data.size());
  if (sizes.empty()) return;
  const DeviceInfo& info = queue.device().info();
  const std::size_t per_tensor = tensor_scalars.size() / sizes.size();
  const bool cpu = info.cpu && !settings.gpu_forms;
  ForeachForm form = choose_form(info, lists, sizes.size(), per_tensor);
  form.packed = !cpu && packs(compute, lists);
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), make_key(code, form, compute, lists, scalars.size(), per_tensor),
                             [&] { return make_source(code, form, cpu, compute, lists, scalars.size(), per_tensor); });
  ForeachBatch batch(form, lists, per_tensor, compute);
  alignas(8) std::array<std::byte, 8 * scalar_limit> values;
  for (std::size_t s = 0; s < scalars.size(); s++) put_scalar(scalar_type(compute), values.data(), s, scalars[s]);
  const std::span<const std::byte> passed(values.data(), scalar_limit * size_of(scalar_type(compute)));
  const std::size_t group = cpu ? 1 : kernel.work_group(group_size);
  for (std::size_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] == 0) continue;
    const double* own = tensor_scalars.data() + i * per_tensor;
    if (batch.add(i, sizes[i], own)) continue;
    batch.run(queue, kernel, group, passed);
    batch.add(i, sizes[i], own);
  }
  batch.run(queue, kernel, group, passed);
}

}  // namespace dlprim
