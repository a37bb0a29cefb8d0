// SPDX-License-Identifier: MIT
// Attention in float32 arithmetic through local memory, on any device.
#include "../problem.hpp"

namespace dlprim::attention_cores {

namespace {

struct Key {
  std::uint8_t type, bias, causal, dropout, pass, block;
  std::uint16_t width, value_width;
};

Kernel& kernel_of(Device& device, Key key, AttentionPass pass) {
  static KernelCache<Key> cache;
  key.pass = std::uint8_t(pass);
  return cache.get(device, key, [&] {
    constexpr const char* names[] = {"attention_tiled_forward", "attention_tiled_queries_backward",
                                     "attention_tiled_keys_backward"};
    KernelSource source("attention/tiled.cl", names[key.pass]);
    define_attention(source, key.bias, key.causal, key.dropout);
    source.define("TAG", tag(DataType(key.type))).define("BLOCK", key.block);
    source.define("WIDTH", key.width).define("VALUE_WIDTH", key.value_width);
    return source;
  });
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

void run(Queue& queue, const AttentionProblem& x) {
  const auto& p = x.p;
  Device& device = queue.device();
  const DeviceInfo& info = device.info();
  Key key{};
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.causal = x.causal, key.dropout = x.dropout;
  // 64 rows take 28 KB of local memory and 256 work-items, 32 take 10 KB and 64.
  const bool large =
      !info.cpu && info.max_work_group >= 256 && info.local_memory >= 32768 && std::max(p.width, p.value_width) <= 128;
  key.block = large ? 64 : 32;
  key.width = std::uint16_t(padded_width(p.width)), key.value_width = std::uint16_t(padded_width(p.value_width));
  const std::size_t group = std::size_t(key.block) * key.block / 16;
  const auto blocks = [&](std::int32_t rows) { return std::int64_t(rows + key.block - 1) / key.block * p.batch; };
  if (!x.backward)
    return launch_attention(queue, kernel_of(device, key, AttentionPass::forward), blocks(p.queries) * p.heads, group,
                            x, x.out, x.logsumexp);
  const Workspace delta = attention_delta(queue, x);
  launch_attention(queue, kernel_of(device, key, AttentionPass::keys), blocks(p.keys) * (p.heads / p.sharing), group, x,
                   x.grad_out, x.logsumexp, delta.data(), x.grad_k, x.grad_v);
  launch_attention(queue, kernel_of(device, key, AttentionPass::queries), blocks(p.queries) * p.heads, group, x,
                   x.grad_out, x.logsumexp, delta.data(), x.grad_q);
}

constexpr AttentionCore core{.name = "tiled", .order = 300, .decline = decline, .run = run};

}  // namespace

void tiled(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
