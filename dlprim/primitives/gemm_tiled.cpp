// SPDX-License-Identifier: MIT
// The engine's core for GPUs: choice of tile, vector widths and split.
#include "../tuning/gemm_tuning.hpp"
#include "gemm_launch.hpp"

#include <cstdlib>
#include <string>

namespace dlprim {

namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int group_size(const TileShape& s) { return s.bm / s.tm * (s.bn / s.tn); }

// Alignment of vector accesses.
struct Aligned {
  std::int64_t unit;  // elements
  bool operator()(std::initializer_list<std::int64_t> values) const {
    return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v % unit == 0; });
  }
  bool at(const BufferRef& buffer, DataType type) const { return buffer.offset % (unit * size_of(type)) == 0; }
};

// Four points in a row lie side by side in memory where the rows are multiples of 4.
bool point_runs(const std::int64_t (&stride)[3], std::int64_t image, const GemmIndices<std::int64_t>& p, Aligned four) {
  return stride[2] == 1 && four({p.out[2], stride[0], stride[1], image});
}

void choose_vectors(const GemmProblem& problem, GemmKey& key) {
  const auto& p = problem.p;
  const Aligned four{4};
  const bool plain = problem.mode == GemmMode::plain, gradient = problem.mode == GemmMode::weights_gradient;
  bool va = four.at(problem.a, problem.type) && four({p.a_batch}), vb = four.at(problem.b, problem.type) && four({p.b_batch});
  if (gradient) {
    key.a_along_k = p.y_stride[2] == 1 || p.a_m != 1;
    va = va && (key.a_along_k ? point_runs(p.y_stride, p.y_n, p, four) && four({p.a_m})
                              : p.a_m == 1 && four({p.m, p.y_n, p.y_stride[0], p.y_stride[1], p.y_stride[2]}));
  } else {
    key.a_along_k = p.a_k == 1;
    va = va && (key.a_along_k ? four({p.k, p.a_m}) : p.a_m == 1 && four({p.m, p.a_k}));
  }
  if (plain) {
    key.b_along_k = p.b_k == 1;
    vb = vb && (key.b_along_k ? four({p.k, p.b_n}) : p.b_n == 1 && four({p.n, p.b_k}));
  } else {
    // Along the points where pixels are side by side, along the taps where channels are.
    const bool channels = p.x_c == 1 && p.x_stride[2] != 1;
    key.b_along_k = channels != gradient;
    vb = vb && !problem.check &&
         (channels ? problem.channel_inner && four({p.channels, p.x_n, p.x_stride[0], p.x_stride[1], p.x_stride[2]})
                   : p.step[2] == 1 && point_runs(p.x_stride, p.x_n, p, four) && four({p.x_c, p.start[2]}) &&
                         p.taps[2] == 1);
    if (channels && problem.check)
      vb = four.at(problem.b, problem.type) && problem.channel_inner &&
           four({p.b_batch, p.channels, p.x_n, p.x_stride[0], p.x_stride[1], p.x_stride[2]});
  }
  const bool vc = four.at(problem.c, problem.type) && four({p.c_batch, p.c_m, p.n}) &&
                  (problem.mode == GemmMode::convolution ? point_runs(p.y_stride, p.y_n, p, four) : p.c_n == 1);
  key.va = va ? 4 : 1, key.vb = vb ? 4 : 1, key.vc = vc ? 4 : 1;
}

struct Choice {
  TileShape shape;
  std::int64_t splits;
};

// DLPRIM_GEMM_TILE=128x64x8 considers tiles of that size only, DLPRIM_GEMM_SPLIT=4 that split: for tests and tuning.
struct Forced {
  const char* tile = std::getenv("DLPRIM_GEMM_TILE");
  const char* split = std::getenv("DLPRIM_GEMM_SPLIT");
  bool excludes(const TileShape& s) const {
    return tile && std::to_string(s.bm) + "x" + std::to_string(s.bn) + "x" + std::to_string(s.bk) != tile;
  }
  bool excludes(std::int64_t splits) const { return split && std::to_string(splits) != split; }
};

// Time of the slowest compute unit, in multiply-adds at the full rate, for the best shape and split.
Choice choose_shape(const DeviceInfo& info, const GemmProblem& problem) {
  const auto& p = problem.p;
  Choice best{tile_shapes(info, size_of(accumulate_type(problem.type)))[0], 1};
  double best_time = 0;
  const Forced forced;
  for (const TileShape& s : tile_shapes(info, size_of(accumulate_type(problem.type)))) {
    if (forced.excludes(s)) continue;
    const std::int64_t tiles = divide_up(p.m, s.bm) * divide_up(p.n, s.bn) * problem.batches;
    for (std::int64_t splits = 1; splits <= 512 && (splits == 1 || p.k >= 64 * splits); splits *= 2) {
      if (forced.excludes(splits)) continue;
      // Tiles of the busiest unit: whole rounds of `resident`, then a rest that hides latency less well.
      const std::int64_t rounds = divide_up(tiles * splits, info.compute_units), rest = rounds % s.resident;
      const double busy = double(rounds - rest) + (rest ? double(rest) / (0.2 + 0.8 * double(rest) / s.resident) : 0.0);
      const double depth = double(divide_up(p.k, splits)) + 24;  // prologue and epilogue of a tile
      const double speed = problem.mode == GemmMode::weights_gradient ? s.weights_speed : s.speed;
      double time = busy * s.bm * s.bn * depth / speed;
      // Partial sums go through memory, which moves about one element in the time of 32 multiply-adds a unit.
      if (splits > 1) time += 32.0 * double(p.m * p.n * problem.batches) * double(2 * splits + 1) / info.compute_units + 4e5;
      if (best_time == 0 || time < best_time) best_time = time, best = {s, splits};
    }
  }
  return best;
}

}  // namespace

const char* decline_tiled(const Device& device, const GemmProblem& problem, bool forced) {
  if (!is_floating(problem.type)) return "only for floating types";
  if (device.info().cpu && !forced) return "for GPUs";
  if (problem.p.k == 0) return "k is 0";
  if (device.info().max_work_group < 256 || device.info().local_memory < 12288) return "the device's work-groups are too small";
  return nullptr;
}

void run_tiled(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = given;
  auto [s, splits] = choose_shape(queue.device().info(), problem);
  auto& p = problem.p;
  GemmKey key = gemm_key(GemmCore::tiled, problem);
  choose_vectors(problem, key);
  const int group = group_size(s);
  if (s.bm * s.bk % (group * key.va) != 0) key.va = 1;
  if (s.bn * s.bk % (group * key.vb) != 0) key.vb = 1;
  p.tiles_m = divide_up(p.m, s.bm), p.tiles_n = divide_up(p.n, s.bn);
  p.k_split = divide_up(divide_up(p.k, splits), s.bk) * s.bk;
  p.splits = divide_up(p.k, p.k_split);
  key.wide_index = !fits_32_bits(problem);
  const std::uint16_t parts[] = {s.bm, s.bn, s.bk, s.tm, s.tn};
  std::copy(std::begin(parts), std::end(parts), key.shape);
  if (p.splits > 1) key.vc = 1;
  key.tap_mask = problem.check && problem.mode != GemmMode::plain && p.taps[0] * p.taps[1] * p.taps[2] <= 32;
  key.full_k = p.k % s.bk == 0;
  launch_tiles(queue, key, problem, std::size_t(group));
}

}  // namespace dlprim
