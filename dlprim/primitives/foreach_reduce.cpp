// SPDX-License-Identifier: MIT
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <vector>

#include "foreach_batch.hpp"

namespace dlprim {

namespace {

struct Key {
  ForeachForm form;
  DataType from, to, compute;
  NormOrder order;
  std::uint8_t first, last, gpu, unused;
};

Kernel& kernel_of(Device& device, const Key& key, int lanes) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("foreach_reduce.cl", "foreach_reduce");
    define_table(source, key.form, 1, 0, key.compute);
    const bool two = key.order == NormOrder::two, most = key.order == NormOrder::infinity;
    source.define("LANES", lanes).define("BATCH", key.gpu ? 8 : 4);
    source.define("X", tag(key.from)).define("Y", tag(key.to));
    source.define("REAL", key.compute == DataType::float64 ? "double" : "float");
    source.define("EACH(x)", !key.first ? "(x)" : two ? "((x) * (x))" : "fabs(x)");
    source.define("MERGE", most ? "highest" : "PLUS");
    return source.define("FINISH(v)", key.last && two ? "sqrt(v)" : "(v)");
  });
}

// Reduces chunks to elements, and these again until every tensor has one.
void reduce(Queue& queue, NormOrder order, bool first, std::span<const std::int64_t> sizes, TensorList tensors,
            DataType compute, BufferRef results, DataType result) {
  std::vector<std::int64_t> chunks(sizes.size());
  std::int64_t all = 0;
  for (std::size_t i = 0; i < sizes.size(); i++) all += chunks[i] = foreach_chunks(sizes[i]);
  const bool last = all == std::int64_t(sizes.size());
  Workspace workspace;
  if (!last) workspace = Workspace(queue, std::size_t(all) * size_of(compute));
  const DataType to_type = last ? result : compute;
  BufferRef to = last ? results : workspace.data();

  const DeviceInfo& info = queue.device().info();
  const bool gpu = !info.cpu || settings.gpu_forms;
  const std::size_t group = std::bit_floor(std::min<std::size_t>(gpu ? 256 : 16, info.max_work_group));
  const ForeachList list{tensors.data, tensors.dtype, ForeachMode::read};
  const ForeachForm form = choose_form(info, {&list, 1}, sizes.size(), 0);
  Kernel& kernel =
      kernel_of(queue.device(), {form, tensors.dtype, to_type, compute, order, first, last, gpu, 0}, int(group));
  ForeachBatch batch(form, {&list, 1}, 0, compute);
  auto run = [&] {
    const std::size_t bytes = batch.chunks() * size_of(to_type);
    batch.run(queue, kernel, group, to);
    to.offset += bytes;
  };
  for (std::size_t i = 0; i < sizes.size(); i++) {
    if (batch.add(i, sizes[i])) continue;
    run();
    batch.add(i, sizes[i]);
  }
  run();
  if (last) return;
  std::vector<BufferRef> partials;
  partials.reserve(sizes.size());
  BufferRef from = workspace.data();
  for (const std::int64_t count : chunks) {
    partials.push_back(from);
    from.offset += std::size_t(count) * size_of(compute);
  }
  reduce(queue, order, false, chunks, {partials, compute}, compute, results, result);
}

}  // namespace

void foreach_norm(Queue& queue, NormOrder order, std::span<const std::int64_t> sizes, TensorList tensors,
                  BufferRef norms) {
  if (tensors.data.size() != sizes.size() || !is_floating(tensors.dtype))
    throw ValidationError("[foreach_norm] expected " + std::to_string(sizes.size()) + " floating tensors, got " +
                          std::to_string(tensors.data.size()) + " of " + name(tensors.dtype));
  if (!sizes.empty()) reduce(queue, order, true, sizes, tensors, compute_type(tensors.dtype), norms, tensors.dtype);
}

}  // namespace dlprim
