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

constexpr std::int64_t most_rows = 256, slice = 256;  // of a tile; points at once
constexpr std::size_t local_memory = (most_rows + slice) * 48 * sizeof(float) + 4096;

struct Block {
  std::int64_t rows, channels;
};

Block block_of(const Device& device, std::int64_t channels) {
  static tuning::Numbers<2> numbers("gemm.constant");
  const auto& [rows, columns] = numbers(device);
  const std::int64_t most = divide_up(channels, 16) * 16;
  std::int64_t width = std::min(std::int64_t(columns), most);
  if (width == 48 && channels % 48 != 0 && channels % 32 == 0) width = 32;
  return {std::int64_t(rows), width};
}

// Rows of y's gradient in pairs of points.
Workspace pairs_of(Queue& queue, GemmProblem& problem) {
  auto& p = problem.p;
  const std::int64_t step = p.y_stride[2];
  const PackedOperand rows{.data = problem.a,
                           .lines = divide_up(p.k, 2),
                           .count = p.m,
                           .line = 2 * step,
                           .step = 1,
                           .batch = 0,
                           .width = 256,
                           .panel = 256,
                           .pitch = p.m,
                           .other = step,
                           .odd = p.k % 2 != 0};
  Workspace pairs(queue, std::size_t(packed_size(rows)) * sizeof(float));
  pack(queue, problem.type, 1, rows, pairs.data());
  problem.a = pairs.data(), p.a_k = p.m;
  return pairs;
}

void set_tiles(GemmProblem& problem, const Block& block, const DeviceInfo& info) {
  auto& p = problem.p;
  const std::int64_t wanted = 4 * std::int64_t(info.compute_units);
  p.tile_m = std::min(divide_up(p.m, block.rows) * block.rows, most_rows / block.rows * block.rows);
  p.tiles_m = divide_up(p.m, p.tile_m);
  p.tiles_n = p.n / p.channels * divide_up(std::int64_t(p.channels), block.channels);
  const std::int64_t tiles = p.tiles_m * p.tiles_n, slices = divide_up(p.k, slice);
  if (tiles < wanted)
    p.splits = std::clamp<std::int64_t>(divide_up(wanted, tiles), 1, std::max<std::int64_t>(1, slices / 2));
  p.k_split = divide_up(slices, p.splits) * slice;
  p.splits = divide_up(p.k, p.k_split);
}

extern const GemmCore core;

void run(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = given;
  const Block block = block_of(queue.device(), problem.p.channels);
  Workspace pairs;
  problem.p.a_k = problem.p.y_stride[2];
  if (problem.type == DataType::bfloat16) pairs = pairs_of(queue, problem);
  set_tiles(problem, block, queue.device().info());
  GemmKey key = gemm_key(&core, problem);
  key.split = problem.p.splits > 1;
  key.shape[0] = std::uint16_t(block.rows), key.shape[1] = std::uint16_t(block.channels);
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
  if (problem.mode != GemmMode::weights_gradient || problem.batches != 1)
    return "only for gradients of weights without groups";
  if (!device.info().cpu && !forced) return "for CPUs";
  if (problem.type != DataType::float32 && problem.type != DataType::bfloat16) return "only for float32 and bfloat16";
  if (!problem.channel_inner || p.x_c != 1 || p.a_m != 1 || p.c_n != 1) return "only for channels side by side";
  if (!in_a_row(p)) return "points of y do not lie in a row";
  if (problem.addend.memory || problem.residual.memory) return "only for results without an addend";
  if (p.k == 0) return "no points";
  if (device.info().local_memory < local_memory) return "needs local memory";
  if (problem.type == DataType::float32) return nullptr;
  return bfloat16_dot(device) ? nullptr : "the CPU or its driver has no dot products of bfloat16";
}

void define(KernelSource& source, const Device& device, const GemmKey& key) {
  define_shape(source, key, {"MR", "NR"});
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
