// SPDX-License-Identifier: MIT
// The engine's core for products of bytes on Intel's matrix units.
#include "../bytes.hpp"

namespace dlprim::gemm_cores {

namespace {

template <int lanes>
const GemmCore& core();

bool has_unit(const DeviceInfo& info, int lanes) {
  return info.gpu && info.vendor == Vendor::intel && info.warp == unsigned(lanes) &&
         info.extensions.find("cl_intel_subgroup_matrix_multiply_accumulate") != std::string::npos;
}

template <int lanes>
const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  if (const char* reason = decline_bytes(info, problem, 16384, forced)) return reason;
  if (has_unit(info, lanes)) return nullptr;
  if (!forced) return "the device has no such matrix units";
  const bool emulates = info.extensions.find("cl_intel_required_subgroup_size") != std::string::npos;
  return emulates ? nullptr : "the device cannot emulate them, for want of sub-groups of a given size";
}

template <int lanes>
void run_with(Queue& queue, const GemmProblem& given, const TileChoice& choice) {
  GemmProblem problem = given;
  auto& p = problem.p;
  const TileShape& s = choice.shape;
  GemmKey key = gemm_key(&core<lanes>(), problem);
  set_tiles(problem, key, {s, 1});
  key.stages = 0;
  key.a_along_k = lies_in_words(problem.a, p.a_k, p.a_m, p.a_batch);
  key.b_along_k = lies_in_words(problem.b, p.b_k, p.b_n, p.b_batch);
  key.unit = !has_unit(queue.device().info(), lanes);
  launch_tiles(queue, key, problem, std::size_t(lanes * (s.bm / s.tm) * (s.bn / s.tn)));
}

template <int lanes>
void run(Queue& queue, const GemmProblem& problem) {
  static tuning::PerDevice<TileTable> tiles(
      [](const DeviceInfo& info) { return read_tiles(info, core<lanes>().name, "matrix_bytes"); });
  const TileChoice choice = choose_tile(queue, core<lanes>(), problem, tiles(queue.device()), run_with<lanes>);
  run_with<lanes>(queue, problem, choice);
}

template <int lanes>
void define(KernelSource& source, const Device&, const GemmKey& key) {
  define_shape(source, key, {"BM", "BN", "BK", "WM", "WN"});
  source.define("A_WORDS", key.a_along_k).define("B_WORDS", key.b_along_k);
  source.define("LANES", lanes).define("SIGNED", DataType(key.type) == DataType::int8).define("EMULATED", key.unit);
}

template <int lanes>
const GemmCore& core() {
  static constexpr GemmCore one{.name = lanes == 8 ? "matrix_bytes8" : "matrix_bytes16",
                                .order = 750 + lanes,
                                .kernel = "matrix_bytes",
                                .decline = decline<lanes>,
                                .run = run<lanes>,
                                .define = define<lanes>,
                                .may_fail_to_build = true};
  return one;
}

}  // namespace

void matrix_bytes(GemmCores& cores) {
  cores.add(core<8>());
  cores.add(core<16>());
}

}  // namespace dlprim::gemm_cores
