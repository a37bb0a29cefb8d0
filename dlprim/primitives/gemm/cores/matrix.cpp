// SPDX-License-Identifier: MIT
// The engine's core for the matrix units of Intel and AMD.
#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

// Matrix units of sub-groups: Intel's by the size of their sub-groups, AMD's by architecture.
enum class MatrixUnit : std::uint8_t { none, intel8, intel16, rdna3, rdna4, cdna };
constexpr const char* names[] = {"", "matrix_intel8", "matrix_intel16", "matrix_rdna3", "matrix_rdna4", "matrix_cdna"};

template <MatrixUnit unit>
const GemmCore& core();
constexpr std::uint8_t emulated_unit = 128;  // added to a key's unit

int lanes(MatrixUnit unit) {
  return unit == MatrixUnit::intel8 ? 8 : unit == MatrixUnit::intel16 ? 16 : unit == MatrixUnit::cdna ? 64 : 32;
}

bool has_unit(const Device& device, MatrixUnit unit) {
  const DeviceInfo& info = device.info();
  auto named = [&](std::initializer_list<const char*> starts) {
    return std::any_of(starts.begin(), starts.end(), [&](const char* start) { return info.name.starts_with(start); });
  };
  if (!info.gpu || info.warp != unsigned(lanes(unit))) return false;
  if (info.vendor == Vendor::intel)
    return unit <= MatrixUnit::intel16 &&
           info.extensions.find("cl_intel_subgroup_matrix_multiply_accumulate") != std::string::npos;
  if (info.vendor != Vendor::amd) return false;
  return unit == MatrixUnit::rdna3   ? named({"gfx11"})
         : unit == MatrixUnit::rdna4 ? named({"gfx120"})
         : unit == MatrixUnit::cdna  ? named({"gfx90a", "gfx94", "gfx950"})
                                     : false;
}

// C is contiguous along m, as with channels last.
bool along_m(const GemmProblem& problem) {
  const auto& p = problem.p;
  return p.c_m == 1 && (problem.mode == GemmMode::convolution ? p.y_stride[2] != 1 : p.c_n != 1);
}

template <MatrixUnit unit>
void run_with(Queue& queue, const GemmProblem& given, const TileChoice& choice) {
  GemmProblem problem = given;
  const TileShape& s = choice.shape;
  GemmKey key = gemm_key(&core<unit>(), problem);
  const Vectors widest = vectors(problem, 1);
  key.a_along_k = widest.a_along_k, key.b_along_k = widest.b_along_k;
  for (std::uint8_t wide = 2; wide <= 8; wide *= 2) {
    const Vectors v = vectors(problem, wide);
    if (v.a) key.va = wide;
    if (v.b) key.vb = wide;
  }
  set_tiles(problem, key, choice);
  key.stages = 0;
  key.transposed = problem.p.splits == 1 && along_m(problem);
  key.tap_mask = problem.mode == GemmMode::convolution && few_taps(problem);
  key.unit = std::uint8_t(std::uint8_t(unit) + (has_unit(queue.device(), unit) ? 0 : emulated_unit));
  launch_tiles(queue, key, problem, std::size_t(lanes(unit) * (s.bm / s.tm) * (s.bn / s.tn)));
}

template <MatrixUnit unit>
const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16) return "only for 16-bit floats";
  if (problem.p.k == 0) return "k is 0";
  if (!has_unit(device, unit)) {
    if (!forced) return "the device has no such matrix units";
    if (info.extensions.find("cl_intel_required_subgroup_size") == std::string::npos)
      return "the device cannot emulate them, for want of sub-groups of a given size";
  }
  if (problem.type == DataType::float16 && !info.fp16) return "the device has no float16";
  if (info.max_work_group < 256 || info.local_memory < 49152) return "the device's work-groups are too small";
  return nullptr;
}

template <MatrixUnit unit>
void run(Queue& queue, const GemmProblem& problem) {
  static tuning::PerDevice<TileTable> real(
      [](const DeviceInfo& info) { return read_tiles(info, names[int(unit)], "matrix"); });
  static tuning::PerDevice<TileTable> emulated(
      [](const DeviceInfo& info) { return read_tiles(info, "matrix.emulated", "matrix"); });
  const TileTable& tiles = (has_unit(queue.device(), unit) ? real : emulated)(queue.device());
  run_with<unit>(queue, problem, choose_tile(queue, core<unit>(), problem, tiles, run_with<unit>));
}

void define(KernelSource& source, const Device&, const GemmKey& key) {
  constexpr const char* units[] = {"", "UNIT_INTEL8", "UNIT_INTEL16", "UNIT_RDNA3", "UNIT_RDNA4", "UNIT_CDNA"};
  define_shape(source, key, {"BM", "BN", "BK", "WM", "WN"});
  source.define("VA", key.va).define("VB", key.vb).define("TRANSPOSED", key.transposed);
  source.define("A_ALONG_K", key.a_along_k).define("B_ALONG_K", key.b_along_k);
  source.define(units[key.unit % emulated_unit], 1).define("EMULATED", key.unit >= emulated_unit);
}

template <MatrixUnit unit>
const GemmCore& core() {
  static constexpr GemmCore one{.name = names[int(unit)],
                                .order = 700 + int(unit),
                                .kernel = "matrix",
                                .decline = decline<unit>,
                                .run = run<unit>,
                                .define = define,
                                .may_fail_to_build = true};
  return one;
}

}  // namespace

void matrix(GemmCores& cores) {
  cores.add(core<MatrixUnit::intel8>());
  cores.add(core<MatrixUnit::intel16>());
  cores.add(core<MatrixUnit::rdna3>());
  cores.add(core<MatrixUnit::rdna4>());
  cores.add(core<MatrixUnit::cdna>());
}

}  // namespace dlprim::gemm_cores
