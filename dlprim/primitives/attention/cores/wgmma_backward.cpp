// SPDX-License-Identifier: MIT
// Gradients of attention on Hopper's matrix units.
#include <dlprim/runtime/static_local_memory.hpp>

#include "maps.hpp"

namespace dlprim::attention_cores {

namespace {

constexpr int block = 128, slice = 64;  // keys of a work-group, queries that pass at once

struct Key {
  std::uint8_t type, bias, causal, pairs, stages, padding;
  std::uint16_t width, value_width;
};

// Bytes of local memory with that many slices: MEMORY_BYTES in the kernel.
std::size_t memory_of(int width, int value_width, int stages) {
  const auto row = [](int columns) { return std::size_t(columns + 63) / 64 * 128; };  // bytes
  const std::size_t both = row(width) + row(value_width);
  return block * both + std::size_t(stages) * (slice * (both + 8) + 16) + 2 * 2 * block * slice +
         2 * sizeof(float) * slice * std::size_t(width) + 40;
}

// Columns of grad_q that half of the warps compute: PART in the kernel.
int part_of(int width) { return width > 64 ? 64 : (width / 16 + 1) / 2 * 16; }

KernelSource source_of(const Key& key) {
  KernelSource source("attention/wgmma_backward.cl", "backward");
  define_attention(source, key.bias, key.causal, false);
  const int part = part_of(key.width);
  source.define("TAG", tag(DataType(key.type))).define("WARPS", block / 16).define("TILES", 1).define("SLICE", slice);
  source.define("WIDTH", key.width).define("KEY_TILES", key.width / 8).define("STAGES", key.stages);
  source.define("VALUE_WIDTH", key.value_width).define("VALUE_TILES", key.value_width / 8).define("VECTOR", 8);
  source.define("PART", part).define("PART_TILES", part / 8).define("PAIRS", key.pairs).define("BIAS_PAIRS", 0);
  return source.define("FEW", 24).define("MANY", 240).ptx_target("sm_90a");
}

// A kernel that turns the sums of grad_q into its elements.
KernelSource queries_source_of(const Key& key) {
  KernelSource source = source_of(key);
  source.kernel = "queries", source.target.clear();
  return source;
}

// Heads of keys whose blocks are taken in turns: their queries and gradients fit in a part of the cache.
std::int32_t heads_together(const Device& device, const AttentionProblem& x) {
  const auto& p = x.p;
  const std::int64_t bytes = std::int64_t(p.queries) * p.sharing * (8 * p.width + 2 * p.value_width);
  return std::int32_t(std::clamp<std::int64_t>(bytes_together(device) / std::max<std::int64_t>(bytes, 1), 1,
                                               std::int64_t(p.batch) * (p.heads / p.sharing)));
}

const char* decline(const Device& device, const AttentionProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const auto& p = problem.p;
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16) return "only for 16-bit floats";
  if (!problem.backward) return "only backward";
  if (problem.dropout) return "without dropout";
  if (info.max_work_group < 384 || info.local_memory < 49152) return "the device's work-groups are too small";
  if (std::max(p.width, p.value_width) > 128) return "rows do not fit in registers";
  if (!can_be_mapped(problem)) return "rows are not aligned to 16 bytes, or strides fit no map";
  if ((std::int64_t(p.keys) / block + 1) * p.batch * p.heads >= 1 << 30) return "too many keys";
  if (forced) return nullptr;
  if (info.nv_compute_capability != 90) return "the device is not of the Hopper architecture";
  if (static_local_memory(device) < memory_of(padded_width(p.width), padded_width(p.value_width), 2))
    return "the driver gives a work-group too little local memory";
  if (std::min(p.queries, p.keys) < block) return "too few queries or keys";
  return nullptr;
}

void enqueue(Queue& queue, const Key& key, const AttentionProblem& x) {
  static KernelCache<Key> cache, queries_cache;
  const auto& p = x.p;
  Device& device = queue.device();
  const bool hopper = device.info().nv_compute_capability == 90;
  const std::int64_t slices = (p.queries + slice - 1) / slice * std::int64_t(p.batch) * p.heads;
  const std::int64_t key_heads = std::int64_t(p.batch) * (p.heads / p.sharing);
  const std::int64_t groups = (p.keys + block - 1) / block * key_heads;
  const Workspace delta = attention_delta(queue, x);
  const Workspace partial(queue, std::size_t(slices + 1) * slice * key.width * sizeof(float));
  const Workspace turns(queue, std::size_t(slices + 1) * sizeof(std::uint32_t));
  const std::uint32_t none = 0;
  queue.fill(turns.data(), &none, sizeof none, std::size_t(slices + 1) * sizeof none);
  if (groups > 0) {
    Kernel& kernel = cache.get(device, key, [&] { return source_of(key); });
    // Where there is no such matrix unit, no warps copy only and a work-group takes a head's blocks in their order.
    launch_attention_with(maps_of(x, slice, block), queue, kernel, hopper ? groups : key_heads, hopper ? 384 : 256, x,
                          x.grad_out, x.logsumexp, delta.data(), x.grad_k, x.grad_v, partial.data(), turns.data(),
                          heads_together(device, x));
  }
  if (slices == 0) return;
  Kernel& kernel = queries_cache.get(device, key, [&] { return queries_source_of(key); });
  const std::size_t items = std::size_t(slices) * (slice / 2) * (key.width / 8);
  launch(queue, kernel, NDRange((items + 127) / 128 * 128, 128), p, partial.data(), x.grad_q);
}

void run(Queue& queue, const AttentionProblem& x) {
  const auto& p = x.p;
  Key key{};
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.causal = x.causal;
  key.width = std::uint16_t(padded_width(p.width)), key.value_width = std::uint16_t(padded_width(p.value_width));
  key.pairs =
      vector_of({{p.grad_q, x.grad_q, p.width}, {p.grad_k, x.grad_k, p.width}, {p.grad_v, x.grad_v, p.value_width}},
                2) == 2;
  const std::size_t memory = static_local_memory(queue.device());
  for (key.stages = 2; key.stages < 4 && memory_of(key.width, key.value_width, key.stages + 1) <= memory;) key.stages++;
  enqueue(queue, key, x);
}

constexpr AttentionCore core{
    .name = "wgmma_backward", .order = 101, .decline = decline, .run = run, .copies = true, .may_fail_to_build = true};

}  // namespace

void wgmma_backward(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
