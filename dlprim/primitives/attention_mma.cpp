// SPDX-License-Identifier: MIT
// Attention on matrix units (NVIDIA's, through inline PTX).
#include <array>

#include "attention_problem.hpp"

namespace dlprim {

namespace {

struct Key {
  std::uint8_t type, bias, causal, dropout, pass, warps, tiles, slice, vector, pairs, scale_first, padding;
  std::uint16_t width, value_width;
};

KernelSource source_of(const Key& key) {
  constexpr const char* names[] = {"forward", "queries_backward", "keys_backward"};
  KernelSource source(key.pass == std::uint8_t(AttentionPass::forward) ? "attention_mma.cl" : "attention_mma_backward.cl",
                      names[key.pass]);
  define_attention(source, key.bias, key.causal, key.dropout);
  source.define("TAG", tag(DataType(key.type))).define("WARPS", key.warps).define("TILES", key.tiles);
  source.define("SLICE", key.slice).define("WIDTH", key.width).define("VALUE_WIDTH", key.value_width);
  source.define("VECTOR", key.vector).define("PAIRS", key.pairs).define("SCALE_FIRST", key.scale_first);
  return source;
}

// The largest of 8, 4, 2 and 1 that every position of a tensor is a multiple of.
int vector_of(const AttentionLayout& x, BufferRef data, int width, int most) {
  for (; most > 1; most /= 2)
    if ((x.batch | x.head | x.row | width) % most == 0 && data.offset % (2 * std::size_t(most)) == 0) break;
  return most;
}

struct Tensor {
  const AttentionLayout& layout;
  BufferRef data;
  int width;
};

int vector_of(std::initializer_list<Tensor> tensors, int most) {
  for (const Tensor& x : tensors) most = vector_of(x.layout, x.data, x.width, most);
  return most;
}

// Rows that pass at once: as many as registers and local memory (two stages of keys and values) allow.
int slice_of(AttentionPass pass, int widest) {
  if (widest > 128) return 16;
  if (pass == AttentionPass::forward) return widest <= 80 ? 64 : 32;
  return pass == AttentionPass::queries || widest <= 64 ? 32 : 16;
}

Kernel& kernel_of(Device& device, const AttentionProblem& problem, AttentionPass pass, const Key& given) {
  static KernelCache<Key> cache;
  Key key = given;
  key.pass = std::uint8_t(pass);
  key.slice = std::uint8_t(slice_of(pass, std::max(key.width, key.value_width)));
  key.scale_first = pass == AttentionPass::forward && (problem.bias_type || problem.p.scale <= 0);
  return cache.get(device, key, [&] { return source_of(key); });
}

}  // namespace

const char* decline_attention_mma(const Device& device, const AttentionProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const auto& p = problem.p;
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16) return "only for 16-bit floats";
  if (info.nv_compute_capability < 80 && !forced) return "the device has no matrix units that it can use";
  if (info.max_work_group < 128 || info.local_memory < 49152) return "the device's work-groups are too small";
  if (std::max(p.width, p.value_width) > (problem.backward ? 128 : 256)) return "rows do not fit in registers";
  return nullptr;
}

void run_attention_mma(Queue& queue, const AttentionProblem& x) {
  const auto& p = x.p;
  Device& device = queue.device();
  Key key{};
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.causal = x.causal, key.dropout = x.dropout;
  key.warps = 4, key.tiles = 1;
  key.width = std::uint16_t(padded_width(p.width)), key.value_width = std::uint16_t(padded_width(p.value_width));
  key.vector = std::uint8_t(vector_of({{p.q, x.q, p.width}, {p.k, x.k, p.width}, {p.v, x.v, p.value_width}}, 8));
  const std::size_t group = 32 * key.warps;
  const int block = 16 * key.warps * key.tiles;
  const auto blocks = [&](std::int32_t rows) { return std::int64_t(rows + block - 1) / block * p.batch; };
  if (!x.backward) {
    key.pairs = vector_of({{p.out, x.out, p.value_width}}, 2) == 2;
    return launch_attention(queue, kernel_of(device, x, AttentionPass::forward, key), blocks(p.queries) * p.heads, group, x, x.out,
               x.logsumexp);
  }
  key.vector = std::uint8_t(vector_of({{p.grad_out, x.grad_out, p.value_width}}, key.vector));
  key.pairs = vector_of({{p.grad_q, x.grad_q, p.width}, {p.grad_k, x.grad_k, p.width},
                         {p.grad_v, x.grad_v, p.value_width}}, 2) == 2;
  const Workspace delta = attention_delta(queue, x);
  launch_attention(queue, kernel_of(device, x, AttentionPass::keys, key), blocks(p.keys) * (p.heads / p.sharing), group, x, x.grad_out,
      x.logsumexp, delta.data(), x.grad_k, x.grad_v);
  launch_attention(queue, kernel_of(device, x, AttentionPass::queries, key), blocks(p.queries) * p.heads, group, x, x.grad_out, x.logsumexp,
      delta.data(), x.grad_q);
}

}  // namespace dlprim
