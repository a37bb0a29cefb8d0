// SPDX-License-Identifier: MIT
// What the cores that compute tiles choose for a problem: vector widths, tile and split of k.
#include "core.hpp"

#include <dlprim/runtime/environment.hpp>

#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

namespace dlprim {

namespace {

// Alignment of vector accesses.
struct Aligned {
  std::int64_t unit;  // elements
  bool operator()(std::initializer_list<std::int64_t> values) const {
    return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v % unit == 0; });
  }
  bool at(const BufferRef& buffer, DataType type) const { return buffer.offset % (unit * size_of(type)) == 0; }
};

// `unit` points in a row lie side by side in memory where the rows are multiples of it.
bool point_runs(const std::int64_t (&stride)[3], std::int64_t image, const GemmIndices<std::int64_t>& p,
                Aligned aligned) {
  return stride[2] == 1 && aligned({p.out[2], stride[0], stride[1], image});
}

// DLPRIM_GEMM_TILE=128x64x8 considers such tiles only; 128x64x8x8x8x2, with tm, tn and stages, that one, known or not.
// DLPRIM_GEMM_SPLIT=4 considers that split only, DLPRIM_GEMM_SPLIT=stream only stream-K. For tests and tuning.
struct Forced {
  const char* tile = environment::text("DLPRIM_GEMM_TILE");
  const char* split = environment::text("DLPRIM_GEMM_SPLIT");
  std::optional<TileShape> whole() const {
    TileShape s{0, 0, 0, 0, 0, 1, 1, 1, 2};
    const char* form = "%hux%hux%hux%hux%hux%hhu";
    const bool all = tile && std::sscanf(tile, form, &s.bm, &s.bn, &s.bk, &s.tm, &s.tn, &s.stages) == 6;
    return all ? std::optional(s) : std::nullopt;
  }
  bool excludes(const TileShape& s) const { return tile && !(text_of(s) + "x").starts_with(std::string(tile) + "x"); }
  bool excludes(std::int64_t splits) const { return split && std::to_string(splits) != split; }
  bool excludes_stream() const { return split && std::string_view(split) != "stream"; }
};

}  // namespace

Vectors vectors(const GemmProblem& problem, int unit) {
  const auto& p = problem.p;
  const Aligned aligned{unit};
  const bool plain = problem.mode == GemmMode::plain, gradient = problem.mode == GemmMode::weights_gradient;
  Vectors v{};
  v.a = aligned.at(problem.a, problem.type) && aligned({p.a_batch});
  v.b = aligned.at(problem.b, problem.type) && aligned({p.b_batch});
  if (gradient) {
    v.a_along_k = p.y_stride[2] == 1 || p.a_m != 1;
    v.a = v.a && (v.a_along_k ? point_runs(p.y_stride, p.y_n, p, aligned) && aligned({p.a_m})
                              : p.a_m == 1 && aligned({p.m, p.y_n, p.y_stride[0], p.y_stride[1], p.y_stride[2]}));
  } else {
    v.a_along_k = p.a_k == 1;
    v.a = v.a && (v.a_along_k ? aligned({std::gcd(p.k, problem.k_unit), p.a_m}) : p.a_m == 1 && aligned({p.m, p.a_k}));
  }
  if (plain) {
    v.b_along_k = p.b_k == 1;
    v.b = v.b && (v.b_along_k ? aligned({p.k, p.b_n}) : p.b_n == 1 && aligned({p.n, p.b_k}));
  } else {
    // Along the points where pixels are side by side, along the taps where channels are.
    const bool channels = p.x_c == 1 && p.x_stride[2] != 1;
    v.b_along_k = channels != gradient;
    v.b = v.b &&
          (channels ? problem.channel_inner && aligned({p.channels, p.x_n, p.x_stride[0], p.x_stride[1], p.x_stride[2]})
                    : !problem.check && p.step[2] == 1 && point_runs(p.x_stride, p.x_n, p, aligned) &&
                          aligned({p.x_c, p.start[2]}) && p.taps[2] == 1);
  }
  v.c = aligned.at(problem.c, result_type(problem)) && aligned({p.c_batch, p.c_m, p.n}) &&
        (problem.mode == GemmMode::convolution ? point_runs(p.y_stride, p.y_n, p, aligned) : p.c_n == 1);
  return v;
}

bool stores_too_much(const Device& device, const GemmProblem& problem) {
  static tuning::Numbers<1> shortest("gemm.scattered");
  return !vectors(problem, stored_at_once(problem)).c && double(problem.p.k) < shortest(device)[0];
}

bool few_taps(const GemmProblem& problem, int bits) {
  return problem.check && problem.mode != GemmMode::plain &&
         problem.p.taps[0] * problem.p.taps[1] * problem.p.taps[2] <= bits;
}

bool tiles_are_forced() {
  const Forced forced;
  return forced.tile || forced.split;
}

namespace {

// Estimates the time of a tile on a device's busiest compute unit, in multiply-adds.
struct Estimate {
  const TileShape& s;
  const TileCosts& costs;
  const DeviceInfo& info;
  const GemmProblem& problem;

  // `groups` work-groups that go through `depth` of k each: whole rounds of `resident`, then a rest that hides latency
  // less well.
  double rounds(std::int64_t groups, double depth) const {
    const std::int64_t rounds = divide_up(groups, info.compute_units), rest = rounds % s.resident;
    const double part = costs.alone + (1 - costs.alone) * double(rest) / s.resident;
    const double busy = double(rounds - rest) + (rest ? double(rest) / part : 0.0);
    const double speed = problem.mode == GemmMode::weights_gradient ? s.weights_speed : s.speed;
    const double average = double(groups) / info.compute_units;
    return ((1 - costs.power) * busy + costs.power * average) * s.bm * s.bn * depth / speed;
  }
  // Writing and reading `partial` sums, and writing the result.
  double reduction(double partial) const {
    const double results = double(problem.p.m * problem.p.n * problem.batches);
    return costs.element * (2 * partial + results) / info.compute_units + costs.reduction;
  }
};

// Splits worth a look: powers of 2, and as many as fill every unit with 1, 2 ... `resident` groups.
std::vector<std::int64_t> splits_for(std::int64_t tiles, std::int64_t k, const TileShape& s, const DeviceInfo& info,
                                     std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t splits = 1; splits <= most; splits *= 2) all.push_back(splits);
  for (std::int64_t groups = 1; groups <= s.resident; groups++) all.push_back(info.compute_units * groups / tiles);
  std::erase_if(all,
                [&](std::int64_t splits) { return splits < 1 || splits > most || (splits > 1 && k < 64 * splits); });
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Slices of each group where every unit has as many groups as it holds; 0 where that cannot be.
std::int64_t stream_share(std::int64_t shares, std::int64_t slices, const TileShape& s, const DeviceInfo& info) {
  if (slices < 2 || shares >= std::int64_t(1) << 30) return 0;
  return std::max(divide_up(shares, std::int64_t(info.compute_units) * s.resident), divide_up(64, s.bk));
}

double operand_bytes(const GemmProblem& problem) {
  const auto& p = problem.p;
  const double elements =
      problem.mode == GemmMode::plain ? double(p.m + p.n) * double(p.k) : double(p.m) * double(p.k) + double(p.x_size);
  return elements * double(problem.batches) * double(size_of(problem.type));
}

// How often bytes of an operand count whose rows begin so many elements apart; those that begin at no multiple of 16
// bytes are copied before.
double counted(const RingCosts& costs, const GemmProblem& problem, const BufferRef& data, std::int64_t row,
               std::int64_t batch) {
  const auto beginnings = std::uint64_t((row | batch) * factor_bytes(problem)) | data.offset;
  if (beginnings % 128 == 0 || beginnings % 16 != 0) return 1;
  return beginnings % 32 == 0 ? costs.sectors : costs.pieces;
}

// Whether tiles in turns were seen to gain by how C, or partial sums, are stored: as boxes, or in float32 with a bias; not
// where rows begin between pieces of 16 bytes, or are those of groups.
bool turns_pay(const GemmProblem& problem, std::int64_t splits) {
  if (problem.groups && !problem.groups->of_k) return false;
  if (splits > 1) return problem.p.n % 4 == 0;
  const bool matrix_added = (problem.addend.memory && problem.p.d_m != 0) || problem.residual.memory;
  const std::size_t bytes = size_of(result_type(problem));
  return (bytes < 4 || !matrix_added) && vectors(problem, int(16 / bytes)).c;
}

// Seconds of a tile of a core with a ring of stages.
struct RingEstimate {
  const TileShape& s;
  const RingCosts& costs;
  const DeviceInfo& info;
  const GemmProblem& problem;
  double counted_a, counted_b;

  RingEstimate(const TileShape& shape, const RingCosts& ring, const DeviceInfo& device, const GemmProblem& given)
      : s(shape), costs(ring), info(device), problem(given) {
    const auto& p = problem.p;
    counted_a = counted(costs, problem, problem.a, p.a_k == 1 ? p.a_m : p.a_k, p.a_batch);
    counted_b = counted(costs, problem, problem.b, p.b_k == 1 ? p.b_n : p.b_k, p.b_batch);
  }

  // Of what goes on at the same time, about the longest.
  static double together(double a, double b, double c = 0) { return std::cbrt(a * a * a + b * b * b + c * c * c); }

  // A tile of `slices`, and one of these, where `groups` share a unit.
  double tile(double slices, double groups) const { return slices * slice(groups) + costs.start; }
  double slice(double groups) const {
    const double bytes = (s.bm * counted_a + s.bn * counted_b) * s.bk * double(factor_bytes(problem));
    const double multiplied = groups * s.bm * s.bn * s.bk / (costs.rate * s.speed);
    const double arrived = (costs.latency + bytes / costs.arrival) / s.stages;
    return together(multiplied, arrived, groups * bytes / costs.ingest);
  }
  // So many tiles of a unit, of which others are multiplied while one is stored, which is most of `start`.
  double in_turns(double slices, double tiles, std::int64_t splits) const {
    constexpr double never = std::numeric_limits<double>::infinity();
    if (!turns_pay(problem, splits) || counted_a > costs.sectors || counted_b > costs.sectors) return never;
    const double multiplied = slices * slice(1);
    const double time = tiles * std::max(multiplied, (multiplied + 1.5 * costs.start) / 2) + costs.start;
    // Measured: boxes that reach past the last column slow others, too, and rows that begin between lines are less sure.
    const double beyond = 1 - double(problem.p.n) / double(divide_up(problem.p.n, s.bn) * s.bn);
    return time * (1 + 2 * beyond) * (counted_a > 1 || counted_b > 1 ? 1.02 : 1.0);
  }
  double seconds(std::int64_t splits) const {
    const auto& p = problem.p;
    const std::int64_t groups = divide_up(p.m, s.bm) * divide_up(p.n, s.bn) * problem.batches * splits;
    const std::int64_t most = divide_up(groups, info.compute_units), rest = most % s.resident;
    const double slices = double(divide_up(divide_up(p.k, s.bk), splits));
    double time = double(most / s.resident) * tile(slices, s.resident) + (rest ? tile(slices, double(rest)) : 0.0);
    if (takes_turns(s)) time = in_turns(slices, double(most), splits);
    time = together(time, operand_bytes(problem) / costs.memory);
    const double sums = double(p.m * p.n * problem.batches) * double(2 * splits + 1);
    return splits > 1 ? time + costs.reduction + costs.element * sums : time;
  }
};

}  // namespace

std::vector<TileChoice> rank_tiles(const TileTable& tiles_known, const DeviceInfo& info, const GemmProblem& problem,
                                   std::int64_t most_splits) {
  const auto& p = problem.p;
  const TileCosts& costs = tiles_known.costs;
  std::span<const TileShape> shapes = tiles_known.shapes;
  std::vector<std::pair<double, TileChoice>> timed;
  const Forced forced;
  const std::optional<TileShape> whole = forced.whole();
  if (whole) shapes = {&*whole, 1};
  for (const TileShape& s : shapes) {
    if (forced.excludes(s)) continue;
    const Estimate estimate{s, costs, info, problem};
    const std::int64_t tiles = divide_up(p.m, s.bm) * divide_up(p.n, s.bn) * problem.batches;
    for (const std::int64_t splits : splits_for(tiles, p.k, s, info, most_splits)) {
      if (forced.excludes(splits)) continue;
      if (tiles_known.ring) {
        timed.push_back({RingEstimate(s, *tiles_known.ring, info, problem).seconds(splits), {s, splits}});
        continue;
      }
      double time = estimate.rounds(tiles * splits, double(divide_up(p.k, splits)) + costs.tile);
      if (splits > 1) time += estimate.reduction(double(p.m * p.n * problem.batches * splits));
      timed.push_back({time, {s, splits}});
    }
    const std::int64_t slices = divide_up(p.k, s.bk), shares = tiles * slices;
    const std::int64_t share = costs.stream_bytes ? stream_share(shares, slices, s, info) : 0;
    if (!share || forced.excludes_stream()) continue;
    if (!forced.split && operand_bytes(problem) > costs.stream_bytes) continue;
    const std::int64_t groups = divide_up(shares, share);
    const double starts = costs.tile * (1 + double(share) / double(slices));
    timed.push_back({estimate.rounds(groups, double(share * s.bk) + starts) / costs.stream_speed +
                         estimate.reduction(double(tiles + groups) * s.bm * s.bn),
                     {s, 0, share}});
  }
  if (timed.empty()) return {{shapes[0], 1}};
  std::stable_sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TileChoice> ranked;
  for (const auto& [time, choice] : timed) ranked.push_back(choice);
  return ranked;
}

void set_tiles(GemmProblem& problem, GemmKey& key, const TileChoice& choice) {
  auto& p = problem.p;
  const TileShape& s = choice.shape;
  p.tiles_m = divide_up(p.m, s.bm), p.tiles_n = divide_up(p.n, s.bn);
  p.slices = divide_up(p.k, s.bk);
  if (choice.share && p.slices > 1) {
    p.share = choice.share;
    p.shares = p.tiles_m * p.tiles_n * problem.batches * p.slices;
    p.splits = divide_up(p.slices - 1, p.share) + 1;  // at most, of any tile
    p.tile_m = s.bm, p.tile_n = s.bn;  // for the reduction
    key.stream = s.resident;
  } else {
    p.k_split = divide_up(p.slices, std::max<std::int64_t>(choice.splits, 1)) * s.bk;
    p.splits = divide_up(p.k, p.k_split);
  }
  key.wide_index = !fits_32_bits(problem);
  key.stages = s.stages;
  const std::uint16_t parts[] = {s.bm, s.bn, s.bk, s.tm, s.tn};
  std::copy(std::begin(parts), std::end(parts), key.shape);
}

}  // namespace dlprim
