// SPDX-License-Identifier: MIT
// Attention on CPUs and its gradients: blocks of queries over slices of keys, in float32 or the CPU's dot products of
// bfloat16.
#include <dlprim/primitives/copy.hpp>

#include <cmath>

#include "../../dot_products.hpp"
#include "../visible.hpp"

namespace dlprim::attention_cores {

namespace {

/// Queries of a work-group, a multiple of 12, and keys of a slice, of 32.
struct Tile {
  int queries, keys;
};

// With a bias, what it masks is passed over in slices as short as those of other cores.
constexpr Tile tiles[] = {{96, 128}, {96, 64}, {48, 64}, {24, 32}};

struct Key {
  std::uint8_t type, bias, causal, soft_cap, queries, keys, backward, pairs;
  std::uint16_t width, value_width;
};

bool has_pairs(const Device& device, const AttentionProblem& x) {
  return x.type == DataType::bfloat16 && bfloat16_dot(device) != 0;
}

// Widths as kernels have them.
int width_of(int width, bool pairs) { return pairs ? (padded_width(width) + 31) / 32 * 32 : padded_width(width); }

// Of numbers of 4 bytes, or pairs of them, and sums.
std::size_t local_memory(const Tile& tile, const AttentionProblem& x, bool pairs) {
  const std::size_t number = pairs ? 2 : 4, width = std::size_t(width_of(x.p.width, pairs));
  const auto values = std::size_t(width_of(x.p.value_width, pairs));
  const auto queries = std::size_t(tile.queries), keys = std::size_t(tile.keys), scores = queries * keys;
  if (!x.backward)
    return number * (width * (queries + keys) + values * keys) + 4 * queries * values + scores * (pairs ? 6 : 4) + 4096;
  const std::size_t lines = pairs ? queries * (width + values) : 0;
  return number * (width * (queries + 2 * keys) + values * (queries + keys) + lines) +
         4 * (width * (queries + keys) + values * keys) + scores * (pairs ? 14 : 8) + 4096;
}

// The largest that fits; null where none does.
const Tile* tile_for(const Device& device, const AttentionProblem& x) {
  for (const Tile& tile : tiles)
    if (local_memory(tile, x, has_pairs(device, x)) <= device.info().local_memory && (tile.keys <= 64 || !x.bias_type))
      return &tile;
  return nullptr;
}

// Work-items where the problem is only asked for, which leaves open how many heads share keys.
double busy(const AttentionProblem& problem) {
  const auto& p = problem.p;
  const double heads = *problem.other_scores / (double(std::max(p.queries, 1)) * std::max(p.keys, 1));
  return problem.backward ? heads : heads * std::ceil(double(p.queries) / tiles[0].queries);
}

const char* decline(const Device& device, const AttentionProblem& problem, bool forced) {
  const auto& p = problem.p;
  if (problem.type == DataType::float64) return "sums in float32";
  if (problem.function) return "without functions";
  if (problem.dropout) return "without dropout";
  if (!device.info().cpu) return "only for CPUs";
  if (std::int64_t(p.batch) * p.heads * p.queries >= 1 << 30) return "too many rows";
  if (!tile_for(device, problem)) return "blocks do not fit in local memory";
  if (problem.other_scores && !forced && busy(problem) < 0.5 * device.info().compute_units)
    return "products and softmax keep more of the device's units busy";
  return nullptr;
}

Kernel& kernel_of(Device& device, const AttentionProblem& x, const Tile& tile) {
  static KernelCache<Key> cache;
  Key key{};
  key.pairs = has_pairs(device, x), key.backward = x.backward;
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.causal = x.causal, key.soft_cap = x.soft_cap;
  key.queries = std::uint8_t(tile.queries), key.keys = std::uint8_t(tile.keys);
  key.width = std::uint16_t(width_of(x.p.width, key.pairs));
  key.value_width = std::uint16_t(width_of(x.p.value_width, key.pairs));
  return cache.get(device, key, [&] {
    KernelSource source(key.backward ? "attention/blocks_backward.cl" : "attention/blocks.cl",
                        key.backward ? "attention_blocks_backward" : "attention_blocks");
    define_attention(source, key.bias, key.causal, false, key.soft_cap);
    source.define("TAG", tag(DataType(key.type))).define("WIDTH", key.width).define("VALUE_WIDTH", key.value_width);
    source.define("BIAS_IN_VECTORS", x.bias_type != DataType::float64);
    if (key.pairs) source.define("BFLOAT16_DOT", bfloat16_dot(device));
    return source.define("BQ", key.queries).define("BK", key.keys);
  });
}

void clear(Queue& queue, const BufferRef& data, const AttentionLayout& of, std::int64_t heads, std::int64_t rows,
           std::int64_t width, const AttentionProblem& x) {
  const std::int64_t sizes[] = {x.p.batch, heads, rows, width}, strides[] = {of.batch, of.head, of.row, 1};
  fill(queue, TensorView(data, x.type, sizes, strides), 0);
}

void run_backward(Queue& queue, const AttentionProblem& x, const Tile& tile) {
  const auto& p = x.p;
  const std::int64_t key_heads = p.heads / p.sharing;
  if (p.queries == 0 || p.keys == 0) {
    clear(queue, x.grad_q, p.grad_q, p.heads, p.queries, p.width, x);
    clear(queue, x.grad_k, p.grad_k, key_heads, p.keys, p.width, x);
    return clear(queue, x.grad_v, p.grad_v, key_heads, p.keys, p.value_width, x);
  }
  const Workspace delta = attention_delta(queue, x);
  const int width = width_of(p.width, has_pairs(queue.device(), x));
  const std::int64_t sums = std::int64_t(p.batch) * p.heads * p.queries * width;
  const Workspace memory(queue, std::size_t(sums) * sizeof(float));
  launch_attention(queue, kernel_of(queue.device(), x, tile), p.batch * key_heads, 1, x, x.grad_out, x.logsumexp,
                   delta.data(), memory.data(), x.grad_q, x.grad_k, x.grad_v);
}

void run(Queue& queue, const AttentionProblem& given) {
  AttentionProblem x = given;
  Device& device = queue.device();
  const auto& p = x.p;
  const Tile& tile = *tile_for(device, x);
  if (x.backward) return run_backward(queue, x, tile);
  x.listed = has_lists(x);
  VisibleTiles visible(queue, x);
  visible.list(x, tile.queries, tile.keys, false);
  const std::int64_t blocks = (p.queries + tile.queries - 1) / tile.queries;
  launch_attention(queue, kernel_of(device, x, tile), std::int64_t(p.batch) * p.heads * blocks, 1, x, x.out,
                   x.logsumexp);
}

constexpr AttentionCore core{.name = "blocks", .order = 240, .decline = decline, .run = run};

}  // namespace

void blocks(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
