// SPDX-License-Identifier: MIT
// Attention on Hopper's matrix units, forward.
#include <cstdio>
#include <cstdlib>

#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/static_local_memory.hpp>

#include "../problem.hpp"

namespace dlprim::attention_cores {

namespace {

// Fours of warps that multiply, keys of a slice, slices in local memory, groups that share a compute unit.
struct Shape {
  std::uint8_t fours, slice, stages, resident;
};

struct Key {
  std::uint8_t type, bias, causal, scale_first, pairs, bias_pairs, padding[2];
  Shape shape;
  std::uint16_t width, value_width;
};

// Measured on an H200, with all of its local memory and with the 48 KB that older drivers leave.
// DLPRIM_ATTENTION_TILE=2x48x3x1 for measurements.
Shape shape_of(const Device& device, const AttentionProblem& x, int widest) {
  int fours, slice, stages, resident;
  const char* forced = environment::text("DLPRIM_ATTENTION_TILE");
  if (forced && std::sscanf(forced, "%dx%dx%dx%d", &fours, &slice, &stages, &resident) == 4)
    return {std::uint8_t(fours), std::uint8_t(slice), std::uint8_t(stages), std::uint8_t(resident)};
  const bool large = static_local_memory(device) >= 180000;
  if (widest > 96 && large) return {2, 80, 8, 1};
  if (widest > 96) return {3, 48, 3, 1};
  if (widest > 64) return {3, 48, 5, 1};
  // Two groups begin and end blocks in each other's time; one of many warps reads keys less often.
  if (x.bias_type || x.p.keys < 1024) return large ? Shape{2, 128, 6, 1} : Shape{2, 32, 11, 2};
  return {3, 80, 4, 1};
}

// Registers of work-items that copy and that multiply, of 65,536 for all groups of a compute unit.
void define_registers(KernelSource& source, const Shape& shape) {
  const int given = 65536 / (128 * (shape.fours + 1) * shape.resident) / 8 * 8;
  const int few = shape.fours * shape.resident < 3 ? 40 : shape.resident > 1 ? 24 : 32;
  const int many = std::min(240, (given * (shape.fours + 1) - few) / shape.fours / 8 * 8);
  source.define("FEW", few).define("MANY", many);
}

KernelSource source_of(const Key& key) {
  const Shape& shape = key.shape;
  KernelSource source("attention/wgmma.cl", "forward");
  define_attention(source, key.bias, key.causal, false);
  source.define("TAG", tag(DataType(key.type))).define("WARPS", 4 * shape.fours).define("TILES", 1);
  source.define("WIDTH", key.width).define("VALUE_WIDTH", key.value_width).define("VALUE_TILES", key.value_width / 8);
  source.define("SLICE", shape.slice).define("KEY_TILES", shape.slice / 8).define("STAGES", shape.stages);
  source.define("VECTOR", 8).define("PAIRS", key.pairs).define("BIAS_PAIRS", key.bias_pairs);
  source.define("SCALE_FIRST", key.scale_first).ptx_target("sm_90a", shape.resident);
  define_registers(source, shape);
  return source;
}

// Heads whose blocks are taken in the order of their lengths: their keys and values fit in a part of the cache.
std::int32_t heads_together(const AttentionProblem& x) {
  const auto& p = x.p;
  if (!x.causal) return 1;
  const std::int64_t bytes = 2 * std::int64_t(p.keys) * (p.width + p.value_width);
  const std::int64_t heads = (12 << 20) / std::max<std::int64_t>(bytes, 1) * p.sharing;
  return std::int32_t(std::clamp<std::int64_t>(heads, p.sharing, std::int64_t(p.batch) * p.heads));
}

const char* decline(const Device& device, const AttentionProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const auto& p = problem.p;
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16) return "only for 16-bit floats";
  if (problem.backward) return "only forward";
  if (problem.dropout) return "without dropout";
  if (info.max_work_group < 512 || info.local_memory < 49152) return "the device's work-groups are too small";
  if (std::max(p.width, p.value_width) > 128) return "rows do not fit in registers";
  if (vector_of({{p.q, problem.q, p.width}}, 2) < 2 ||
      vector_of({{p.k, problem.k, p.width}, {p.v, problem.v, p.value_width}}, 8) < 8)
    return "rows are not aligned to 16 bytes";
  if ((std::int64_t(p.queries) / 64 + 1) * p.batch * p.heads >= 1 << 30) return "too many queries";
  if (forced) return nullptr;
  if (info.nv_compute_capability != 90) return "the device is not of the Hopper architecture";
  if (p.queries <= 64) return "too few queries";
  return nullptr;
}

void run(Queue& queue, const AttentionProblem& x) {
  static KernelCache<Key> cache;
  const auto& p = x.p;
  Device& device = queue.device();
  const DeviceInfo& info = device.info();
  Key key{};
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.causal = x.causal;
  key.width = std::uint16_t(padded_width(p.width)), key.value_width = std::uint16_t(padded_width(p.value_width));
  key.scale_first = x.bias_type || p.scale <= 0;
  key.pairs = vector_of({{p.out, x.out, p.value_width}}, 2) == 2;
  key.bias_pairs =
      x.bias_type && size_of(*x.bias_type) == 2 && p.bias.column == 1 && vector_of({{p.bias, x.bias, p.keys}}, 2) == 2;
  key.shape = shape_of(device, x, std::max(key.width, key.value_width));
  const std::int64_t block = 64 * key.shape.fours, blocks = (p.queries + block - 1) / block * p.batch * p.heads;
  const std::int64_t groups = std::min(blocks, std::int64_t(info.compute_units) * key.shape.resident);
  // Where there is no such matrix unit, no warps copy only.
  const std::size_t group = 128 * std::size_t(key.shape.fours + (info.nv_compute_capability == 90));
  Kernel& kernel = cache.get(device, key, [&] { return source_of(key); });
  launch_attention(queue, kernel, groups, group, x, x.out, x.logsumexp, heads_together(x));
}

constexpr AttentionCore core{.name = "wgmma", .order = 100, .decline = decline, .run = run, .may_fail_to_build = true};

}  // namespace

void wgmma(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
