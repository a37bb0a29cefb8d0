// SPDX-License-Identifier: MIT
// Convolutions on CPUs whose channels lie side by side, of float32 and, where the CPU has dot products of pairs,
// bfloat16; products of the latter, too, whose rows of A are contiguous.
#include <dlprim/primitives/bytes.hpp>

#include <algorithm>
#include <optional>

#include "../../../tuning/store.hpp"
#include "../../dot_products.hpp"
#include "../core.hpp"
#include "../pack.hpp"

namespace dlprim::gemm_cores {

namespace {

constexpr std::int64_t most_points = 128, most_taps = 128;  // of a tile, of a window
constexpr std::int64_t cached = 512 << 10;  // bytes of weights that a tile goes through
constexpr std::int64_t longest_sum = 20000;

struct Block {
  std::int64_t points, channels;
};

// What registers hold; of channels as many as leave the fewest vectors alone, of which each takes longer than among
// others.
Block block_of(const Device& device, std::int64_t channels) {
  static tuning::Numbers<2> numbers("gemm.constant");
  const auto& [rows, columns] = numbers(device);
  Block block{std::int64_t(rows), std::int64_t(columns)};
  constexpr std::int64_t times[] = {0, 6, 8, 12};  // of one, two and three vectors
  const auto time = [&](std::int64_t width) {
    return channels / width * times[width / 16] + times[divide_up(channels % width, 16)];
  };
  if (block.channels == 48 && time(32) < time(48)) block.channels = 32;
  return block;
}

// A plain product as a convolution of one tap, whose image has the rows of A as its points.
GemmProblem of_points(const GemmProblem& plain) {
  GemmProblem problem = plain;
  transpose(problem);
  auto& p = problem.p;
  problem.mode = GemmMode::convolution, problem.rank = 1, problem.check = false, problem.channel_inner = true;
  p.channels = p.k, p.x_c = p.b_k, p.x_stride[2] = p.b_n, p.y_stride[2] = p.c_n;
  p.out[2] = p.in[2] = p.n;
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
  p.k /= 2, p.x_size /= 2, p.x_n /= 2, p.channels = p.channels / 2;
  for (std::int64_t& stride : p.x_stride) stride /= 2;
}

void set_tiles(GemmProblem& problem, const Block& block, const DeviceInfo& info) {
  auto& p = problem.p;
  const std::int64_t wanted = 4 * std::int64_t(info.compute_units), panels = divide_up(p.m, block.channels);
  const std::int64_t panel = block.channels * p.k * std::int64_t(sizeof(float));
  std::int64_t tile_panels = std::clamp<std::int64_t>(cached / panel, 1, panels), blocks = most_points / block.points;
  const auto tiles = [&] { return divide_up(panels, tile_panels) * divide_up(p.n, blocks * block.points); };
  while (tiles() < wanted && tile_panels > 1) tile_panels--;
  while (tiles() < wanted && blocks > 1) blocks--;
  p.tile_m = tile_panels * block.channels, p.tile_n = blocks * block.points;
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
                        .batch = 0,
                        .width = width,
                        .panel = p.k * width,
                        .pitch = width};
  type = problem.type;
  if (!halved) return weights;
  if (p.a_k == 1 && p.a_m % 2 == 0 && starts_at_pair(problem.a)) weights.step /= 2, type = DataType::float32;
  else weights.line *= 2, weights.other = p.a_k;
  return weights;
}

// The weights in panels, with zeros as long as a point's channels behind them.
BufferRef panels_of(Queue& queue, const GemmProblem& problem, bool halved, std::int64_t width,
                    std::optional<Workspace>& own) {
  std::optional<Workspace>& kept = problem.kept_a ? *problem.kept_a : own;
  if (kept) return kept->data();
  DataType type;
  const PackedOperand weights = weights_of(problem, halved, width, type);
  const std::size_t bytes = std::size_t(packed_size(weights)) * sizeof(float);
  const std::size_t behind = problem.check ? std::size_t(problem.p.channels) * sizeof(float) : 0;
  kept.emplace(queue, bytes + behind);
  const std::uint32_t zero = 0;
  BufferRef zeros = kept->data();
  zeros.offset += bytes;
  if (behind) queue.fill(zeros, &zero, sizeof zero, behind);
  pack(queue, type, 1, weights, kept->data());
  return kept->data();
}

extern const GemmCore core;

void launch_points(Queue& queue, GemmProblem& problem, const Block& block) {
  set_tiles(problem, block, queue.device().info());
  GemmKey key = gemm_key(&core, problem);
  key.addend = 1, key.shape[0] = std::uint16_t(block.points), key.shape[1] = std::uint16_t(block.channels);
  launch_tiles(queue, key, problem, 1);
}

void run(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = given.mode == GemmMode::plain ? of_points(given) : given;
  const bool halved = problem.type == DataType::bfloat16;
  if (halved) halve(problem.p);
  const Block block = block_of(queue.device(), problem.p.m);
  std::optional<Workspace> own;
  problem.a = panels_of(queue, problem, halved, block.channels, own);
  if (!problem.addend.memory) problem.beta = 0;
  launch_points(queue, problem, block);
}

// Whether a plain product is large enough for a launch that packs, and a panel of it small enough for the cache.
bool plain_pays(const GemmProblem& problem) {
  const auto& p = problem.p;
  constexpr std::int64_t least_rows = 64;
  return p.n >= least_rows && 48 * p.k / 2 * std::int64_t(sizeof(float)) <= cached;
}

const char* decline(const Device& device, const GemmProblem& given, bool forced) {
  const bool plain = given.mode == GemmMode::plain;
  if (given.mode == GemmMode::weights_gradient || given.batches != 1) return "only for results without groups";
  if (!device.info().cpu && !forced) return "for CPUs";
  if (given.type != DataType::float32 && given.type != DataType::bfloat16) return "only for float32 and bfloat16";
  if (plain && given.type == DataType::float32) return "only for convolutions in float32";
  const GemmProblem problem = plain ? of_points(given) : given;
  const auto& p = problem.p;
  if (!problem.channel_inner || p.x_c != 1 || p.c_m != 1) return "only for channels side by side";
  if (problem.addend.memory && p.d_n != 0) return "only for addends along the channels";
  if (p.k == 0 || p.k / p.channels > most_taps) return "no taps, or too many";
  if (p.k > longest_sum) return "sums are long";  // what panels have more than weights must not count
  if (device.info().local_memory < 16384) return "needs 16 KB of local memory";
  if (problem.type == DataType::float32) return nullptr;
  if (!lies_in_pairs(problem)) return "channels do not lie in pairs";
  if (plain && !forced && !plain_pays(problem)) return "few points, or long sums";
  return bfloat16_dot(device) ? nullptr : "the CPU or its driver has no dot products of bfloat16";
}

void define(KernelSource& source, const Device& device, const GemmKey& key) {
  define_shape(source, key, {"MR", "NR"});
  source.define("POINTS", most_points).define("TAPS", most_taps);
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

std::int64_t width_of_panels(const Device& device, std::int64_t channels) {
  return block_of(device, channels).channels;
}

void run_points_of_bytes(Queue& queue, GemmProblem problem) {
  launch_points(queue, problem, block_of(queue.device(), problem.p.m));
}

}  // namespace dlprim::gemm_cores
