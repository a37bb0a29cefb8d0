// SPDX-License-Identifier: MIT
// The engine's core for Hopper's matrix units: packs the operands, then multiplies.
#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core;

constexpr std::int64_t longest = 1000000;  // of packed operands: groups of 4 chunks number less than 65536

// Numbers for each element: three passes work on two.
int parts(int passes) { return passes == 3 ? 2 : 1; }
int parts(const GemmProblem& problem) { return parts(tf32_passes(problem)); }

struct PackKey {
  std::uint16_t rows;
  std::uint8_t bytes, parts, along_k, vector;
};

// An operand with `size` rows (columns, of B) along the tiles.
struct Operand {
  BufferRef data;
  std::int64_t size, stride, k_stride, batch_stride;
};

struct Packed {
  Workspace memory;
  std::int64_t batch_stride, tile_stride;  // bytes
};

Packed pack(Queue& queue, const GemmProblem& problem, const Operand& x, std::uint16_t rows, int numbers) {
  const std::int64_t bytes = std::int64_t(size_of(problem.type)), k = problem.p.k;
  const std::int64_t chunks = divide_up(k * bytes, 32) * 2, padded = divide_up(x.size, rows) * rows;
  const std::int64_t batches = x.batch_stride ? problem.batches : 1;
  const auto whole = [&](std::int64_t v) { return v * bytes % 16 == 0; };
  const bool along_k = x.k_stride == 1;
  const bool vector = along_k && whole(k) && whole(x.stride) && whole(x.batch_stride) && x.data.offset % 16 == 0;
  const PackKey key{rows, std::uint8_t(bytes), std::uint8_t(numbers), along_k, vector};
  static KernelCache<PackKey> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("gemm/pack.cl", "gemm_pack");
    source.define("ROWS", key.rows).define("BYTES", key.bytes).define("PARTS", key.parts);
    source.define("ALONG_K", key.along_k).define("VECTOR", key.vector);
    return source;
  });
  const std::int64_t row_bytes = 16 * chunks * key.parts;
  Packed result{Workspace(queue, std::size_t(row_bytes * padded * batches)), x.batch_stride ? row_bytes * padded : 0,
                row_bytes * rows};
  const auto range = along_k ? NDRange(std::size_t(chunks), std::size_t(padded), std::size_t(batches), 4, 32, 1)
                             : NDRange(std::size_t(padded), std::size_t(chunks), std::size_t(batches), 32, 4, 1);
  launch(queue, kernel, range, x.data, result.memory.data(), x.size, k, padded, chunks, x.batch_stride, x.stride,
         x.k_stride);
  return result;
}

void run_with(Queue& queue, const GemmProblem& given, const TileChoice& choice) {
  GemmProblem problem = given;
  auto& p = problem.p;
  GemmKey key = gemm_key(&core, problem);
  const int stored = stored_at_once(problem);
  if (vectors(problem, stored).c) key.vc = std::uint8_t(stored);
  const int numbers = parts(key.passes);
  const Packed a = pack(queue, problem, {problem.a, p.m, p.a_m, p.a_k, p.a_batch}, choice.shape.bm, numbers);
  const Packed b = pack(queue, problem, {problem.b, p.n, p.b_n, p.b_k, p.b_batch}, choice.shape.bn, numbers);
  problem.a = a.memory.data(), problem.b = b.memory.data();
  p.a_batch = a.batch_stride, p.b_batch = b.batch_stride, p.tile_m = a.tile_stride, p.tile_n = b.tile_stride;
  p.a_m = p.a_k = p.b_n = p.b_k = 0;
  set_tiles(problem, key, choice);
  if (p.splits > 1) key.vc = p.n % 2 == 0 ? 2 : 1;
  const std::int64_t last_a = p.tiles_m * p.tile_m + (problem.batches - 1) * p.a_batch;
  const std::int64_t last_b = p.tiles_n * p.tile_n + (problem.batches - 1) * p.b_batch;
  key.wide_index = key.wide_index || std::max(last_a, last_b) >= std::int64_t(1) << 31;
  launch_tiles(queue, key, problem, 128);
}

// 16-bit floats, tf32, float32.
std::size_t kind(const GemmProblem& problem) {
  const int passes = tf32_passes(problem);
  return passes == 0 ? 0 : passes == 1 ? 1 : 2;
}

// Seconds that packing takes and that this core then saves.
double packing_time(const Device& device, const GemmProblem& problem) {
  static tuning::Numbers<2> numbers("gemm.wgmma.packing");
  const auto& [start, bandwidth] = numbers(device);
  const auto& p = problem.p;
  const double rows = double(p.m) * (p.a_batch ? double(problem.batches) : 1.0);
  const double columns = double(p.n) * (p.b_batch ? double(problem.batches) : 1.0);
  return start + (rows + columns) * double(p.k) * double(size_of(problem.type)) * (1 + parts(problem)) / bandwidth;
}
double saved_time(const Device& device, const GemmProblem& problem) {
  static tuning::Numbers<6> numbers("gemm.wgmma.rates");
  const auto& p = problem.p;
  const double mma = numbers(device)[kind(problem)], wgmma = numbers(device)[3 + kind(problem)];
  return 2 * double(p.m) * double(p.n) * double(p.k) * double(problem.batches) * (1 / mma - 1 / wgmma);
}

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16 && problem.type != DataType::float32)
    return "only for float32 and 16-bit floats";
  if (problem.mode != GemmMode::plain) return "only for plain products";
  const auto& p = problem.p;
  if (p.k == 0) return "k is 0";
  if (std::max({p.m, p.n, p.k}) > longest || problem.batches > 65535) return "too large to be packed";
  if (device.info().max_work_group < 128) return "the device's work-groups are too small";
  if (forced) return nullptr;
  if (device.info().nv_compute_capability != 90) return "the device is not of the Hopper architecture";
  if (stores_too_much(device, problem)) return "sums are short, and C cannot be written in pieces";
  if (saved_time(device, problem) < packing_time(device, problem)) return "too small a product for packing to pay";
  return nullptr;
}

void run(Queue& queue, const GemmProblem& problem) {
  using Tables = std::array<TileTable, 3>;
  static tuning::PerDevice<Tables> tables([](const DeviceInfo& info) {
    return Tables{read_tiles(info, "wgmma.16bit", "wgmma"), read_tiles(info, "wgmma.tf32", "wgmma"),
                  read_tiles(info, "wgmma.float32", "wgmma")};
  });
  const TileTable& tiles = tables(queue.device())[kind(problem)];
  run_with(queue, problem, choose_tile(queue, core, problem, tiles, run_with));
}

void define(KernelSource& source, const Device&, const GemmKey& key) {
  source.define("BN", key.shape[1]).define("STAGES", key.stages).define("VC", key.vc).ptx_target("sm_90a");
  source.define("BYTES", std::int64_t(size_of(DataType(key.type)))).define("PASSES", key.passes);
}

constexpr GemmCore core{.name = "wgmma",
                        .order = 500,
                        .kernel = "wgmma",
                        .decline = decline,
                        .run = run,
                        .define = define,
                        .copies = true,
                        .may_fail_to_build = true,
                        .passes = true};

}  // namespace

void wgmma(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
