// SPDX-License-Identifier: MIT
// The engine's core for GPUs.
#include <numeric>

#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core;

TileTable tiles_for(const DeviceInfo& info, const std::string& type) {
  return read_tiles(info, info.local_memory < 32768 ? "tiled.small_memory" : "tiled." + type, "tiled");
}

int group_size(const TileShape& s) { return s.bm / s.tm * (s.bn / s.tn); }

void run_with(Queue& queue, const GemmProblem& given, const TileChoice& choice) {
  GemmProblem problem = given;
  const TileShape& s = choice.shape;
  GemmKey key = gemm_key(&core, problem);
  const Vectors four = vectors(problem, 4);
  const int group = group_size(s);
  key.a_along_k = four.a_along_k, key.b_along_k = four.b_along_k;
  key.va = four.a && s.bm * s.bk % (group * 4) == 0 ? 4 : 1;
  key.vb = four.b && s.bn * s.bk % (group * 4) == 0 ? 4 : 1;
  set_tiles(problem, key, choice);
  key.vc = four.c && problem.p.splits == 1 ? 4 : 1;
  key.tap_mask = few_taps(problem);
  key.full_k = std::gcd(problem.p.k, problem.k_unit) % s.bk == 0;
  launch_tiles(queue, key, problem, std::size_t(group));
}

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  if (!is_floating(problem.type)) return "only for floating types";
  if (device.info().cpu && !forced) return "for GPUs";
  if (problem.p.k == 0) return "k is 0";
  if (device.info().max_work_group < 256 || device.info().local_memory < 12288)
    return "the device's work-groups are too small";
  return nullptr;
}

void run(Queue& queue, const GemmProblem& problem) {
  static tuning::PerDevice<TileTable> singles([](const DeviceInfo& info) { return tiles_for(info, "float32"); });
  static tuning::PerDevice<TileTable> doubles([](const DeviceInfo& info) { return tiles_for(info, "float64"); });
  const bool wide = size_of(accumulate_type(problem.type)) == 8;
  const TileTable& tiles = (wide ? doubles : singles)(queue.device());
  run_with(queue, problem, choose_tile(queue, core, problem, tiles, run_with));
}

void define(KernelSource& source, const Device&, const GemmKey& key) {
  define_shape(source, key, {"BM", "BN", "BK", "TM", "TN"});
  source.define("VA", key.va).define("VB", key.vb).define("VC", key.vc);
  source.define("A_ALONG_K", key.a_along_k).define("B_ALONG_K", key.b_along_k);
  source.define("FULL_K", key.full_k);
}

constexpr GemmCore core{
    .name = "tiled", .order = 800, .kernel = "tiled", .decline = decline, .run = run, .define = define};

}  // namespace

void tiled(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
