// SPDX-License-Identifier: MIT
// Gradients of a convolution's weights on CPUs whose channels lie side by side, of float32 and, where the CPU has dot
// products of pairs, bfloat16.
#include <algorithm>
#include <optional>

#include "../../../tuning/store.hpp"
#include "../../dot_products.hpp"
#include "../core.hpp"
#include "../pack.hpp"

namespace dlprim::gemm_cores {

namespace {

constexpr std::int64_t lanes = 16;  // of a vector
constexpr std::int64_t most_rows = 256, slice = 256;  // of a tile; points at once
constexpr std::size_t local_memory = (most_rows + slice) * 48 * sizeof(float) + 4096;

struct Block {
  std::int64_t rows, channels;
  std::int64_t shared = 0;  // rows and channels of each of several groups that a work-item takes at once
};

// Whether vectors hold the rows of several groups, whose sums are not split: enough of them for all cores.
bool shares_vectors(const Device& device, const GemmProblem& problem) {
  const auto& p = problem.p;
  const std::int64_t rows = problem.batches * p.m, items = divide_up(rows, lanes) * (p.n / p.channels);
  return problem.batches > 1 && p.m == p.channels && (p.m == 2 || p.m == 4 || p.m == 8) && rows >= lanes &&
         (items >= 2 * std::int64_t(device.info().compute_units) || p.k <= 8 * slice);
}

Block block_of(const Device& device, const GemmProblem& problem) {
  if (shares_vectors(device, problem)) return {1, lanes, problem.p.m};
  static tuning::Numbers<2> numbers("gemm.constant");
  const auto& [rows, columns] = numbers(device);
  const auto time = [&](std::int64_t width) {
    return divide_up(problem.p.channels, width) * time_of_vectors(width / lanes);
  };
  std::int64_t best = lanes;
  for (std::int64_t width = 2 * lanes; width <= std::int64_t(columns); width += lanes)
    if (time(width) <= time(best)) best = width;
  return {std::int64_t(rows), best};
}

// Rows of y's gradient, of all groups, in pairs of points.
Workspace pairs_of(Queue& queue, GemmProblem& problem) {
  auto& p = problem.p;
  const std::int64_t step = p.y_stride[2];
  const PackedOperand rows{.data = problem.a,
                           .lines = divide_up(p.k, 2),
                           .count = problem.batches * p.m,
                           .line = 2 * step,
                           .step = 1,
                           .batch = 0,
                           .width = 256,
                           .panel = 256,
                           .pitch = problem.batches * p.m,
                           .pairs = true,
                           .other = step,
                           .single = p.k % 2 ? Single::last_line : Single::none};
  Workspace pairs(queue, std::size_t(packed_size(rows)) * sizeof(float));
  pack(queue, problem.type, 1, rows, pairs.data());
  problem.a = pairs.data(), p.a_k = rows.pitch;
  return pairs;
}

// One problem of several groups' rows, which vectors hold; its sums are not split.
void set_shared_tiles(GemmProblem& problem) {
  auto& p = problem.p;
  p.m *= problem.batches, problem.batches = divide_up(p.m, lanes);
  p.tile_m = lanes, p.tiles_m = 1, p.tiles_n = p.n / p.channels, p.k_split = p.k;
}

void set_tiles(GemmProblem& problem, const Block& block, const DeviceInfo& info) {
  auto& p = problem.p;
  const std::int64_t wanted = 4 * std::int64_t(info.compute_units);
  p.tile_m = std::min(divide_up(p.m, block.rows) * block.rows, most_rows / block.rows * block.rows);
  p.tiles_m = divide_up(p.m, p.tile_m);
  p.tiles_n = p.n / p.channels * divide_up(std::int64_t(p.channels), block.channels);
  const std::int64_t tiles = p.tiles_m * p.tiles_n * problem.batches, slices = divide_up(p.k, slice);
  if (tiles < wanted)
    p.splits = std::clamp<std::int64_t>(divide_up(wanted, tiles), 1, std::max<std::int64_t>(1, slices / 2));
  p.k_split = divide_up(slices, p.splits) * slice;
  p.splits = divide_up(p.k, p.k_split);
}

extern const GemmCore core;

void run(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = given;
  const Block block = block_of(queue.device(), problem);
  Workspace pairs;
  problem.p.a_k = problem.p.y_stride[2];
  if (problem.type == DataType::bfloat16) pairs = pairs_of(queue, problem);
  if (block.shared) set_shared_tiles(problem);
  else set_tiles(problem, block, queue.device().info());
  GemmKey key = gemm_key(&core, problem);
  key.split = problem.p.splits > 1;
  key.shape[0] = std::uint16_t(block.rows), key.shape[1] = std::uint16_t(block.channels);
  key.shape[2] = std::uint16_t(block.shared);
  launch_tiles(queue, key, problem, 1);
}

// Whether the points of y follow each other at equal distances.
bool in_a_row(const GemmIndices<std::int64_t>& p) {
  std::int64_t distance = p.y_stride[2];
  for (int i = 2; i >= 0; i--) {
    if (p.out[i] > 1 && p.y_stride[i] != distance) return false;
    distance *= p.out[i];
  }
  return p.k == p.out[0] * p.out[1] * p.out[2] || p.y_n == distance;
}

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  const auto& p = problem.p;
  if (problem.mode != GemmMode::weights_gradient) return "only for gradients of weights";
  if (!device.info().cpu && !forced) return "for CPUs";
  if (problem.type != DataType::float32 && problem.type != DataType::bfloat16) return "only for float32 and bfloat16";
  if (!problem.channel_inner || p.x_c != 1 || p.a_m != 1 || p.c_n != 1) return "only for channels side by side";
  if (problem.batches > 1 && p.m < 8 && !shares_vectors(device, problem)) return "groups of few channels";
  if (!in_a_row(p)) return "points of y do not lie in a row";
  if (problem.addend.memory || problem.residual.memory) return "only for results without an addend";
  if (p.k == 0) return "no points";
  if (device.info().local_memory < local_memory) return "needs local memory";
  if (problem.type == DataType::float32) return nullptr;
  return bfloat16_dot(device) ? nullptr : "the CPU or its driver has no dot products of bfloat16";
}

void define(KernelSource& source, const Device& device, const GemmKey& key) {
  define_shape(source, key, {"MR", "NR", "LANES"});
  source.define("MB", most_rows).define("SLICE", slice);
  if (DataType(key.type) == DataType::bfloat16) source.define("BFLOAT16_DOT", bfloat16_dot(device));
}

constexpr GemmCore core{.name = "points_weights",
                        .order = 271,
                        .kernel = "points_weights",
                        .decline = decline,
                        .run = run,
                        .define = define,
                        .copies = true,
                        .a_of_sums = true};

}  // namespace

void points_weights(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
