// SPDX-License-Identifier: MIT
// Attention of few queries on CPUs, forward: nothing is computed for queries that a block would only pad.
#include "../problem.hpp"

namespace dlprim::attention_cores {

namespace {

constexpr std::int32_t most_queries = 8;

struct Key {
  std::uint8_t type, bias, causal, soft_cap;
  std::uint16_t width, value_width;
};

const char* decline(const Device& device, const AttentionProblem& problem, bool forced) {
  const auto& p = problem.p;
  if (problem.type == DataType::float64) return "sums in float32";
  if (problem.backward) return "only forward";
  if (problem.function) return "without functions";
  if (problem.dropout) return "without dropout";
  if (std::max(p.width, p.value_width) > 256) return "rows do not fit in registers";
  if (std::int64_t(p.batch) * p.heads * p.queries >= 1 << 30) return "too many rows";
  if (forced) return nullptr;
  if (!device.info().cpu) return "only for CPUs";
  if (p.queries > most_queries) return "too many queries";
  return nullptr;
}

void run(Queue& queue, const AttentionProblem& x) {
  static KernelCache<Key> cache;
  const auto& p = x.p;
  Key key{};
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.causal = x.causal, key.soft_cap = x.soft_cap;
  key.width = std::uint16_t(padded_width(p.width)), key.value_width = std::uint16_t(padded_width(p.value_width));
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("attention/rows.cl", "attention_rows");
    define_attention(source, key.bias, key.causal, false, key.soft_cap);
    source.define("TAG", tag(DataType(key.type))).define("WIDTH", key.width);
    return source.define("VALUE_WIDTH", key.value_width);
  });
  launch_attention(queue, kernel, std::int64_t(p.batch) * p.heads * p.queries, 1, x, x.out, x.logsumexp);
}

constexpr AttentionCore core{.name = "rows", .order = 200, .decline = decline, .run = run};

}  // namespace

void rows(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
