// SPDX-License-Identifier: MIT
// The engine's core for Hopper's matrix units on operands that its copy engine can read where they lie.
#include <dlprim/runtime/static_local_memory.hpp>

#include "../../tensor_map.hpp"
#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core;

constexpr std::int64_t stage_bytes = 128;  // of k, in a row

// A, or B transposed: `size` rows.
struct Operand {
  BufferRef data;
  std::int64_t size, stride, k_stride, batch_stride;

  // Whether it is contiguous along k, else along its rows.
  bool along_k(std::int64_t k) const { return k_stride == 1 || (k == 1 && stride != 1); }
};
Operand operand_a(const GemmProblem& problem) {
  const auto& p = problem.p;
  return {problem.a, p.m, p.a_m, p.a_k, p.a_batch};
}
Operand operand_b(const GemmProblem& problem) {
  const auto& p = problem.p;
  return {problem.b, p.n, p.b_n, p.b_k, p.b_batch};
}

// As the copy engine sees it: rows of the operand or of k, of which it takes `tile` or 64 at a time.
MatrixInMemory matrix(const GemmProblem& problem, const Operand& x, std::int64_t tile) {
  const std::int64_t bytes = std::int64_t(size_of(problem.type)), k = problem.p.k;
  const bool along_k = x.along_k(k);
  const std::int64_t rows = along_k ? x.size : k, stride = along_k ? x.stride : x.k_stride;
  return {along_k ? k : x.size, rows, rows == 1 ? stage_bytes : stride * bytes, int(bytes), along_k ? int(tile) : 64};
}

bool lies_well(const GemmProblem& problem, const Operand& x) {
  const MatrixInMemory m = matrix(problem, x, 64);
  const bool along_k = x.along_k(problem.p.k);
  const bool contiguous = (along_k ? x.k_stride : x.stride) == 1 || m.columns == 1;
  return contiguous && (along_k || m.element_bytes == 2) && can_be_mapped(m) &&
         x.batch_stride * m.element_bytes % 16 == 0 && x.data.offset % 16 == 0;
}

// Copies take batches along the third dimension of a launch, where NVIDIA's have no more work-groups.
constexpr std::int64_t most_copied = 65535;

bool too_many_copies(const GemmProblem& problem, const Operand& x) {
  return x.batch_stride != 0 && problem.batches > most_copied && !lies_well(problem, x);
}

struct AlignKey {
  std::uint8_t bytes, along_rows;
};

// An operand that does not lie so, in a copy that does.
Operand aligned(Queue& queue, const GemmProblem& problem, const Operand& x, Workspace& memory) {
  const std::int64_t bytes = std::int64_t(size_of(problem.type)), chunk = 16 / bytes;
  const bool along_k = x.stride != 1 || bytes == 4;
  const std::int64_t k = problem.p.k, batches = x.batch_stride ? problem.batches : 1;
  const std::int64_t columns = along_k ? k : x.size, rows = along_k ? x.size : k;
  const std::int64_t column = along_k ? x.k_stride : x.stride, row = along_k ? x.stride : x.k_stride;
  const std::int64_t chunks = divide_up(columns, chunk), pitch = divide_up(chunks, 8) * 8 * chunk;  // whole lines
  memory = Workspace(queue, std::size_t(batches * rows * pitch * bytes));
  const AlignKey key{std::uint8_t(bytes), row == 1};
  static KernelCache<AlignKey> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("gemm/align.cl", "gemm_align");
    source.define("BYTES", key.bytes).define("ALONG_ROWS", key.along_rows);
    return source;
  });
  const std::size_t x_items = std::size_t(key.along_rows ? rows : chunks),
                    y_items = std::size_t(key.along_rows ? chunks : rows);
  launch(queue, kernel, NDRange(x_items, y_items, std::size_t(batches), 32, 4, 1), x.data, memory.data(), rows, columns,
         pitch, x.batch_stride, row, column);
  return {memory.data(), x.size, along_k ? pitch : 1, along_k ? 1 : pitch, x.batch_stride ? rows * pitch : 0};
}

double copied_bytes(const GemmProblem& problem, const Operand& x) {
  if (lies_well(problem, x)) return 0;
  const double batches = x.batch_stride ? double(problem.batches) : 1.0;
  return double(x.size) * double(problem.p.k) * batches * double(size_of(problem.type));
}

// Whether copies, if any, take less time than this core saves.
bool pays(const Device& device, const GemmProblem& problem) {
  static tuning::Numbers<6> numbers("gemm.tma.copies");
  const auto& [start, bandwidth, mma_16, mma_32, own_16, own_32] = numbers(device);
  const auto& p = problem.p;
  const double a = copied_bytes(problem, operand_a(problem)), b = copied_bytes(problem, operand_b(problem));
  if (a + b == 0) return true;
  const bool single = problem.type == DataType::float32;
  const double saved = 1 / (single ? mma_32 : mma_16) - 1 / (single ? own_32 : own_16);
  const double time = start * ((a > 0) + (b > 0)) + (a + b) / bandwidth;
  return time < 2 * double(p.m) * double(p.n) * double(p.k) * double(problem.batches) * saved;
}

// Whether storing C one by one, which mma does better, would take too great a part of the time.
bool stores_too_much(const Device& device, const GemmProblem& problem) {
  static tuning::Numbers<1> shortest("gemm.tma.scattered");
  return !vectors(problem, stored_at_once(problem)).c && double(problem.p.k) < shortest(device)[0];
}

// Work-items that multiply.
std::int64_t multiplying(const std::uint16_t (&shape)[5]) {
  return 128 * (shape[0] / shape[3]) * (shape[1] / shape[4]);
}

bool has_units(const DeviceInfo& info) { return info.nv_inline_ptx && info.nv_compute_capability == 90; }

void run_with(Queue& queue, const GemmProblem& given, const TileChoice& choice) {
  GemmProblem problem = given;
  auto& p = problem.p;
  const TileShape& s = choice.shape;
  const DeviceInfo& info = queue.device().info();
  GemmKey key = gemm_key(&core, problem);
  const int stored = stored_at_once(problem);
  if (vectors(problem, stored).c) key.vc = std::uint8_t(stored);
  Workspace memory_a, memory_b;
  Operand a = operand_a(problem), b = operand_b(problem);
  if (!lies_well(problem, a)) a = aligned(queue, problem, a, memory_a);
  if (!lies_well(problem, b)) b = aligned(queue, problem, b, memory_b);
  problem.a = a.data, p.a_m = a.stride, p.a_k = a.k_stride, p.a_batch = a.batch_stride;
  problem.b = b.data, p.b_n = b.stride, p.b_k = b.k_stride, p.b_batch = b.batch_stride;
  key.a_along_k = a.along_k(p.k), key.b_along_k = b.along_k(p.k);
  const TensorMap maps[] = {tensor_map(matrix(problem, a, s.bm)), tensor_map(matrix(problem, b, s.bn))};
  set_tiles(problem, key, choice);
  if (p.splits > 1) key.vc = p.n % 2 == 0 ? 2 : 1;
  key.unit = s.resident;
  p.shares = p.tiles_m * p.tiles_n * p.splits * problem.batches;
  const std::int64_t resident = std::int64_t(info.compute_units) * s.resident;
  // Where there is no such matrix unit, no warps copy only.
  const std::int64_t group = multiplying(key.shape) + (has_units(info) ? 32 : 0);
  launch_tiles(queue, key, problem, std::size_t(group), resident, std::as_bytes(std::span(maps)));
}

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const auto& p = problem.p;
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16 && tf32_passes(problem) != 1)
    return "only for 16-bit floats and tf32";
  if (problem.mode != GemmMode::plain) return "only for plain products";
  if (p.k == 0) return "k is 0";
  if (std::max({p.m, p.n, p.k, problem.batches}) >= std::int64_t(1) << 30) return "sizes need more than 32 bits";
  if (too_many_copies(problem, operand_a(problem)) || too_many_copies(problem, operand_b(problem)))
    return "too many matrices to be copied";
  if (info.max_work_group < 512 || info.local_memory < 49152) return "the device's work-groups are too small";
  if (forced) return nullptr;
  if (!has_units(info)) return "the device is not of the Hopper architecture";
  if (static_local_memory(device) < 232000) return "the driver keeps kernels to less local memory";
  if (stores_too_much(device, problem)) return "sums are short, and C cannot be written in pieces";
  if (!pays(device, problem)) return "operands do not lie as its copies want them, and the product is too small";
  return nullptr;
}

void run(Queue& queue, const GemmProblem& problem) {
  using Tables = std::array<TileTable, 2>;
  static tuning::PerDevice<Tables> tables([](const DeviceInfo& info) {
    if (!has_units(info))
      return Tables{read_tiles(info, "tma.emulated", "tma"), read_tiles(info, "tma.emulated", "tma")};
    return Tables{read_tiles(info, "tma.16bit", "tma"), read_tiles(info, "tma.tf32", "tma")};
  });
  const TileTable& tiles = tables(queue.device())[problem.type == DataType::float32];
  run_with(queue, problem, choose_tile(queue, core, problem, tiles, run_with));
}

void define(KernelSource& source, const Device&, const GemmKey& key) {
  define_shape(source, key, {"TILE_M", "TILE_N", "BK", "TM", "BN"});
  source.define("STAGES", std::max<int>(key.stages, 2))
      .define("VC", key.vc)
      .define("BYTES", std::int64_t(size_of(DataType(key.type))));
  source.define("A_ALONG_K", key.a_along_k).define("B_ALONG_K", key.b_along_k);
  source.ptx_target("sm_90a", key.unit);
}

constexpr GemmCore core{.name = "tma",
                        .order = 450,
                        .kernel = "tma",
                        .decline = decline,
                        .run = run,
                        .define = define,
                        .copies = true,
                        .may_fail_to_build = true,
                        .passes = true};

}  // namespace

void tma(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
