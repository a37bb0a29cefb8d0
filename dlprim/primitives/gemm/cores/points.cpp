// SPDX-License-Identifier: MIT
// Convolutions on CPUs whose channels lie side by side, of float32 and, where the CPU has dot products of pairs,
// bfloat16; products of the latter, too, whose rows of A are contiguous.
#include <dlprim/primitives/bytes.hpp>

#include <algorithm>
#include <bit>
#include <optional>

#include "../../../tuning/store.hpp"
#include "../../dot_products.hpp"
#include "../core.hpp"
#include "../pack.hpp"

namespace dlprim::gemm_cores {

namespace {

constexpr std::int64_t most_points = 128, most_taps = 128;  // of a tile, of a window
constexpr std::int64_t lanes = 16, least_rows = 4;  // of a vector; of groups that do not share one
constexpr std::int64_t most_windows = 1152;  // of points at taps, looked up at once
constexpr std::int64_t cached = 512 << 10;  // bytes of weights that a tile goes through
constexpr std::int64_t longest_sum = 20000;

// Points and rows of a panel that registers hold, and how many of the rows are a group's, or 0 where panels are one
// group's.
struct Block {
  std::int64_t points, rows, shared;
};

// Of rows as many as leave the fewest vectors alone, of which each takes longer than among others.
std::int64_t width_of(std::int64_t most, std::int64_t rows) {
  const auto time = [&](std::int64_t width) {
    return rows / width * time_of_vectors(width / lanes) + time_of_vectors(divide_up(rows % width, lanes));
  };
  if (most != 48) return most;
  if (rows <= lanes) return lanes;
  return time(32) < time(48) ? 32 : 48;
}

// Whether vectors of 16 rows, but for half a one at the end, hold several groups of so many rows, of which each reads
// so many words of a tap.
bool shares_vectors(std::int64_t groups, std::int64_t rows, std::int64_t words) {
  if (groups == 1 || (rows != 2 && rows != 4 && rows != 8)) return false;
  const std::int64_t span = lanes / rows * words, behind = groups * rows % lanes;
  return std::has_single_bit(std::uint64_t(span)) && span <= lanes && span > 1 &&
         (behind == 0 || (behind == lanes / 2 && span > 2));
}

// The rows are of one group; words of a tap.
Block block_of(const Device& device, std::int64_t groups, std::int64_t rows, std::int64_t words) {
  static tuning::Numbers<2> numbers("gemm.constant");
  const auto& [points, columns] = numbers(device);
  const bool shares = shares_vectors(groups, rows, words);
  return {std::int64_t(points), shares ? lanes : width_of(std::int64_t(columns), rows), shares ? rows : 0};
}

Block block_of(const Device& device, const GemmProblem& problem) {
  return block_of(device, problem.batches, problem.p.m, problem.p.channels);
}

// A plain product as a convolution of one tap, whose image has the rows of A as its points.
GemmProblem of_points(const GemmProblem& plain) {
  GemmProblem problem = plain;
  transpose(problem);
  auto& p = problem.p;
  problem.mode = GemmMode::convolution, problem.rank = 1, problem.check = false, problem.channel_inner = true;
  p.channels = p.k, p.x_c = p.b_k, p.x_stride[2] = p.b_n, p.y_stride[2] = p.c_n;
  p.out[2] = p.in[2] = p.n, p.b_batch = 0, p.c_batch = p.m;
  return problem;
}

bool starts_at_pair(const BufferRef& data) { return data.offset % sizeof(float) == 0; }

bool lies_in_pairs(const GemmProblem& problem) {
  const auto& p = problem.p;
  const std::int64_t sizes[] = {p.channels, p.x_n, p.x_stride[0], p.x_stride[1], p.x_stride[2]};
  return std::ranges::all_of(sizes, [](std::int64_t size) { return size % 2 == 0; }) && starts_at_pair(problem.b);
}

// Of bfloat16, an image of pairs along the channels, which are read as floats.
void halve(GemmIndices<std::int64_t>& p) {
  p.k /= 2, p.x_size /= 2, p.x_n /= 2, p.channels = p.channels / 2, p.b_batch /= 2;
  for (std::int64_t& stride : p.x_stride) stride /= 2;
}

// Makes one problem of the groups', whose rows are those of all panels.
void join_groups(GemmProblem& problem, const Block& block) {
  auto& p = problem.p;
  const std::int64_t whole = block.shared ? p.m : divide_up(p.m, block.rows) * block.rows;
  p.m += (problem.batches - 1) * whole;
  if (block.shared) p.b_batch *= lanes / block.shared, p.c_batch = lanes;
  problem.batches = 1;
}

// The length of as many parts as those of `most` are, but equal ones.
std::int64_t in_equal_parts(std::int64_t all, std::int64_t most) { return divide_up(all, divide_up(all, most)); }

void set_tiles(GemmProblem& problem, const Block& block, const DeviceInfo& info) {
  auto& p = problem.p;
  const std::int64_t wanted = 4 * std::int64_t(info.compute_units), panels = divide_up(p.m, block.rows);
  const std::int64_t panel = block.rows * p.k * std::int64_t(sizeof(float));
  std::int64_t tile_panels = std::clamp<std::int64_t>(cached / panel, 1, panels), blocks = most_points / block.points;
  const auto tiles = [&] { return divide_up(panels, tile_panels) * divide_up(p.n, blocks * block.points); };
  while (tiles() < wanted && tile_panels > 1) tile_panels--;
  while (tiles() < wanted && blocks > 1) blocks--;
  tile_panels = in_equal_parts(panels, tile_panels);
  blocks = in_equal_parts(divide_up(p.n, block.points), blocks);
  p.tile_m = tile_panels * block.rows, p.tile_n = blocks * block.points;
  p.tiles_m = divide_up(p.m, p.tile_m), p.tiles_n = divide_up(p.n, p.tile_n), p.k_split = p.k;
}

// The weights of a problem as they lie, in pairs where it is halved: as floats where pairs lie as such.
PackedOperand weights_of(const GemmProblem& problem, bool halved, std::int64_t width, DataType& type) {
  const auto& p = problem.p;
  PackedOperand weights{.data = problem.a,
                        .lines = p.k,
                        .count = p.m,
                        .line = p.a_k,
                        .step = p.a_m,
                        .batch = p.a_batch,
                        .width = width,
                        .panel = p.k * width,
                        .pitch = width};
  type = problem.type;
  if (!halved) return weights;
  if (p.a_k == 1 && p.a_m % 2 == 0 && p.a_batch % 2 == 0 && starts_at_pair(problem.a))
    weights.step /= 2, weights.batch /= 2, type = DataType::float32;
  else weights.line *= 2, weights.pairs = true, weights.other = p.a_k;
  return weights;
}

// The weights in panels, with zeros as long as a point's channels of all groups behind them.
BufferRef panels_of(Queue& queue, const GemmProblem& problem, bool halved, const Block& block,
                    std::optional<Workspace>& own) {
  std::optional<Workspace>& kept = problem.kept_a ? *problem.kept_a : own;
  if (kept) return kept->data();
  DataType type;
  PackedOperand weights = weights_of(problem, halved, block.rows, type);
  std::int64_t groups = problem.batches;
  if (block.shared) weights.count *= groups, groups = 1;
  const std::size_t bytes = std::size_t(groups * packed_size(weights)) * sizeof(float);
  const std::size_t behind = problem.check ? std::size_t(problem.batches * problem.p.channels) * sizeof(float) : 0;
  kept.emplace(queue, bytes + behind);
  const std::uint32_t zero = 0;
  BufferRef zeros = kept->data();
  zeros.offset += bytes;
  if (behind) queue.fill(zeros, &zero, sizeof zero, behind);
  pack(queue, type, groups, weights, kept->data());
  return kept->data();
}

extern const GemmCore core;

void launch_points(Queue& queue, GemmProblem& problem, const Block& block) {
  const std::int64_t span = block.shared ? lanes / block.shared * problem.p.channels : 0;
  join_groups(problem, block);
  set_tiles(problem, block, queue.device().info());
  GemmKey key = gemm_key(&core, problem);
  key.addend = 1, key.shape[0] = std::uint16_t(block.points), key.shape[1] = std::uint16_t(block.rows);
  key.shape[2] = std::uint16_t(block.shared), key.shape[3] = std::uint16_t(span);
  launch_tiles(queue, key, problem, 1);
}

void run(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = given.mode == GemmMode::plain ? of_points(given) : given;
  const bool halved = problem.type == DataType::bfloat16;
  if (halved) halve(problem.p);
  const Block block = block_of(queue.device(), problem);
  std::optional<Workspace> own;
  problem.a = panels_of(queue, problem, halved, block, own);
  if (!problem.addend.memory) problem.beta = 0;
  launch_points(queue, problem, block);
}

// Whether there are enough rows for weights that are packed first, if only once, and a panel of these fits the cache.
bool plain_pays(const GemmProblem& problem) {
  const auto& p = problem.p;
  constexpr std::int64_t few_rows = 96, many_rows = 2048, in_cache = 4 << 20;  // elements
  const std::int64_t least = p.m * p.k > in_cache && !problem.kept_a ? many_rows : few_rows;
  return p.n >= least && 48 * p.k / 2 * std::int64_t(sizeof(float)) <= cached;
}

// Whether groups have too few rows, or lie otherwise than the kernel reads them.
const char* decline_groups(const GemmProblem& problem) {
  if (problem.batches == 1) return nullptr;
  const auto& p = problem.p;
  if (problem.addend.memory && p.d_batch != p.m * p.d_m) return "only for an addend of all groups";
  const std::int64_t pair = problem.type == DataType::bfloat16 ? 2 : 1;
  if (shares_vectors(problem.batches, p.m, p.channels / pair))
    return p.a_batch == p.m * p.a_m ? nullptr : "rows of groups do not lie in a row";
  return p.m >= least_rows ? nullptr : "groups of few channels";
}

const char* decline(const Device& device, const GemmProblem& given, bool forced) {
  const bool plain = given.mode == GemmMode::plain;
  if (given.mode == GemmMode::weights_gradient) return "not for gradients of weights";
  if (!device.info().cpu && !forced) return "for CPUs";
  if (given.type != DataType::float32 && given.type != DataType::bfloat16) return "only for float32 and bfloat16";
  if (plain && (given.type == DataType::float32 || given.batches != 1)) return "only for one product of bfloat16";
  const GemmProblem problem = plain ? of_points(given) : given;
  const auto& p = problem.p;
  if (!problem.channel_inner || p.x_c != 1 || p.c_m != 1) return "only for channels side by side";
  if (problem.addend.memory && p.d_n != 0) return "only for addends along the channels";
  if (p.k == 0 || p.k / p.channels > most_taps) return "no taps, or too many";
  if (p.k > longest_sum) return "sums are long";  // what panels have more than weights must not count
  if (const char* reason = decline_groups(problem)) return reason;
  if (device.info().local_memory < 16384) return "needs 16 KB of local memory";
  if (problem.type == DataType::float32) return nullptr;
  if (!lies_in_pairs(problem)) return "channels do not lie in pairs";
  if (plain && !forced && !plain_pays(problem)) return "few points, or long sums";
  return bfloat16_dot(device) ? nullptr : "the CPU or its driver has no dot products of bfloat16";
}

void define(KernelSource& source, const Device& device, const GemmKey& key) {
  define_shape(source, key, {"MR", "NR", "LANES", "SPAN"});
  if (const int span = key.shape[3])
    source.define("CHANNELS", span * key.shape[2] / lanes).define("HALF_SPAN", std::max(span / 2, 2));
  source.define("POINTS", most_points).define("TAPS", most_taps).define("WINDOWS", most_windows);
  source.define("ACTIVE", Activation(key.activation) != Activation::none);
  const DataType result{key.result};
  source.define("ROUNDS", result == DataType::bfloat16  ? 1
                          : result == DataType::float32 ? 0
                          : size_of(result) == 1        ? 2
                                                        : 3);
  if (of_bytes(key))
    source.define("BYTE_DOT", byte_dot(device))
        .define("SIGNED", key.kinds == 129)
        .define("LOWEST_BYTE", lowest_byte(result));
  if (DataType(key.type) == DataType::bfloat16) source.define("BFLOAT16_DOT", bfloat16_dot(device));
}

constexpr GemmCore core{.name = "points",
                        .order = 270,
                        .kernel = "points",
                        .decline = decline,
                        .run = run,
                        .define = define,
                        .copies = true,
                        .a_of_sums = true,
                        .b_of_sums = true};

}  // namespace

void points(GemmCores& cores) { cores.add(core); }

PanelsOfBytes panels_of_bytes(const Device& device, std::int64_t groups, std::int64_t rows, std::int64_t words) {
  const Block block = block_of(device, groups, rows, words);
  return {block.rows, block.shared ? groups * rows : rows};
}

bool takes_groups_of_bytes(std::int64_t groups, std::int64_t rows, std::int64_t words) {
  return groups == 1 || rows >= least_rows || shares_vectors(groups, rows, words);
}

void run_points_of_bytes(Queue& queue, GemmProblem problem) {
  launch_points(queue, problem, block_of(queue.device(), problem));
}

}  // namespace dlprim::gemm_cores
