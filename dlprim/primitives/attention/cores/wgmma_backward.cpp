// SPDX-License-Identifier: MIT
// Gradients of attention on Hopper's matrix units.
#include <dlprim/runtime/static_local_memory.hpp>

#include "../visible.hpp"
#include "maps.hpp"
#include "parts_of_keys.hpp"

namespace dlprim::attention_cores {

namespace {

constexpr int slice = 64;  // queries that pass at once
constexpr int least_unordered = 1024;  // keys

struct Key {
  std::uint8_t type, bias, causal, pairs, ordered, stages, grad_stages, kept, bias_pieces, padding[3];
  std::uint16_t width, value_width;
  std::uint32_t function;

  bool wide() const { return std::max(width, value_width) > 128; }
  int block() const { return wide() ? 64 : 128; }  // keys of a work-group
};

bool is_wide(const AttentionProblem& x) { return std::max(x.p.width, x.p.value_width) > 128; }

// Where few add to a sum, or come when their turn has come, waiting costs less than sums that begin as 0.
bool is_ordered(const AttentionProblem& x) {
  return x.ordered || x.p.keys < least_unordered || (x.causal && !is_wide(x));
}

Key key_of(const AttentionProblem& x) {
  const auto& p = x.p;
  Key key{};
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.causal = x.causal, key.function = x.function;
  key.width = std::uint16_t(padded_width(p.width)), key.value_width = std::uint16_t(padded_width(p.value_width));
  key.pairs =
      vector_of({{p.grad_q, x.grad_q, p.width}, {p.grad_k, x.grad_k, p.width}, {p.grad_v, x.grad_v, p.value_width}},
                2) == 2;
  key.stages = 2, key.grad_stages = key.wide() ? 1 : 2, key.kept = 1;
  key.ordered = is_ordered(x), key.bias_pieces = bias_vector(x) == 8;
  return key;
}

// Bytes of local memory: MEMORY_BYTES in the kernel, which begins at a multiple of 1024 behind what the driver adds.
std::size_t memory_of(const Key& key) {
  const auto row = [](int columns) { return std::size_t(columns + 63) / 64 * 128; };  // bytes
  const std::size_t queries = row(key.width), grads = row(key.value_width), block = std::size_t(key.block());
  const std::size_t stages = std::size_t(key.stages) * (slice * (queries + 8) + 16);
  const std::size_t partial = key.wide() ? 64 * std::size_t(key.kept) : key.width;  // columns
  const std::size_t grad_barriers = key.wide() ? 16 * std::size_t(key.grad_stages + 2 * key.kept) : 0;
  return block * (queries + grads) + stages + std::size_t(key.grad_stages) * slice * grads + grad_barriers +
         2 * 2 * block * slice + 2 * sizeof(float) * slice * partial + 40 + 1024;
}

// As many slices as local memory holds, up to four; where rows are wide, a second box of grad_q comes first, and slices
// of queries before those of grad_out.
void set_memory(Key& key, std::size_t memory) {
  const auto take = [&](Key more) {
    const bool fits = memory_of(more) <= memory;
    if (fits) key = more;
    return fits;
  };
  Key more = key;
  more.kept = 2;
  if (key.wide()) take(more);
  do {
    more = key;
    if (!key.wide()) more.stages++, more.grad_stages++;
    else if (more.grad_stages < more.stages) more.grad_stages++;
    else more.stages++;
  } while (more.stages <= 4 && take(more));
}

// Columns of grad_q that half of the warps compute: PART in the kernel.
int part_of(int width) { return width > 64 ? 64 : (width / 16 + 1) / 2 * 16; }

// Columns side by side of wide rows' gradients that half of the warps compute; those of 129 to 192 have EXTRA ones.
int columns_of(int width) { return width > 192 ? 128 : 64; }
bool has_extra(int width) { return width > 128 && width <= 192; }

KernelSource source_of(const Key& key) {
  KernelSource source("attention/wgmma_backward.cl", "backward");
  define_attention(source, key.bias, key.causal, false, false, key.function);
  const int part = part_of(key.width);
  const int keys = key.wide() ? columns_of(key.width) : key.width;
  const int values = key.wide() ? columns_of(key.value_width) : key.value_width;
  source.define("TAG", tag(DataType(key.type))).define("WARPS", key.block() / 16).define("TILES", 1);
  source.define("SLICE", slice).define("STAGES", key.stages).define("GRAD_STAGES", key.grad_stages);
  source.define("WIDTH", key.width).define("KEY_TILES", keys / 8).define("KEY_COLUMNS", keys);
  source.define("VALUE_WIDTH", key.value_width).define("VALUE_TILES", values / 8).define("VALUE_COLUMNS", values);
  source.define("PART", part).define("PART_TILES", part / 8).define("PAIRS", key.pairs).define("BIAS_PAIRS", 0);
  source.define("BIAS_PIECES", 0).define("OUT_PIECES", 0).define("TURNED_PIECES", key.bias_pieces);
  source.define("VECTOR", 8).define("WIDE", key.wide()).define("KEPT", key.kept).define("ORDERED", key.ordered);
  const int key_extra = key.wide() && has_extra(key.width), value_extra = key.wide() && has_extra(key.value_width);
  source.define("KEY_EXTRA", key_extra).define("VALUE_EXTRA", value_extra);
  source.define("AHEAD", keys + values + 32 * (key_extra + value_extra) < 240);
  return source.define("FEW", 24).define("MANY", 240).ptx_target("sm_90a");
}

struct QueriesKey {
  Key key;
  bool eights, many;
  std::uint16_t padding;
};

// A kernel that turns the sums of grad_q into its elements.
KernelSource queries_source_of(const Key& key, bool eights, bool many) {
  KernelSource source = source_of(key);
  source.kernel = "queries", source.target.clear();
  return source.define("EIGHTS", eights).define("INDEX", many ? "ulong" : "uint");
}

// Heads of keys, or parts of them, whose blocks are taken in turns: their queries and gradients fit in a part of the cache.
std::int32_t heads_together(const Device& device, const AttentionProblem& x, int parts) {
  const auto& p = x.p;
  const std::int64_t bytes = std::int64_t(p.queries) * p.sharing / parts * (8 * p.width + 2 * p.value_width);
  return std::int32_t(std::clamp<std::int64_t>(bytes_together(device) / std::max<std::int64_t>(bytes, 1), 1,
                                               std::int64_t(p.batch) * (p.heads / p.sharing) * parts));
}

// How many work-groups share the queries of a head of keys: as many as give all of the device work.
int parts_of(const Device& device, const AttentionProblem& x, std::int64_t groups) {
  const std::int64_t wanted = 2 * std::int64_t(device.info().compute_units);
  int parts = 1;
  while (parts < x.p.sharing && groups * parts < wanted) do
      parts++;
    while (x.p.sharing % parts != 0);
  return parts;
}

const char* decline(const Device& device, const AttentionProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const auto& p = problem.p;
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16) return "only for 16-bit floats";
  if (!problem.backward) return "only backward";
  if (problem.dropout) return "without dropout";
  if (info.max_work_group < 384 || info.local_memory < 49152) return "the device's work-groups are too small";
  if (std::max(p.width, p.value_width) > 256) return "rows do not fit in registers";
  if (std::max(p.width, p.value_width) > 128 && std::min(p.width, p.value_width) <= 64)
    return "only one of keys and values has wide rows";
  if (!can_be_mapped(problem)) return "rows are not aligned to 16 bytes, or strides fit no map";
  const Key key = key_of(problem);
  if ((std::int64_t(p.keys) / key.block() + 1) * p.batch * p.heads >= 1 << 30) return "too many keys";
  if (forced) return nullptr;
  if (info.nv_compute_capability != 90) return "the device is not of the Hopper architecture";
  if (static_local_memory(device) < memory_of(key)) return "the driver gives a work-group too little local memory";
  if (std::min(p.queries, p.keys) < 128) return "too few queries or keys";
  return nullptr;
}

void run_blocks(Queue& queue, const Key& key, const AttentionProblem& x, int parts, BufferRef delta, BufferRef partial,
                BufferRef turns) {
  static KernelCache<Key> cache;
  Device& device = queue.device();
  const bool hopper = device.info().nv_compute_capability == 90;
  const std::int64_t heads = std::int64_t(x.p.batch) * (x.p.heads / x.p.sharing) * parts;
  const std::int64_t blocks = (x.p.keys + key.block() - 1) / key.block();
  Kernel& kernel = cache.get(device, key, [&] {
    KernelSource source = source_of(key);
    if (hopper && key.wide()) source.kernel = "backward_wide";
    return source;
  });
  // Where there is no such matrix unit, no warps copy only and a work-group takes a head's blocks in their order.
  launch_attention_with(maps_of(x, slice, key.block()), queue, kernel, hopper ? blocks * heads : heads,
                        hopper ? 384 : 2 * key.block(), x, x.grad_out, x.logsumexp, delta, x.grad_k, x.grad_v, partial,
                        turns, heads_together(device, x, parts), std::int32_t(parts));
}

void enqueue(Queue& queue, const Key& key, const AttentionProblem& x) {
  static KernelCache<QueriesKey> queries_cache;
  const auto& p = x.p;
  Device& device = queue.device();
  const std::int64_t slices = (p.queries + slice - 1) / slice * std::int64_t(p.batch) * p.heads;
  const std::int64_t groups = (p.keys + key.block() - 1) / key.block() * std::int64_t(p.batch) * (p.heads / p.sharing);
  const Workspace delta = attention_delta(queue, x);
  const Workspace partial(queue, std::size_t(slices + 1) * slice * key.width * sizeof(float));
  const std::size_t turns_bytes = 2 * std::size_t(slices + 1) * sizeof(std::uint32_t);  // two a slice of wide rows
  const Workspace turns(queue, turns_bytes);
  const std::uint32_t none = 0;
  if (key.ordered) queue.fill(turns.data(), &none, sizeof none, turns_bytes);
  else queue.fill(partial.data(), &none, sizeof none, std::size_t(slices) * slice * key.width * sizeof(float));
  const int parts = parts_of(device, x, groups);
  if (groups > 0 && parts == 1) run_blocks(queue, key, x, 1, delta.data(), partial.data(), turns.data());
  if (groups > 0 && parts > 1) {
    AttentionProblem split = x;
    const PartsOfKeys keys(queue, split, parts);
    run_blocks(queue, key, split, parts, delta.data(), partial.data(), turns.data());
    keys.add();
  }
  if (slices == 0) return;
  const std::size_t items = std::size_t(slices) * (slice / 2) * (key.width / 8);
  const bool eights = vector_of({{p.grad_q, x.grad_q, p.width}}, 8) == 8, many = items >> 31 != 0;
  QueriesKey sums{.key = key, .eights = eights, .many = many, .padding = 0};
  sums.key.function = 0;
  Kernel& kernel = queries_cache.get(device, sums, [&] { return queries_source_of(sums.key, eights, many); });
  launch(queue, kernel, NDRange((items + 127) / 128 * 128, 128), p, partial.data(), x.grad_q);
}

void run(Queue& queue, const AttentionProblem& given) {
  AttentionProblem x = given;
  x.listed = has_lists(x) && !is_ordered(x);  // turns count the work-groups that add to a slice
  Key key = key_of(x);
  set_memory(key, static_local_memory(queue.device()));
  VisibleTiles visible(queue, x);
  visible.list(x, key.block(), slice, true);
  enqueue(queue, key, x);
}

constexpr AttentionCore core{
    .name = "wgmma_backward", .order = 101, .decline = decline, .run = run, .copies = true, .may_fail_to_build = true};

}  // namespace

void wgmma_backward(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
