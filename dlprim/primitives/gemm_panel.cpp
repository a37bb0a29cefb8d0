// SPDX-License-Identifier: MIT
// The engine's core for CPUs: how a problem is cut into tiles.
#include "../tuning/gemm_tuning.hpp"
#include "gemm_launch.hpp"

namespace dlprim {

namespace {
// Length of the equal pieces, multiples of `unit` and at most `limit`, that `size` is cut into.
std::int64_t even_piece(std::int64_t size, std::int64_t limit, std::int64_t unit) {
  const std::int64_t pieces = divide_up(size, limit / unit * unit);
  return divide_up(divide_up(size, pieces), unit) * unit;
}

void run_with(Queue& queue, const GemmProblem& given, const PanelShape& shape) {
  GemmProblem problem = given;
  const DeviceInfo& info = queue.device().info();
  auto& p = problem.p;
  p.tile_m = even_piece(p.m, shape.mb, shape.mr), p.tile_n = even_piece(p.n, shape.nb, shape.nr);
  // Enough tiles to balance the cores: smaller ones first, then pieces of k.
  const std::int64_t wanted = 4 * std::int64_t(info.compute_units);
  auto tiles = [&] { return divide_up(p.m, p.tile_m) * divide_up(p.n, p.tile_n) * problem.batches; };
  while (tiles() < wanted && p.tile_n > shape.nr && p.m >= 32) p.tile_n -= shape.nr;
  const std::int64_t slices = divide_up(p.k, shape.kb);
  if (tiles() < wanted && slices >= 4) p.splits = std::min<std::int64_t>({slices / 2, divide_up(wanted, tiles()), 16});
  p.k_split = divide_up(slices, p.splits) * shape.kb;
  p.splits = divide_up(p.k, p.k_split);
  p.tiles_m = divide_up(p.m, p.tile_m), p.tiles_n = divide_up(p.n, p.tile_n);
  if (!problem.addend.memory) problem.beta = 0;
  GemmKey key = gemm_key(GemmCore::panel, problem);
  key.both = 1;
  key.check = key.addend = 1;  // cost next to nothing here and save compiling more kernels
  const std::uint16_t parts[] = {shape.mr, shape.nr, shape.mb, shape.nb, shape.kb};
  std::copy(std::begin(parts), std::end(parts), key.shape);
  launch_tiles(queue, key, problem, 1);
}

}  // namespace

const char* decline_panel(const Device& device, const GemmProblem& problem, bool forced) {
  if (!is_floating(problem.type)) return "only for floating types";
  if (!device.info().cpu && !forced) return "for CPUs";
  if (problem.p.k == 0) return "k is 0";
  if (device.info().local_memory < 32768) return "needs 32 KB of local memory";
  return nullptr;
}

void run_panel(Queue& queue, const GemmProblem& problem) {
  run_with(queue, problem, choose_panel(queue, problem, run_with));
}

}  // namespace dlprim
