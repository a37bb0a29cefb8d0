// SPDX-License-Identifier: MIT
// The engine's core for matrix units (NVIDIA's, through inline PTX).
#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core;

void run_with(Queue& queue, const GemmProblem& given, const TileChoice& choice) {
  GemmProblem problem = given;
  const auto& p = problem.p;
  const TileShape& s = choice.shape;
  GemmKey key = gemm_key(&core, problem);
  Vectors widest = vectors(problem, 1);
  key.a_along_k = widest.a_along_k, key.b_along_k = widest.b_along_k;
  const std::uint8_t stored = stored_at_once(problem);
  for (std::uint8_t unit = 2; unit <= 16 / size_of(problem.type); unit *= 2) {
    const Vectors v = vectors(problem, unit);
    if (v.a) key.va = unit;
    if (v.b) key.vb = unit;
  }
  if (vectors(problem, stored).c) key.vc = stored;
  set_tiles(problem, key, choice);
  // C along m (channels last): the other operand gives the rows, and chunks of C lie in its columns.
  const bool convolution = problem.mode == GemmMode::convolution;
  key.transposed = p.splits == 1 && p.c_m == 1 && (convolution ? p.y_stride[2] != 1 : p.c_n != 1);
  const auto whole = [&](std::int64_t v) { return v % stored == 0; };
  if (key.transposed)
    key.vc = problem.c.offset % (stored * size_of(result_type(problem))) == 0 && whole(p.m) && whole(p.c_batch) &&
                     (convolution ? whole(p.y_n) && whole(p.y_stride[0]) && whole(p.y_stride[1]) && whole(p.y_stride[2])
                                  : whole(p.c_n))
                 ? stored
                 : 1;
  if (p.splits > 1) key.vc = vectors(problem, stored).c && p.n % 2 == 0 ? 2 : 1;
  key.both = key.vc == 1;
  if (key.both) key.addend = 0;
  if (!problem.addend.memory) problem.beta = 0;
  key.tap_mask = convolution && few_taps(problem);
  launch_tiles(queue, key, problem, std::size_t(32 * (s.bm / s.tm) * (s.bn / s.tn)));
}

bool is_small(const Device& device, const GemmProblem& problem) {
  static tuning::Numbers<1> limit("gemm.mma.float32");
  return double(std::min({problem.p.m, problem.p.n, problem.p.k})) <= limit(device)[0];
}

bool is_thin(const Device& device, const GemmProblem& problem) {
  static tuning::Numbers<2> limits("gemm.mma.thin");
  const auto& [length, others] = limits(device);
  const std::int64_t longest = std::max(problem.p.m, problem.p.n), other = std::min(problem.p.m, problem.p.n);
  return double(longest) >= length && double(other) * double(problem.p.k) <= others;
}

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16 && problem.type != DataType::float32)
    return "only for float32 and 16-bit floats";
  if (problem.p.k == 0) return "k is 0";
  if (!forced && problem.type == DataType::float32 && is_small(device, problem))
    return "too small a product of float32 to pay";
  if (!forced && problem.type != DataType::float32 && is_thin(device, problem)) return "too thin a product to pay";
  if (info.nv_compute_capability < 80 && !forced) return "the device has no matrix units that it can use";
  if (info.max_work_group < 256 || info.local_memory < 49152) return "the device's work-groups are too small";
  return nullptr;
}

void run(Queue& queue, const GemmProblem& problem) {
  struct Tables {
    TileTable single, half, unaligned_half;
  };
  static tuning::PerDevice<Tables> tables([](const DeviceInfo& info) {
    const std::string emulated = info.nv_inline_ptx ? "" : ".emulated";
    return Tables{read_tiles(info, "mma.float32" + emulated, "mma.float32"),
                  read_tiles(info, "mma.16bit" + emulated, "mma.16bit"),
                  read_tiles(info, "mma.16bit" + (emulated.empty() ? ".unaligned" : emulated), "mma.16bit")};
  });
  const Tables& all = tables(queue.device());
  const Vectors pairs = vectors(problem, 2);
  const bool single = problem.type == DataType::float32, aligned = pairs.a && pairs.b;
  const TileTable& tiles = single ? all.single : aligned ? all.half : all.unaligned_half;
  run_with(queue, problem, choose_tile(queue, core, problem, tiles, run_with));
}

void define(KernelSource& source, const Device& device, const GemmKey& key) {
  const std::size_t bytes = size_of(DataType(key.type));
  define_shape(source, key, {"BM", "BN", "BK", "WM", "WN"});
  source.define("VA", key.va).define("VB", key.vb).define("VC", key.vc).define("STAGES", key.stages);
  source.define("A_ALONG_K", key.a_along_k).define("B_ALONG_K", key.b_along_k).define("TRANSPOSED", key.transposed);
  source.define("BYTES", std::int64_t(bytes)).define("PASSES", key.passes).define("BOTH", key.both);
  // Its many accesses one by one take long to compile, and are no slower so.
  if (bytes * std::min(key.va, key.vb) < 4 && device.info().nv_inline_ptx) source.option("-cl-nv-opt-level=2");
}

constexpr GemmCore core{.name = "mma",
                        .order = 600,
                        .kernel = "mma",
                        .decline = decline,
                        .run = run,
                        .define = define,
                        .passes = true,
                        .lanes = 32};

}  // namespace

void mma(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
