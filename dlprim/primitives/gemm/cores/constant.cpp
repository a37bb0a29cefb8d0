// SPDX-License-Identifier: MIT
// Products by a matrix that stays the same, on CPUs: packed at the first call and kept.
#include <algorithm>

#include "../../../tuning/store.hpp"
#include "../core.hpp"
#include "../pack.hpp"

namespace dlprim::gemm_cores {

namespace {

constexpr std::int64_t most_kept = 64 << 20;      // bytes
constexpr std::int64_t longest_slice = 512;       // of k
constexpr std::int64_t most_rows = 128;           // of a tile
constexpr std::int64_t most_sums = 128 * 48 * 4;  // of a tile, where k goes in slices

/// Mirrors Shape of gemm/constant.cl.
struct Shape {
  std::int64_t m, n, k, a_m, c_m, d_m, slice, tile_m, tile_panels, tiles_m, tiles_n;
};

struct Block {
  std::int64_t rows, columns;
};

// One row less than are held at most where that leaves fewer of a product's last ones empty: images of 7 x 7.
Block block_of(const Device& device, std::int64_t m) {
  static tuning::Numbers<2> numbers("gemm.constant");
  const auto most = std::int64_t(numbers(device)[0]), less = most - 1;
  const bool fits = divide_up(m, less) * less < divide_up(m, most) * most;
  return {fits ? less : most, std::int64_t(numbers(device)[1])};
}

Kernel& kernel_of(Device& device, const Block& block, Activation activation, bool residual) {
  struct Key {
    std::uint16_t rows, columns, activation, residual;
  };
  static KernelCache<Key> cache;
  const Key key{std::uint16_t(block.rows), std::uint16_t(block.columns), std::uint16_t(activation), residual};
  return cache.get(device, key, [&] {
    KernelSource source("gemm/constant.cl", "gemm_constant");
    source.define("T", "float").define("VEC", "float16").define("MR", block.rows).define("NR", block.columns);
    source.define("SUMS", most_sums).define("RESIDUAL", residual).define("ACTIVATE(x0)", activation_code(activation));
    return source;
  });
}

// Length of the equal pieces, multiples of `unit` and at most `limit`, that `size` is cut into.
std::int64_t even_piece(std::int64_t size, std::int64_t limit, std::int64_t unit) {
  const std::int64_t pieces = divide_up(size, std::max(unit, limit / unit * unit));
  return divide_up(divide_up(size, pieces), unit) * unit;
}

// Tiles that fill the cores a few times over, as large as that allows.
void set_tiles(Shape& shape, const Block& block, const DeviceInfo& info) {
  shape.slice = even_piece(shape.k, longest_slice, 8);
  shape.tile_m = even_piece(shape.m, most_rows, block.rows);
  const std::int64_t panels = divide_up(shape.n, block.columns), wanted = 8 * std::int64_t(info.compute_units);
  shape.tile_panels = std::clamp<std::int64_t>(most_sums / (shape.tile_m * block.columns), 1, panels);
  const auto tiles = [&] { return divide_up(shape.m, shape.tile_m) * divide_up(panels, shape.tile_panels); };
  while (tiles() < wanted && shape.tile_panels > 1) shape.tile_panels--;
  while (tiles() < wanted && shape.tile_m > 2 * block.rows)
    shape.tile_m = divide_up(shape.tile_m, 2 * block.rows) * block.rows;
  shape.tiles_m = divide_up(shape.m, shape.tile_m), shape.tiles_n = divide_up(panels, shape.tile_panels);
}

// B in panels, packed now if it has not been before.
BufferRef panels_of(Queue& queue, const GemmProblem& problem, std::int64_t width) {
  const auto& p = problem.p;
  const PackedOperand b{.data = problem.b,
                        .lines = p.k,
                        .count = p.n,
                        .line = p.b_k,
                        .step = p.b_n,
                        .batch = 0,
                        .width = width,
                        .panel = p.k * width,
                        .pitch = width};
  return packed_once(queue, problem.type, b, *problem.kept_b);
}

const char* decline(const Device& device, const GemmProblem& problem, bool) {
  const auto& p = problem.p;
  if (!problem.kept_b) return "neither matrix is said to stay the same";
  if (problem.mode != GemmMode::plain || problem.batches != 1) return "only for matrices";
  if (!device.info().cpu) return "for CPUs";
  if (problem.type != DataType::float32 || result_type(problem) != DataType::float32) return "only for float32";
  if (p.a_k != 1 || p.c_n != 1) return "only for rows";
  if (problem.addend.memory && p.d_n != 1) return "only for addends along the rows";
  if (p.k == 0) return "k is 0";
  if (divide_up(p.n, 48) * 48 * p.k * 4 > most_kept) return "too large to be kept";
  return device.info().local_memory >= std::size_t(most_sums) * sizeof(float) + 4096 ? nullptr : "needs local memory";
}

void run(Queue& queue, const GemmProblem& problem) {
  const auto& p = problem.p;
  const Block block = block_of(queue.device(), p.m);
  Shape shape{.m = p.m, .n = p.n, .k = p.k, .a_m = p.a_m, .c_m = p.c_m, .d_m = p.d_m};
  set_tiles(shape, block, queue.device().info());
  const bool added = problem.addend.memory && problem.beta != 0.0, residual = problem.residual.memory;
  launch(queue, kernel_of(queue.device(), block, problem.activation, residual),
         NDRange(std::size_t(shape.tiles_m * shape.tiles_n), 1), problem.a, panels_of(queue, problem, block.columns),
         problem.c, added ? problem.addend : problem.c, residual ? problem.residual : problem.c, cl_int(added),
         float(problem.alpha.real()), float(problem.beta.real()), shape);
}

constexpr GemmCore core{
    .name = "constant", .order = 250, .kernel = "constant", .decline = decline, .run = run, .copies = true};

}  // namespace

void constant(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
