// SPDX-License-Identifier: MIT
// Attention in float32 arithmetic through local memory, on any device.
#include "../../../tuning/store.hpp"
#include "../visible.hpp"

namespace dlprim::attention_cores {

namespace {

struct Key {
  std::uint8_t type, bias, causal, dropout, pass, block, per, soft_cap;
  std::uint16_t width, value_width;
  std::uint32_t function;
};

Kernel& kernel_of(Device& device, Key key, AttentionPass pass) {
  static KernelCache<Key> cache;
  key.pass = std::uint8_t(pass);
  return cache.get(device, key, [&] {
    constexpr const char* names[] = {"attention_tiled_forward", "attention_tiled_queries_backward",
                                     "attention_tiled_keys_backward"};
    KernelSource source("attention/tiled.cl", names[key.pass]);
    define_attention(source, key.bias, key.causal, key.dropout, key.soft_cap, key.function);
    source.define("TAG", tag(DataType(key.type))).define("BLOCK", key.block).define("PER", key.per);
    source.define("WIDTH", key.width).define("VALUE_WIDTH", key.value_width);
    return source;
  });
}

/// Queries (keys) of a work-group; rows and columns of their scores that a work-item computes.
struct Tile {
  int block, per;
  std::size_t group() const { return std::size_t(block / per) * std::size_t(block / per); }
  /// Bytes of local memory: chunks of two matrices, scores, what rows share.
  std::size_t local() const { return sizeof(float) * (std::size_t(block) * (2 * 20 + block + 4 + 1) + group()); }
};

Tile tile_for(const Device& device) {
  static tuning::Numbers<2> chosen("attention.tiled"), smallest("attention.tiled.small");
  const auto& [block, per] = chosen(device);
  const Tile tile{int(block), int(per)};
  const DeviceInfo& info = device.info();
  if (tile.group() <= info.max_work_group && tile.local() <= info.local_memory) return tile;
  const auto& [small_block, small_per] = smallest(device);
  return {int(small_block), int(small_per)};
}

const char* decline(const Device& device, const AttentionProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  if (problem.type == DataType::float64) return "sums in float32";
  const auto memory = double(info.global_memory);
  if (problem.other_scores && !forced && *problem.other_scores * double(size_of(problem.type)) < memory / 16)
    return "products and softmax are faster where the scores fit in memory";
  if (info.max_work_group < 64 || info.local_memory < 16384) return "the device's work-groups are too small";
  if (std::max(problem.p.width, problem.p.value_width) > 256) return "rows do not fit in registers";
  return nullptr;
}

void run(Queue& queue, const AttentionProblem& given) {
  AttentionProblem x = given;
  x.listed = has_lists(x);
  VisibleTiles visible(queue, x);
  const auto& p = x.p;
  Device& device = queue.device();
  Key key{};
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.causal = x.causal, key.dropout = x.dropout;
  key.soft_cap = x.soft_cap, key.function = x.function;
  const Tile tile = tile_for(device);
  key.block = std::uint8_t(tile.block), key.per = std::uint8_t(tile.per);
  key.width = std::uint16_t(padded_width(p.width)), key.value_width = std::uint16_t(padded_width(p.value_width));
  const std::size_t group = tile.group();
  const auto blocks = [&](std::int32_t rows) { return std::int64_t(rows + key.block - 1) / key.block * p.batch; };
  visible.list(x, key.block, key.block, false);
  if (!x.backward)
    return launch_attention(queue, kernel_of(device, key, AttentionPass::forward), blocks(p.queries) * p.heads, group,
                            x, x.out, x.logsumexp);
  const Workspace delta = attention_delta(queue, x);
  launch_attention(queue, kernel_of(device, key, AttentionPass::queries), blocks(p.queries) * p.heads, group, x,
                   x.grad_out, x.logsumexp, delta.data(), x.grad_q);
  visible.list(x, key.block, key.block, true);
  launch_attention(queue, kernel_of(device, key, AttentionPass::keys), blocks(p.keys) * (p.heads / p.sharing), group, x,
                   x.grad_out, x.logsumexp, delta.data(), x.grad_k, x.grad_v);
}

constexpr AttentionCore core{.name = "tiled", .order = 300, .decline = decline, .run = run};

}  // namespace

void tiled(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
