// SPDX-License-Identifier: MIT
// The engine's core of convolutions for Hopper's matrix units: tiles are gathered while others are multiplied.
#include <dlprim/runtime/static_local_memory.hpp>

#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core;

constexpr std::size_t items = 256;  // that multiply, and as many that copy

bool serves(const Device& device) {
  constexpr std::size_t largest_ring = 216000;  // bytes: stages, barriers and sums on their way to memory
  return device.info().nv_compute_capability == 90 && static_local_memory(device) >= largest_ring;
}

bool gathered_gradient_pays(const Device& device, std::int64_t rows, std::int64_t columns, double operations) {
  static tuning::Numbers<3> numbers("gemm.gather.weights");
  const auto& [fewest_rows, fewest_columns, fewest] = numbers(device);
  return serves(device) && double(rows) >= fewest_rows && double(columns) >= fewest_columns && operations >= fewest;
}

// C contiguous along m (channels last): points give the rows of what the matrix unit computes.
bool is_transposed(const GemmProblem& problem) {
  const auto& p = problem.p;
  return problem.mode == GemmMode::convolution && p.splits == 1 && p.c_m == 1 && p.y_stride[2] != 1;
}

std::uint8_t vector_of_c(const GemmProblem& problem, bool transposed) {
  const auto& p = problem.p;
  if (p.splits > 1) return p.n % 2 == 0 ? 2 : 1;
  const std::uint8_t unit = stored_at_once(problem);
  if (!transposed) return vectors(problem, unit).c ? unit : 1;
  const auto whole = [&](std::int64_t v) { return v % unit == 0; };
  const bool aligned = problem.c.offset % (unit * size_of(result_type(problem))) == 0 && whole(p.m) &&
                       whole(p.c_batch) && whole(p.y_n) && std::ranges::all_of(p.y_stride, whole);
  return aligned ? unit : 1;
}

void run_with(Queue& queue, const GemmProblem& given, const TileChoice& choice) {
  GemmProblem problem = given;
  auto& p = problem.p;
  const DeviceInfo& info = queue.device().info();
  GemmKey key = gemm_key(&core, problem);
  set_tiles(problem, key, choice);
  key.transposed = is_transposed(problem);
  key.vc = vector_of_c(problem, key.transposed);
  if (problem.mode == GemmMode::convolution && few_taps(problem, 64)) key.tap_mask = few_taps(problem) ? 1 : 2;
  p.shares = p.tiles_m * p.tiles_n * problem.batches * p.splits;
  const bool hopper = info.nv_compute_capability == 90;  // elsewhere no work-items copy only
  launch_tiles(queue, key, problem, hopper ? 2 * items : items, info.compute_units);
}

// What can be gathered in whole chunks of 16 bytes.
bool is_aligned(const GemmProblem& problem) {
  const Vectors v = vectors(problem, int(16 / size_of(problem.type)));
  const bool gradient = problem.mode == GemmMode::weights_gradient;
  return v.a && v.b && v.a_along_k == !gradient && v.b_along_k == !gradient;
}

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const int passes = tf32_passes(problem);
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16 && passes != 1)
    return "only for tf32 and 16-bit floats";
  if (problem.mode == GemmMode::plain) return "only for convolutions";
  if (passes == 1 && problem.mode == GemmMode::weights_gradient) return "tf32 has to lie along the sums";
  if (problem.p.k == 0) return "k is 0";
  if (problem.check && problem.mode == GemmMode::convolution && !few_taps(problem, 64))
    return "the window is too large";
  if (!is_aligned(problem)) return "channels do not lie side by side in whole chunks";
  if (info.max_work_group < items || info.local_memory < 49152) return "the device's work-groups are too small";
  if (forced) return nullptr;
  const auto& p = problem.p;
  const bool gradient = problem.mode == GemmMode::weights_gradient;
  const std::int64_t k = std::max(p.k, problem.k_longest);
  const double operations = 2 * double(p.m) * double(p.n) * double(k) * double(problem.batches);
  const bool pays =
      gradient ? gathered_gradient_pays(device, p.m, p.n, operations) : gather_pays(device, p.m, k, operations);
  return pays ? nullptr : "too small, or not on Hopper";
}

void run(Queue& queue, const GemmProblem& problem) {
  using Tables = std::array<TileTable, 3>;
  static tuning::PerDevice<Tables> tables([](const DeviceInfo& info) {
    const std::string emulated = info.nv_inline_ptx ? "" : ".emulated";
    return Tables{read_tiles(info, "gather.16bit" + emulated, "gather"),
                  read_tiles(info, "gather.tf32" + emulated, "gather"),
                  read_tiles(info, "gather.weights" + emulated, "gather.weights")};
  });
  const int kind = problem.mode == GemmMode::weights_gradient ? 2 : problem.type == DataType::float32 ? 1 : 0;
  run_with(queue, problem, choose_tile(queue, core, problem, tables(queue.device())[kind], run_with));
}

void define(KernelSource& source, const Device&, const GemmKey& key) {
  const int bm = key.shape[0], bn = key.shape[1];
  // Four warps have at most 128 x 128 of a tile: half of the rows of what the matrix unit computes, or of its columns.
  const int rows = key.transposed ? bn : bm, all = key.transposed ? bm : bn;
  const int columns = all <= 128 && rows % 128 == 0 ? all : all / 2;
  source.define("BM", bm).define("BN", bn).define("COLUMNS", columns).define("TRANSPOSED", key.transposed);
  source.define("WM", key.transposed ? columns : 16).define("WN", key.transposed ? 16 : columns);
  source.define("VC", key.vc).define("STAGES", key.stages).define("BYTES", std::int64_t(size_of(DataType(key.type))));
  source.ptx_target("sm_90a");
}

constexpr GemmCore core{.name = "gather",
                        .order = 550,
                        .kernel = "gather",
                        .decline = decline,
                        .run = run,
                        .define = define,
                        .may_fail_to_build = true,
                        .passes = true};

}  // namespace

void gather(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores

namespace dlprim {

bool gather_pays(const Device& device, std::int64_t rows, std::int64_t sum, double operations) {
  static tuning::Numbers<4> numbers("gemm.gather");
  const auto& [fewest_rows, shortest, fewest, enough] = numbers(device);
  const double columns = operations / 2 / double(rows) / double(sum);
  const double tiles = double(divide_up(rows, 128)) * columns / 128;
  return gemm_cores::serves(device) && double(rows) >= fewest_rows && double(sum) >= shortest && operations >= fewest &&
         (operations >= enough || tiles >= double(device.info().compute_units));
}

}  // namespace dlprim
