// SPDX-License-Identifier: MIT
// Attention of few queries on matrix units (NVIDIA's, through inline PTX), forward: the keys are shared out.
#include <dlprim/runtime/environment.hpp>

#include <cstdio>

#include "../../../tuning/store.hpp"
#include "maps.hpp"

namespace dlprim::attention_cores {

namespace {

constexpr std::int32_t most_rows = 16, most_blocks = 4;  // of a work-group; of these in turns
constexpr std::int32_t most_splits = 64;                 // as in combine.cl
constexpr std::int64_t most_parts = 64;  // rows of all parts of a head that the head's last group combines
constexpr std::size_t combining_group = 256;

struct Key {
  std::uint8_t type, bias, vector, combines;
  std::uint16_t width, value_width;
  std::uint8_t soft_cap, trims, maps, padding;
};

// As kernels/attention/split_slices.clh has them.
struct KeyMaps {
  TensorMap k, v;
};
KeyMaps maps_of_keys(const AttentionProblem& x, int box_rows) {
  return {tensor_map(head_in_memory(x.p.k, x.p.keys, x.p.width, box_rows)),
          tensor_map(head_in_memory(x.p.v, x.p.keys, x.p.value_width, box_rows))};
}

struct Tile {
  std::int32_t groups, slice, stages;  // groups of a compute unit
};

// DLPRIM_ATTENTION_TILE=5x16x3 for measurements.
Tile tile_of(const Device& device, std::int32_t widest) {
  const char* forced = environment::text("DLPRIM_ATTENTION_TILE");
  Tile tile{};
  char more;
  if (forced && std::sscanf(forced, "%dx%dx%d%c", &tile.groups, &tile.slice, &tile.stages, &more) == 3) return tile;
  static tuning::Numbers<3> narrow("attention.split"), wide("attention.split.wide");
  const auto& [groups, slice, stages] = (widest > 128 ? wide : narrow)(device);
  return {std::int32_t(groups), std::int32_t(slice), std::int32_t(stages)};
}

KernelSource split_source(const Key& key, const Tile& tile) {
  KernelSource source("attention/split.cl", "split");
  define_attention(source, key.bias, false, false, key.soft_cap);
  source.define("TAG", tag(DataType(key.type))).define("WARPS", 1).define("TILES", 1);
  source.define("SLICE", tile.slice).define("STAGES", tile.stages);
  source.define("COMBINES", key.combines).define("MOST", most_parts).define("TRIMS", key.trims);
  source.define("MAPS", key.maps);
  source.define("WIDTH", key.width).define("VALUE_WIDTH", key.value_width).define("VECTOR", key.vector);
  if (key.maps) source.ptx_target("sm_90a", tile.groups);
  return source.define("PAIRS", 0);
}

KernelSource combine_source(const Key& key) {
  KernelSource source("attention/combine.cl", "combine");
  define_attention(source, key.bias, false, false);
  return source.define("TAG", tag(DataType(key.type))).define("VALUE_WIDTH", key.value_width);
}

// Rows that read a head of keys, and the blocks they make.
std::int64_t rows_of(const AttentionParams& p) { return std::int64_t(p.sharing) * p.queries; }
std::int64_t blocks_of(const AttentionParams& p) { return (rows_of(p) + most_rows - 1) / most_rows; }

// Keys of a work-group.
std::int32_t length_of(const DeviceInfo& info, const AttentionParams& p, const Tile& tile) {
  const std::int64_t heads = std::int64_t(p.batch) * (p.heads / p.sharing) * blocks_of(p);
  const std::int64_t together = tile.groups * std::int64_t(info.compute_units);
  const std::int64_t splits = std::clamp<std::int64_t>(together / heads, 1, most_splits);
  const std::int64_t length = std::max<std::int64_t>((p.keys + splits - 1) / splits, 64);
  return std::int32_t((length + tile.slice - 1) / tile.slice * tile.slice);
}

// Whether a row of a mask says for all queries and heads which keys take part, and lies as the kernel reads it.
bool one_mask_row(const AttentionProblem& x) {
  const AttentionLayout& mask = x.p.bias;
  return x.bias_type == DataType::boolean && x.p.queries == 1 && mask.head == 0 && mask.column == 1 &&
         (mask.batch | std::int64_t(x.bias.offset)) % 16 == 0;
}

// Whether the copy engine brings keys and values; elsewhere, where this core is forced, what does the same.
bool has_maps(const DeviceInfo& info, const AttentionProblem& x) {
  return (!info.nv_inline_ptx || info.nv_compute_capability == 90) && x.p.keys > 0 && can_be_mapped(x);
}

const char* decline(const Device& device, const AttentionProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const auto& p = problem.p;
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16) return "only for 16-bit floats";
  if (problem.backward) return "only forward";
  if (problem.function) return "without functions";
  if (problem.dropout || problem.causal) return "without dropout, not causal";
  if (blocks_of(p) > most_blocks) return "too many queries to a head of keys";
  if (std::max(p.width, p.value_width) > 256) return "rows do not fit in registers";
  if (info.max_work_group < combining_group || info.local_memory < 49152)
    return "the device's work-groups are too small";
  if (std::int64_t(p.batch) * p.heads >= 1 << 24) return "too many heads";
  if (forced) return nullptr;
  if (info.nv_compute_capability < 80) return "the device has no matrix units that it can use";
  static tuning::Numbers<1> many_keys("attention.split.blocks");
  if (blocks_of(p) > 1 && (p.keys < many_keys(device)[0] || std::int64_t(p.batch) * p.heads > info.compute_units))
    return "other cores fill the device, or have few keys to pass over";
  return nullptr;
}

void run(Queue& queue, const AttentionProblem& x) {
  static KernelCache<Key> splitting, combining;
  const auto& p = x.p;
  Device& device = queue.device();
  Key key{};
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.soft_cap = x.soft_cap;
  key.width = std::uint16_t(padded_width(p.width)), key.value_width = std::uint16_t(padded_width(p.value_width));
  key.vector = std::uint8_t(vector_of({{p.q, x.q, p.width}, {p.k, x.k, p.width}, {p.v, x.v, p.value_width}}, 8));
  const Tile tile = tile_of(device, std::max(p.width, p.value_width));
  const std::int32_t length = length_of(device.info(), p, tile), splits = std::max((p.keys + length - 1) / length, 1);
  const std::int64_t heads = std::int64_t(p.batch) * (p.heads / p.sharing), rows = rows_of(p);
  const std::int64_t groups = heads * blocks_of(p) * splits;
  key.trims = one_mask_row(x);
  key.maps = has_maps(device.info(), x);
  key.combines = blocks_of(p) == 1 && splits * rows <= most_parts && (splits == 1 || heads <= Queue::counters);
  const std::size_t parts = std::size_t(heads * splits * rows);
  const Workspace sums(queue, parts * key.value_width * sizeof(float)), weights(queue, parts * 2 * sizeof(float));
  Kernel& split = splitting.get(device, key, [&] { return split_source(key, tile); });
  const BufferRef results[] = {x.out, x.logsumexp, key.combines ? queue.zeroed_counters() : BufferRef{}};
  const std::span<const BufferRef> combined_here(results, key.combines ? 3 : 0);
  if (key.maps)
    launch_attention_with(maps_of_keys(x, tile.slice), queue, split, groups, 32, x, sums.data(), weights.data(), splits,
                          length, combined_here);
  else launch_attention(queue, split, groups, 32, x, sums.data(), weights.data(), splits, length, combined_here);
  if (key.combines) return;
  Key combined{};
  combined.type = key.type, combined.bias = key.bias, combined.value_width = key.value_width;
  Kernel& combine = combining.get(device, combined, [&] { return combine_source(combined); });
  launch(queue, combine, NDRange(std::size_t(p.batch) * p.heads * p.queries * combining_group, combining_group), p,
         x.out, x.logsumexp, sums.data(), weights.data(), splits);
}

constexpr AttentionCore core{.name = "split", .order = 50, .decline = decline, .run = run, .may_fail_to_build = true};

}  // namespace

void split(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
