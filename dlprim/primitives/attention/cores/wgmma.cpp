// SPDX-License-Identifier: MIT
// Attention on Hopper's matrix units, forward.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/static_local_memory.hpp>

#include "../../../tuning/store.hpp"
#include "../../grid.hpp"
#include "../halves.hpp"
#include "../visible.hpp"
#include "maps.hpp"

namespace dlprim::attention_cores {

namespace {

// Fours of warps that multiply, keys of a slice, slices in local memory, groups that share a compute unit, and whether
// the fours take turns.
struct Shape {
  std::uint8_t fours, slice, stages, resident, turns;
};

struct Key {
  std::uint8_t type, bias, causal, scale_first, out_vector, bias_vector, padding;
  Shape shape;
  std::uint16_t width, value_width;
  std::uint32_t function;
};

bool has_units(const DeviceInfo& info) { return info.nv_inline_ptx && info.nv_compute_capability == 90; }

// Elements of float32 are multiplied in two parts of 16 bits each.
bool has_halves(const AttentionProblem& x) { return x.type == DataType::float32; }

int columns(const AttentionProblem& x, int width) { return has_halves(x) ? columns_of_halves(width) : width; }

// A line of tuning/data: a shape for rows of up to `widest` elements and at least `keys` keys, and how long it takes for
// 64 queries. Lines that differ in no more than shape and cost are candidates.
struct Tile {
  int widest, keys;
  Shape shape;
  double cost;
};

enum Kind { plain, masked, causal, halves };
using Tiles = std::array<std::vector<Tile>, 4>;  // by kind

Tiles read_tiles(const DeviceInfo& device) {
  constexpr const char* keys[] = {"attention.wgmma", "attention.wgmma.masked", "attention.wgmma.causal",
                                  "attention.wgmma.float32"};
  Tiles tiles;
  for (int kind = plain; kind <= halves; kind++)
    for (const std::string& line : tuning::values(device, keys[kind])) {
      const std::vector<double> n = tuning::numbers_in(line);
      if (n.size() != 7 && n.size() != 8)
        throw Error(std::string("[tuning] ") + keys[kind] + ": expected 7 or 8 numbers, got '" + line + "'");
      const auto byte = [&](int i) { return std::uint8_t(n[std::size_t(i)]); };
      tiles[std::size_t(kind)].push_back(
          {int(n[0]), int(n[1]), {byte(2), byte(3), byte(4), byte(5), byte(6)}, n.size() > 7 ? n[7] : 1});
    }
  return tiles;
}

// How long all blocks take, those of the last turn that stay away included.
double time_of(const Device& device, const AttentionProblem& x, const Tile& tile) {
  const Shape& shape = tile.shape;
  const std::int64_t blocks = divide_up(x.p.queries, 64 * shape.fours) * x.p.batch * x.p.heads;
  const std::int64_t turns = divide_up(blocks, std::int64_t(device.info().compute_units) * shape.resident);
  return double(turns) * shape.fours * shape.resident * tile.cost;
}

const Tile* best_tile(const Device& device, const AttentionProblem& x, const std::vector<Tile>& tiles) {
  const int widest = std::max(x.p.width, x.p.value_width);
  const Tile* best = nullptr;
  for (const Tile& tile : tiles) {
    if (widest > tile.widest || x.p.keys < tile.keys) continue;
    if (best && (tile.widest != best->widest || tile.keys != best->keys)) break;
    if (!best || time_of(device, x, tile) < time_of(device, x, *best)) best = &tile;
  }
  return best;
}

// DLPRIM_ATTENTION_TILE=2x128x5x1x1 for measurements.
Shape shape_of(const Device& device, const AttentionProblem& x) {
  int fours, slice, stages, resident, turns;
  const char* forced = environment::text("DLPRIM_ATTENTION_TILE");
  if (forced && std::sscanf(forced, "%dx%dx%dx%dx%d", &fours, &slice, &stages, &resident, &turns) == 5)
    return {std::uint8_t(fours), std::uint8_t(slice), std::uint8_t(stages), std::uint8_t(resident),
            std::uint8_t(turns)};
  const int widest = std::max(x.p.width, x.p.value_width);
  const std::uint8_t emulated = widest > 64 ? 16 : 48;
  if (!has_units(device.info())) return {std::uint8_t(has_halves(x) || widest > 128 ? 1 : 2), emulated, 2, 1, 0};
  static tuning::PerDevice<Tiles> all(read_tiles);
  const Tiles& tiles = all(device);
  const bool is_masked = x.causal || x.bias_type;
  for (const Kind kind : {halves, causal, masked, plain}) {
    if ((kind == halves) != has_halves(x) || (kind == causal && (!x.causal || x.bias_type))) continue;
    if (kind == masked && !is_masked) continue;
    if (const Tile* best = best_tile(device, x, tiles[std::size_t(kind)])) return best->shape;
  }
  throw Error("[attention] no tile of tuning/data is for rows of " + std::to_string(widest) + " elements");
}

// Bytes of local memory, of which each row of 64 elements takes 128: arrays of the kernel.
std::size_t memory_of(const Shape& shape, int width, int value_width) {
  const int boxes = (width + 63) / 64, most = (std::max(width, value_width) + 63) / 64;
  return std::size_t(128) * (2 * 64 * shape.fours * boxes + shape.stages * shape.slice * most) +
         16 * (shape.stages + 2);
}

// Registers of work-items that copy and that multiply, of 65,536 for all groups of a compute unit.
void define_registers(KernelSource& source, const Shape& shape) {
  const int given = 65536 / (128 * (shape.fours + 1) * shape.resident) / 8 * 8;
  const int few = shape.fours < 3 ? 40 : 32;
  const int many = std::min(240, (given * (shape.fours + 1) - few) / shape.fours / 8 * 8);
  source.define("FEW", few).define("MANY", many);
}

KernelSource source_of(const Key& key) {
  const Shape& shape = key.shape;
  KernelSource source("attention/wgmma.cl", "forward");
  define_attention(source, key.bias, key.causal, false, false, key.function);
  const bool halves = DataType(key.type) == DataType::float32;
  source.define("TAG", halves ? "f16" : tag(DataType(key.type))).define("HALVES", halves);
  source.define("WARPS", 4 * shape.fours).define("TILES", 1);
  source.define("WIDTH", key.width).define("VALUE_WIDTH", key.value_width).define("VALUE_TILES", key.value_width / 8);
  source.define("SLICE", shape.slice).define("KEY_TILES", shape.slice / 8).define("STAGES", shape.stages);
  source.define("TURNS", shape.turns);
  source.define("VECTOR", 8).define("PAIRS", key.out_vector >= 2).define("OUT_PIECES", key.out_vector == 8);
  source.define("BIAS_PAIRS", key.bias_vector >= 2).define("BIAS_PIECES", key.bias_vector == 8);
  source.define("SCALE_FIRST", key.scale_first).ptx_target("sm_90a", shape.resident);
  define_registers(source, shape);
  return source;
}

// How blocks of queries are shared out. Groups take them in turns, from first to last and back. With CAUSAL blocks are
// of unequal lengths, and those of `together` heads are taken in the order of these. What a group gets in one turn and
// in the next adds up to the same for all groups where these blocks are as many as the groups, or a few times as many.
struct Schedule {
  std::int64_t groups;
  std::int32_t together;
};

Schedule schedule_of(const Device& device, const AttentionProblem& x, std::int64_t blocks, std::int64_t resident) {
  const auto& p = x.p;
  const std::int64_t heads = std::int64_t(p.batch) * p.heads, turns = divide_up(blocks * heads, resident);
  const std::int64_t fewest = divide_up(blocks * heads, turns);  // with as many turns
  if (!x.causal) return {fewest, 1};
  // Keys and values of these heads are to stay in a part of the cache.
  const std::int64_t bytes = 2 * std::int64_t(p.keys) * (columns(x, p.width) + columns(x, p.value_width));
  const std::int64_t most = bytes_together(device) / std::max<std::int64_t>(bytes, 1) * p.sharing;
  for (const int at_once : {1, 2, 4}) {
    if (at_once == 1 && turns % 2 != 0) continue;
    const std::int64_t step = blocks / std::gcd(blocks, at_once), groups = divide_up(fewest, step) * step;
    const std::int64_t together = at_once * groups / blocks;
    if (groups <= resident && together % p.sharing == 0 && together <= std::min(most, heads))
      return {groups, std::int32_t(together)};
  }
  return {fewest, std::int32_t(std::clamp<std::int64_t>(most, p.sharing, heads))};
}

const char* decline(const Device& device, const AttentionProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const auto& p = problem.p;
  if (problem.type == DataType::float64) return "sums in float32";
  if (problem.backward) return "only forward";
  if (problem.dropout || problem.soft_cap) return "without dropout or caps";
  if (info.max_work_group < 512 || info.local_memory < 49152) return "the device's work-groups are too small";
  if (p.keys == 0) return "there are no keys, for the first of which it waits";
  const int widest = std::max(p.width, p.value_width);
  if (widest > (has_halves(problem) ? 128 : 256)) return "rows do not fit in registers";
  if (widest > 128 && !has_units(info) && info.local_memory < 65536) return "rows do not fit in local memory";
  if (!has_halves(problem) && !can_be_mapped(problem)) return "rows are not aligned to 16 bytes, or strides fit no map";
  if ((std::int64_t(p.queries) / 64 + 1) * p.batch * p.heads >= 1 << 30) return "too many queries";
  if (forced) return nullptr;
  if (!has_units(info)) return "the device is not of the Hopper architecture";
  if (static_local_memory(device) <
      memory_of(shape_of(device, problem), columns(problem, p.width), columns(problem, p.value_width)))
    return "the driver keeps kernels to less local memory";
  if (p.queries <= 64) return "too few queries";
  // What nothing reads may be anything, and would set the factor of a head's halves.
  if (has_halves(problem) && (problem.bias_type || (problem.causal && p.keys > p.queries)))
    return "keys may be left out";
  return nullptr;
}

// How many neighbours of the result are written at once, aligned to their bytes: 8, 2 or 1.
std::uint8_t out_vector(const AttentionProblem& x) {
  const auto& out = x.p.out;
  for (const int together : {8, 2})
    if ((together == 2 || !has_halves(x)) && (out.batch | out.head | out.row | x.p.value_width) % together == 0 &&
        x.out.offset % (std::size_t(together) * size_of(x.type)) == 0)
      return std::uint8_t(together);
  return 1;
}

Key key_of(const Device& device, const AttentionProblem& x) {
  const auto& p = x.p;
  Key key{};
  key.type = std::uint8_t(x.type), key.bias = bias_code(x), key.causal = x.causal, key.function = x.function;
  key.width = std::uint16_t(padded_width(p.width)), key.value_width = std::uint16_t(padded_width(p.value_width));
  key.scale_first = x.bias_type || p.scale <= 0;
  key.out_vector = out_vector(x), key.bias_vector = bias_vector(x);
  key.shape = shape_of(device, x);
  return key;
}

void run(Queue& queue, const AttentionProblem& given) {
  static KernelCache<Key> cache;
  AttentionProblem x = given;
  x.listed = has_lists(x);
  const auto& p = x.p;
  Device& device = queue.device();
  const DeviceInfo& info = device.info();
  const Key key = key_of(device, x);
  const int block = 64 * key.shape.fours;
  const auto [groups, together] =
      schedule_of(device, x, divide_up(p.queries, block), std::int64_t(info.compute_units) * key.shape.resident);
  // Where there is no such matrix unit, no warps copy only.
  const std::size_t group = 128 * std::size_t(key.shape.fours + has_units(info));
  Kernel& kernel = cache.get(device, key, [&] { return source_of(key); });
  VisibleTiles visible(queue, x);
  visible.list(x, block, key.shape.slice, false);
  if (!has_halves(x))
    return launch_attention_with(maps_of(x, block, key.shape.slice), queue, kernel, groups, group, x, x.out,
                                 x.logsumexp, together);
  const AttentionHalves halves = attention_halves(queue, x);
  AttentionProblem in_memory = halves.problem;
  in_memory.p.width = columns_of_halves(p.width), in_memory.p.value_width = columns_of_halves(p.value_width);
  launch_attention_with(maps_of(in_memory, block, key.shape.slice), queue, kernel, groups, group, halves.problem, x.out,
                        x.logsumexp, halves.scales, together);
}

constexpr AttentionCore core{.name = "wgmma", .order = 100, .decline = decline, .run = run, .may_fail_to_build = true};

}  // namespace

void wgmma(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
