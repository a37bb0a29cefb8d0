// SPDX-License-Identifier: MIT
// Attention on matrix units (NVIDIA's, through inline PTX).
#include <cstdio>

#include "../visible.hpp"

#include <dlprim/runtime/environment.hpp>

namespace dlprim::attention_cores {

namespace {

struct Key {
  std::uint8_t type, bias, causal, dropout, pass, warps, tiles, slice, vector, pairs, scale_first, soft_cap;
  std::uint16_t width, value_width;
  std::uint32_t function;
};

KernelSource source_of(const Key& key) {
  constexpr const char* names[] = {"attention_mma_forward", "attention_mma_queries_backward",
                                   "attention_mma_keys_backward"};
  const bool forward = key.pass == std::uint8_t(AttentionPass::forward);
  KernelSource source(forward ? "attention/mma.cl" : "attention/mma_backward.cl", names[key.pass]);
  define_attention(source, key.bias, key.causal, key.dropout, key.soft_cap, key.function);
  source.define("TAG", tag(DataType(key.type))).define("WARPS", key.warps).define("TILES", key.tiles);
  source.define("SLICE", key.slice).define("WIDTH", key.width).define("VALUE_WIDTH", key.value_width);
  source.define("VECTOR", key.vector).define("PAIRS", key.pairs).define("SCALE_FIRST", key.scale_first);
  return source;
}

struct Shape {
  int warps, tiles, slice;
};

// As many rows pass at once as registers and local memory (two stages of two matrices) allow.
// DLPRIM_ATTENTION_TILE=4x1x32 (warps, tiles of 16 rows each has going forward, rows of a slice) for measurements.
Shape shape_of(AttentionPass pass, int widest) {
  const char* forced = environment::text("DLPRIM_ATTENTION_TILE");
  Shape shape{};
  if (forced && std::sscanf(forced, "%dx%dx%d", &shape.warps, &shape.tiles, &shape.slice) == 3) {
    if (pass != AttentionPass::forward) shape.tiles = 1;
    return shape;
  }
  if (widest > 128) return {4, 1, 16};
  if (pass == AttentionPass::forward) return {4, 1, widest <= 80 ? 64 : 32};
  return {4, 1, pass == AttentionPass::queries || widest <= 64 ? 32 : 16};
}

template <class... Arguments>
void run(Queue& queue, Key key, AttentionPass pass, AttentionProblem x, VisibleTiles& visible,
         const Arguments&... arguments) {
  static KernelCache<Key> cache;
  const Shape shape = shape_of(pass, std::max(key.width, key.value_width));
  key.pass = std::uint8_t(pass);
  key.warps = std::uint8_t(shape.warps), key.tiles = std::uint8_t(shape.tiles), key.slice = std::uint8_t(shape.slice);
  Kernel& kernel = cache.get(queue.device(), key, [&] { return source_of(key); });
  const auto& p = x.p;
  const bool keys = pass == AttentionPass::keys;
  const std::int64_t rows = keys ? p.keys : p.queries, block = 16 * shape.warps * shape.tiles;
  visible.list(x, int(block), shape.slice, keys);
  launch_attention(queue, kernel, (rows + block - 1) / block * p.batch * (keys ? p.heads / p.sharing : p.heads),
                   32 * std::size_t(shape.warps), x, arguments...);
}

const char* decline(const Device& device, const AttentionProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const auto& p = problem.p;
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16) return "only for 16-bit floats";
  if (info.nv_compute_capability < 80 && !forced) return "the device has no matrix units that it can use";
  if (info.max_work_group < 128 || info.local_memory < 49152) return "the device's work-groups are too small";
  if (std::max(p.width, p.value_width) > (problem.backward ? 128 : 256)) return "rows do not fit in registers";
  return nullptr;
}

void run(Queue& queue, const AttentionProblem& given) {
  AttentionProblem x = given;
  x.listed = has_lists(x);
  VisibleTiles visible(queue, x);
  const auto& p = x.p;
  Key key{};
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.causal = x.causal, key.dropout = x.dropout;
  key.function = x.function;
  key.width = std::uint16_t(padded_width(p.width)), key.value_width = std::uint16_t(padded_width(p.value_width));
  key.vector = std::uint8_t(vector_of({{p.q, x.q, p.width}, {p.k, x.k, p.width}, {p.v, x.v, p.value_width}}, 8));
  if (!x.backward) {
    key.pairs = vector_of({{p.out, x.out, p.value_width}}, 2) == 2;
    key.soft_cap = x.soft_cap, key.scale_first = x.bias_type || x.soft_cap || p.scale <= 0;
    return run(queue, key, AttentionPass::forward, x, visible, x.out, x.logsumexp);
  }
  key.vector = std::uint8_t(vector_of({{p.grad_out, x.grad_out, p.value_width}}, key.vector));
  key.pairs =
      vector_of({{p.grad_q, x.grad_q, p.width}, {p.grad_k, x.grad_k, p.width}, {p.grad_v, x.grad_v, p.value_width}},
                2) == 2;
  const Workspace delta = attention_delta(queue, x);
  run(queue, key, AttentionPass::keys, x, visible, x.grad_out, x.logsumexp, delta.data(), x.grad_k, x.grad_v);
  run(queue, key, AttentionPass::queries, x, visible, x.grad_out, x.logsumexp, delta.data(), x.grad_q);
}

constexpr AttentionCore core{.name = "mma", .order = 200, .decline = decline, .run = run};

}  // namespace

void mma(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
