// SPDX-License-Identifier: MIT
// The engine's core for complex products on CPUs: as products of real numbers twice as long and wide, for which they have
// a core that vectors serve. A row of A in memory is real and imaginary parts in turns; against rows of B and of i B in
// turns they give rows of C, in turns, too.
#include <dlprim/primitives/copy.hpp>

#include <optional>

#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

constexpr std::int64_t smallest = 4096;  // products below which a launch more costs too much

DataType part_type(DataType type) { return type == DataType::complex64 ? DataType::float32 : DataType::float64; }

// Whether a row's elements follow one another.
bool dense_rows(const GemmProblem& problem) {
  const auto& p = problem.p;
  return p.c_n == 1 && (!problem.addend.memory || p.d_n == 1 || p.n == 1);
}

GemmProblem arranged(GemmProblem problem) {
  if (!dense_rows(problem)) transpose(problem);
  return problem;
}

const char* decline(const Device& device, const GemmProblem& given, bool forced) {
  if (!is_complex(given.type)) return "only for complex numbers";
  if (given.mode != GemmMode::plain) return "only for plain products";
  if (given.activation != Activation::none || given.residual.memory) return "no epilogues";
  if (given.alpha.imag() != 0 || given.beta.imag() != 0) return "only for real factors";
  if (given.p.k == 0) return "k is 0";
  const GemmProblem problem = arranged(given);
  if (!dense_rows(problem)) return "only for results and addends with dense rows or columns";
  if (forced) return nullptr;
  if (!device.info().cpu) return "for CPUs";
  const auto& p = problem.p;
  return p.m < 4 || p.m * p.n * p.k * problem.batches < smallest ? "too small a product to pay" : nullptr;
}

void run(Queue& queue, const GemmProblem& given) {
  const GemmProblem problem = arranged(given);
  const auto& p = problem.p;
  const DataType type = problem.type, part = part_type(type);
  const std::int64_t batches = problem.batches, b_batches = p.b_batch ? batches : 1;
  const Workspace turns(queue, std::size_t(b_batches * 4 * p.k * p.n) * size_of(part));
  BufferRef second = turns.data();
  second.offset += std::size_t(p.n) * size_of(type);
  const TensorView source = strided(problem.b, type, {b_batches, p.k, p.n}, {p.b_batch, p.b_k, p.b_n});
  const TensorView rows[] = {strided(turns.data(), type, {b_batches, p.k, p.n}, {2 * p.k * p.n, 2 * p.n, 1}),
                             strided(second, type, {b_batches, p.k, p.n}, {2 * p.k * p.n, 2 * p.n, 1})};
  pointwise_operation(queue, {&source, 1}, rows, {}, "y0 = x0; y1 = (T)(-x0.y, x0.x);");

  BufferRef a_data = problem.a;
  std::int64_t a_row = p.a_m, a_batch = p.a_batch;
  std::optional<Workspace> dense;
  if (p.a_k != 1 && p.k > 1) {
    const std::int64_t a_batches = p.a_batch ? batches : 1;
    dense.emplace(queue, std::size_t(a_batches * p.m * p.k) * size_of(type));
    copy(queue, TensorView(dense->data(), type, {a_batches, p.m, p.k}),
         strided(problem.a, type, {a_batches, p.m, p.k}, {p.a_batch, p.a_m, p.a_k}));
    a_data = dense->data(), a_row = p.k, a_batch = p.a_batch ? p.m * p.k : 0;
  }
  GemmOptions options;
  options.alpha = problem.alpha, options.beta = problem.beta;
  if (problem.addend.memory)
    options.addend = strided(problem.addend, part, {batches, p.m, 2 * p.n}, {2 * p.d_batch, 2 * p.d_m, 1});
  gemm(queue, strided(a_data, part, {batches, p.m, 2 * p.k}, {2 * a_batch, 2 * a_row, 1}),
       strided(turns.data(), part, {batches, 2 * p.k, 2 * p.n}, {p.b_batch ? 4 * p.k * p.n : 0, 2 * p.n, 1}),
       strided(problem.c, part, {batches, p.m, 2 * p.n}, {2 * p.c_batch, 2 * p.c_m, 1}), options);
}

constexpr GemmCore core{
    .name = "pairs", .order = 660, .kernel = "reference", .decline = decline, .run = run, .copies = true};

}  // namespace

void pairs(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
