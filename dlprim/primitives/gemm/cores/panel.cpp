// SPDX-License-Identifier: MIT
// The engine's cores for CPUs, on operands as they are (panel) or packed beforehand (packed, and bfloat16: in pairs for
// the CPU's dot products).
#include <optional>

#include "../../dot_products.hpp"
#include "../core.hpp"
#include "../pack.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore on_operands, on_packed, on_pairs;

const std::vector<PanelShape>& panels(const Device& device, DataType type) {
  static tuning::PerDevice<std::vector<PanelShape>> singles(
      [](const DeviceInfo& info) { return read_panels(info, type_key(4)); });
  static tuning::PerDevice<std::vector<PanelShape>> doubles(
      [](const DeviceInfo& info) { return read_panels(info, type_key(8)); });
  return (size_of(accumulate_type(type)) == 8 ? doubles : singles)(device);
}

// Length of the equal pieces, multiples of `unit` and at most `limit`, that `size` is cut into.
std::int64_t even_piece(std::int64_t size, std::int64_t limit, std::int64_t unit) {
  const std::int64_t pieces = divide_up(size, limit / unit * unit);
  return divide_up(divide_up(size, pieces), unit) * unit;
}

// Cuts a problem into tiles of at most `shape`: enough to balance the cores, smaller ones first, then pieces of k in
// multiples of `slice`.
void set_tiles(GemmProblem& problem, const PanelShape& shape, std::int64_t slice, const DeviceInfo& info) {
  auto& p = problem.p;
  p.tile_m = even_piece(p.m, shape.mb, shape.mr), p.tile_n = even_piece(p.n, shape.nb, shape.nr);
  const std::int64_t wanted = 4 * std::int64_t(info.compute_units);
  auto tiles = [&] { return divide_up(p.m, p.tile_m) * divide_up(p.n, p.tile_n) * problem.batches; };
  while (tiles() < wanted && p.tile_n > shape.nr && p.m >= 32) p.tile_n -= shape.nr;
  const std::int64_t slices = divide_up(p.k, slice);
  if (tiles() < wanted && slices >= 4) p.splits = std::min<std::int64_t>({slices / 2, divide_up(wanted, tiles()), 16});
  p.k_split = divide_up(slices, p.splits) * slice;
  p.splits = divide_up(p.k, p.k_split);
  p.tiles_m = divide_up(p.m, p.tile_m), p.tiles_n = divide_up(p.n, p.tile_n);
}

void launch_panels(Queue& queue, const GemmCore& core, GemmProblem& problem, const PanelShape& shape) {
  if (!problem.addend.memory) problem.beta = 0;
  GemmKey key = gemm_key(&core, problem);
  key.both = 1;
  key.check = key.addend = 1;  // cost next to nothing here and save compiling more kernels
  const std::uint16_t parts[] = {shape.mr, shape.nr, shape.mb, shape.nb, shape.kb};
  std::copy(std::begin(parts), std::end(parts), key.shape);
  launch_tiles(queue, key, problem, 1);
}

void run_with(Queue& queue, const GemmProblem& given, const PanelShape& shape) {
  GemmProblem problem = given;
  set_tiles(problem, shape, shape.kb, queue.device().info());
  launch_panels(queue, on_operands, problem, shape);
}

// Elements of type accumulate_type(type), `batch` of them a batch.
struct Packed {
  Workspace memory;
  std::int64_t batch;
};

Packed pack(Queue& queue, const GemmProblem& problem, DataType type, const PackedOperand& x) {
  const std::int64_t batches = x.batch ? problem.batches : 1, size = packed_size(x);
  Packed result{Workspace(queue, std::size_t(size * batches) * size_of(accumulate_type(type))), x.batch ? size : 0};
  dlprim::pack(queue, type, batches, x, result.memory.data());
  return result;
}

// The register block of the panel core; sums of a tile take at most half of the local memory, and a slice of a panel
// stays in a core's second cache with the rows of A.
PanelShape packed_shape(const Device& device, DataType type) {
  PanelShape shape = panels(device, type)[0];
  const std::size_t bytes = size_of(accumulate_type(type));
  const bool large = device.info().local_memory >= 262144;
  shape.mb = std::uint16_t((large ? 128 : 32) / shape.mr * shape.mr);
  shape.nb = std::uint16_t((large ? 1024 : 256) / bytes / shape.nr * shape.nr);
  shape.kb = shape.nr * bytes >= 128 ? 1024 : 512;
  return shape;
}

// An operand as the product reads it: from its type, or of pairs of bfloat16 along k, of which k then counts half as
// many. Pairs that lie in memory as such are read as floats.
struct Operand {
  DataType type;
  std::int64_t k, line, batch, other;
  bool pairs = false;
};

Operand operand(const GemmProblem& problem, bool pairs, BufferRef data, std::int64_t k, std::int64_t line,
                std::int64_t batch) {
  if (!pairs) return {problem.type, k, line, batch, 0};
  const bool whole =
      problem.p.k % 2 == 0 && k == 1 && line % 2 == 0 && batch % 2 == 0 && data.offset % sizeof(float) == 0;
  if (whole) return {DataType::float32, 1, line / 2, batch / 2, 0};
  return {problem.type, 2 * k, line, batch, k, true};
}

Operand operand_a(const GemmProblem& problem, bool pairs) {
  return operand(problem, pairs, problem.a, problem.p.a_k, problem.p.a_m, problem.p.a_batch);
}

Operand operand_b(const GemmProblem& problem, bool pairs) {
  return operand(problem, pairs, problem.b, problem.p.b_k, problem.p.b_n, problem.p.b_batch);
}

// Whether A serves as it is.
bool reads_directly(const Operand& a) { return a.k == 1 && accumulate_type(a.type) == a.type; }

// Whether packing once takes less time than packing in each tile, in elements; products of pairs take less, too.
bool packing_pays(const Device& device, const GemmProblem& problem, bool pairs) {
  static tuning::Numbers<3> numbers("gemm.packed");
  const auto& [in_a_tile, launch, saved] = numbers(device);
  const auto& p = problem.p;
  const PanelShape shape = panels(device, problem.type)[0];
  const std::int64_t in_tiles = p.m * divide_up(p.n, shape.nb) + p.n * divide_up(p.m, shape.mb);
  const std::int64_t b = p.n * (p.b_batch ? problem.batches : 1), a = p.m * (p.a_batch ? problem.batches : 1);
  const bool direct = reads_directly(operand_a(problem, pairs));
  const std::int64_t once = direct ? b : a + b;
  const double launches = (direct ? 1 : 2) * launch * device.info().compute_units;
  const double products = pairs ? saved * double(p.m * p.n * problem.batches) : 0;
  return in_a_tile * double(in_tiles * problem.batches * p.k) + products * double(p.k) > double(once * p.k) + launches;
}

// A plain problem with the operand to be packed, B, as the smaller one where the other need not be.
GemmProblem arranged(GemmProblem problem) {
  if (problem.p.b_k == 1 && problem.p.n > problem.p.m) transpose(problem);
  return problem;
}

void pack_and_run(Queue& queue, const GemmCore& core, GemmProblem problem, bool pairs) {
  auto& p = problem.p;
  const PanelShape shape = packed_shape(queue.device(), problem.type);
  const Operand a = operand_a(problem, pairs), b = operand_b(problem, pairs);
  const bool odd = pairs && p.k % 2 != 0;
  if (pairs) p.k = divide_up(p.k, 2);
  const Packed packed_b = pack(queue, problem, b.type,
                               {.data = problem.b,
                                .lines = p.k,
                                .count = p.n,
                                .line = b.k,
                                .step = b.line,
                                .batch = b.batch,
                                .width = shape.nr,
                                .panel = p.k * shape.nr,
                                .pitch = shape.nr,
                                .pairs = b.pairs,
                                .other = b.other,
                                .single = odd ? Single::last_line : Single::none});
  std::optional<Packed> packed_a;
  p.a_m = a.line, p.a_batch = a.batch;
  if (!reads_directly(a)) {
    constexpr std::int64_t width = 256;  // no panels
    const std::int64_t pitch = divide_up(p.k, 16) * 16 + 16;  // off the powers of two that would share cache sets
    packed_a = pack(queue, problem, a.type,
                    {.data = problem.a,
                     .lines = p.m,
                     .count = p.k,
                     .line = a.line,
                     .step = a.k,
                     .batch = a.batch,
                     .width = width,
                     .panel = width,
                     .pitch = pitch,
                     .pairs = a.pairs,
                     .other = a.other,
                     .single = odd ? Single::last_column : Single::none});
    problem.a = packed_a->memory.data(), p.a_batch = packed_a->batch, p.a_m = pitch, p.a_k = 1;
  }
  problem.b = packed_b.memory.data(), p.b_batch = packed_b.batch, p.b_k = shape.nr, p.b_n = p.k;
  p.slices = even_piece(p.k, shape.kb, 8);
  set_tiles(problem, shape, p.slices, queue.device().info());
  launch_panels(queue, core, problem, shape);
}

const char* decline_panel(const Device& device, const GemmProblem& problem, bool forced) {
  if (!is_floating(problem.type)) return "only for floating types";
  if (!device.info().cpu && !forced) return "for CPUs";
  if (problem.p.k == 0) return "k is 0";
  if (device.info().local_memory < 32768) return "needs 32 KB of local memory";
  return nullptr;
}

void run_panel(Queue& queue, const GemmProblem& problem) {
  run_with(queue, problem, choose_panel(queue, problem, panels(queue.device(), problem.type), run_with));
}

const char* decline_packed(const Device& device, const GemmProblem& problem, bool forced) {
  if (problem.mode != GemmMode::plain) return "only for plain products";
  if (const char* reason = decline_panel(device, problem, forced)) return reason;
  if (forced) return nullptr;
  if (!packing_pays(device, arranged(problem), false)) return "too small a product for packing to pay";
  return nullptr;
}

void run_packed(Queue& queue, const GemmProblem& problem) { pack_and_run(queue, on_packed, arranged(problem), false); }

const char* decline_pairs(const Device& device, const GemmProblem& problem, bool forced) {
  if (problem.type != DataType::bfloat16) return "only for bfloat16";
  if (problem.mode != GemmMode::plain) return "only for plain products";
  if (const char* reason = decline_panel(device, problem, forced)) return reason;
  if (!device.info().cpu || !bfloat16_dot(device)) return "the CPU or its driver has no dot products of bfloat16";
  if (forced) return nullptr;
  if (!packing_pays(device, arranged(problem), true)) return "too small a product for packing to pay";
  return nullptr;
}

void run_pairs(Queue& queue, const GemmProblem& problem) { pack_and_run(queue, on_pairs, arranged(problem), true); }

void define_panels(KernelSource& source, const Device& device, const GemmKey& key) {
  if (key.core != &on_operands) source.define("PACKED", 1);
  if (key.core == &on_pairs) source.define("BFLOAT16_DOT", bfloat16_dot(device));
  define_shape(source, key, {"MR", "NR", "MB", "NB", "KB"});
}

constexpr GemmCore on_pairs{.name = "bfloat16",
                            .order = 275,
                            .kernel = "panel",
                            .decline = decline_pairs,
                            .run = run_pairs,
                            .define = define_panels,
                            .copies = true,
                            .a_of_sums = true,
                            .b_of_sums = true};
constexpr GemmCore on_packed{.name = "packed",
                             .order = 300,
                             .kernel = "panel",
                             .decline = decline_packed,
                             .run = run_packed,
                             .define = define_panels,
                             .copies = true,
                             .a_of_sums = true,
                             .b_of_sums = true};
constexpr GemmCore on_operands{.name = "panel",
                               .order = 400,
                               .kernel = "panel",
                               .decline = decline_panel,
                               .run = run_panel,
                               .define = define_panels};

}  // namespace

void panel(GemmCores& cores) {
  cores.add(on_pairs);
  cores.add(on_packed);
  cores.add(on_operands);
}

}  // namespace dlprim::gemm_cores
