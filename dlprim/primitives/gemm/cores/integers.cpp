// SPDX-License-Identifier: MIT
// The engine's core for products of integers on CPUs: in vectors of 32 or 64 bits, whose lower bits are those of a
// product in fewer.
#include <dlprim/primitives/copy.hpp>

#include <optional>

#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

constexpr std::int64_t columns = 32;  // of a work-item, as in gemm/integers.cl

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  const auto& p = problem.p;
  if (!is_integral(problem.type) || problem.type == DataType::boolean) return "only for integers";
  if (problem.mode != GemmMode::plain) return "only for plain products";
  if (problem.alpha != 1. || problem.beta != 0. || problem.residual.memory || problem.activation != Activation::none)
    return "only for sums as they are";
  if (p.k == 0) return "k is 0";
  if (forced) return nullptr;
  if (!device.info().cpu) return "for CPUs";
  return std::min(p.m, p.k) < 4 || p.n < 8 ? "too thin a product to pay" : nullptr;
}

// A batch of matrices with dense rows.
struct Rows {
  BufferRef data;
  std::int64_t batch, row;
};

// An operand as it is where its type and its rows allow it, else copied to `memory`, with `pitch` elements a row.
Rows dense(Queue& queue, std::optional<Workspace>& memory, const TensorView& x, DataType sums, std::int64_t pitch) {
  if (x.dtype == sums && x.stride(2) == 1 && x.size(2) == pitch) return {x.data, x.stride(0), x.stride(1)};
  const std::int64_t batches = x.stride(0) ? x.size(0) : 1, lines = x.size(1);
  memory.emplace(queue, std::size_t(batches * lines * pitch) * size_of(sums));
  copy(queue, strided(memory->data(), sums, {batches, lines, x.size(2)}, {lines * pitch, pitch, 1}),
       strided(x.data, x.dtype, {batches, lines, x.size(2)}, {x.stride(0), x.stride(1), x.stride(2)}));
  return {memory->data(), x.stride(0) ? lines * pitch : 0, pitch};
}

void run(Queue& queue, const GemmProblem& problem) {
  const auto& p = problem.p;
  const std::int64_t batches = problem.batches, panels = divide_up(p.n, columns), pitch = panels * columns;
  const DataType sums = size_of(problem.type) == 8 ? DataType::int64 : DataType::int32;
  std::optional<Workspace> a_memory, b_memory, c_memory;
  const Rows a = dense(queue, a_memory,
                       strided(problem.a, problem.type, {batches, p.m, p.k}, {p.a_batch, p.a_m, p.a_k}), sums, p.k);
  const Rows b = dense(queue, b_memory,
                       strided(problem.b, problem.type, {batches, p.k, p.n}, {p.b_batch, p.b_k, p.b_n}), sums, pitch);
  const DataType type = result_type(problem);
  Rows c{problem.c, p.c_batch, p.c_m};
  const bool direct = size_of(type) == size_of(sums) && p.c_n == 1 && p.n == pitch;
  if (!direct) {
    c_memory.emplace(queue, std::size_t(batches * p.m * pitch) * size_of(sums));
    c = {c_memory->data(), p.m * pitch, pitch};
  }
  static KernelCache<DataType> cache;
  Kernel& kernel = cache.get(queue.device(), sums, [&] {
    KernelSource source("gemm/integers.cl", "gemm_integers");
    source.define("T", sums == DataType::int64 ? "long" : "int").define("WIDTH", sums == DataType::int64 ? 8 : 16);
    return source;
  });
  const std::int64_t wanted = divide_up(4 * std::int64_t(queue.device().info().compute_units), panels * batches);
  const std::int64_t rows = divide_up(divide_up(p.m, std::min(wanted, divide_up(p.m, 4))), 4) * 4;
  launch(queue, kernel, NDRange(std::size_t(panels), std::size_t(divide_up(p.m, rows)), std::size_t(batches), 1, 1, 1),
         a.data, b.data, c.data, p.m, p.k, rows, a.batch, a.row, b.batch, b.row, c.batch, c.row);
  if (!direct)
    copy(queue, strided(problem.c, type, {batches, p.m, p.n}, {p.c_batch, p.c_m, p.c_n}),
         strided(c.data, sums, {batches, p.m, p.n}, {c.batch, c.row, 1}));
}

constexpr GemmCore core{
    .name = "integers", .order = 670, .kernel = "reference", .decline = decline, .run = run, .copies = true};

}  // namespace

void integers(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
