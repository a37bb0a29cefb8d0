// SPDX-License-Identifier: MIT
// The engine's core for matrix units (NVIDIA's, through inline PTX) and products of few rows or columns.
#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core;

constexpr std::int64_t most_rows = 32, most_warps = 8;
constexpr std::int64_t cached = 131072;  // bytes of A that a compute unit keeps beside what it reads of B

const std::array<double, 4>& limits(const Device& device) {
  static tuning::Numbers<4> all("gemm.skinny");
  return all(device);
}

const std::array<double, 4>& tiles_of_columns(const Device& device) {
  static tuning::Numbers<4> all("gemm.skinny.tiles");
  return all(device);
}

std::int64_t bytes_of_a(const GemmProblem& problem) {
  return problem.p.m * problem.p.k * std::int64_t(size_of(problem.type));
}

const char* decline(const Device& device, const GemmProblem& given, bool forced) {
  if (given.mode != GemmMode::plain) return "only for matrices";
  if (given.type != DataType::float16 && given.type != DataType::bfloat16 && given.type != DataType::float32)
    return "only for float32 and 16-bit floats";
  if (std::min(given.p.m, given.p.n) > most_rows) return "too many rows and columns";
  const GemmProblem problem = wide(given);
  const auto& p = problem.p;
  if (p.k == 0) return "k is 0";
  const Vectors v = vectors(problem, 16 / int(size_of(problem.type)));
  if (!v.a || !v.b || !v.a_along_k || !v.b_along_k) return "the operands do not lie along k, aligned to 16 bytes";
  if (device.info().max_work_group < 32 * most_warps || device.info().local_memory < 49152)
    return "the device's work-groups are too small";
  if (forced) return nullptr;
  if (device.info().nv_compute_capability < 80) return "the device has no matrix units that it can use";
  const auto& [fewest, shortest, many_rows, many_columns] = limits(device);
  if (double(p.m) < fewest) return "too few rows";
  const bool one_pass = problem.type != DataType::float32 || tf32_passes(problem) == 1, turned = given.p.n < given.p.m;
  if (one_pass && !turned && double(p.m) > many_rows && double(p.n) >= many_columns && has_tma(device))
    return "tma is faster for so many rows and columns";
  if (one_pass && !turned && double(p.m) > many_rows && bytes_of_a(problem) > cached && has_tma(device))
    return "tma is faster for so many rows of such length";
  if (p.m > 16 && tf32_passes(problem) == 1) return "other cores are faster for so many rows";
  if (double(p.k) < shortest) return "too short sums";
  return nullptr;
}

struct Columns {
  std::int64_t tiles, steps, warps;  // R, R * U and WARPS of gemm/skinny.cl

  std::int64_t groups(const GemmProblem& problem) const { return divide_up(problem.p.n, 16 * tiles) * problem.batches; }
};

// What a work-group computes: where columns are few, rather than splits of wide tiles, narrow tiles, which read A more
// often; of two tiles of rows that pays as long as A stays in a compute unit's cache. Where there are many, small
// work-groups, which leave less to do at the end.
Columns choose_columns(const Device& device, const GemmProblem& problem) {
  const std::int64_t units = device.info().compute_units, row_tiles = divide_up(problem.p.m, 8);
  const bool single = problem.type == DataType::float32;
  const auto& [narrow, narrow_single, two, more] = tiles_of_columns(device);
  Columns c{std::int64_t(row_tiles > 2 ? more : row_tiles == 2 ? two : single ? narrow_single : narrow), 4, most_warps};
  if (single) return c;
  if (row_tiles == 2 && c.groups(problem) <= units) {
    if (bytes_of_a(problem) <= cached) c.tiles = 1, c.steps = 8;
    return c;
  }
  while (c.tiles > 1 && c.groups(problem) <= units) c.tiles /= 2;
  if (row_tiles > 1 || c.groups(problem) <= 4 * units) return c;
  c.warps = most_warps / 2;
  if (c.groups(problem) > 8 * units) c.steps = 8;
  return c;
}

void run(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = wide(given);
  auto& p = problem.p;
  if (problem.batches == 1) p.a_batch = p.b_batch = 0;
  const auto [tiles, steps, warps] = choose_columns(queue.device(), problem);
  const std::int64_t units = queue.device().info().compute_units;
  const std::int64_t step = 64 / std::int64_t(size_of(problem.type)), unit = warps * step * steps / tiles;
  p.tiles_m = 1, p.tiles_n = divide_up(p.n, 16 * tiles);
  // Splits pay for their second kernel where compute units would idle and sums are long.
  const std::int64_t groups = p.tiles_n * problem.batches, idle = 2 * units / groups;
  const std::int64_t splits = std::clamp<std::int64_t>(std::min(idle, p.k / (4 * unit)), 1, 64);
  p.k_split = divide_up(divide_up(p.k, splits), unit) * unit;
  p.splits = divide_up(p.k, p.k_split);
  GemmKey key = gemm_key(&core, problem);
  key.wide_index = !fits_32_bits(problem);
  const std::int64_t shape[] = {divide_up(p.m, 8), tiles, steps / tiles, warps};
  std::copy(std::begin(shape), std::end(shape), key.shape);
  launch_tiles(queue, key, problem, std::size_t(32 * warps));
}

void define(KernelSource& source, const Device&, const GemmKey& key) {
  define_shape(source, key, {"MT", "R", "U", "WARPS"});
  source.define("BYTES", std::int64_t(size_of(DataType(key.type)))).define("PASSES", key.passes);
}

constexpr GemmCore core{.name = "skinny",
                        .order = 150,
                        .kernel = "skinny",
                        .decline = decline,
                        .run = run,
                        .define = define,
                        .passes = true};

}  // namespace

void skinny(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
