// SPDX-License-Identifier: MIT
// The engine's core for products of bytes, by instructions that sum four products at once.
#include "../bytes.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core;

constexpr std::uint16_t tile = 64, words = 8;

// Whether the device multiplies four bytes at a time.
bool has_integer_dot(const DeviceInfo& info) {
  return info.nv_inline_ptx ? info.nv_compute_capability >= 61
                            : info.extensions.find("cl_khr_integer_dot_product") != std::string::npos;
}

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  if (const char* reason = decline_bytes(device.info(), problem, 8192, forced)) return reason;
  return has_integer_dot(device.info()) || forced ? nullptr : "the device has no dot products of bytes";
}

void run(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = given;
  auto& p = problem.p;
  GemmKey key = gemm_key(&core, problem);
  key.shape[0] = key.shape[1] = tile, key.shape[2] = words;
  key.a_along_k = lies_in_words(problem.a, p.a_k, p.a_m, p.a_batch);
  key.b_along_k = lies_in_words(problem.b, p.b_k, p.b_n, p.b_batch);
  p.tiles_m = divide_up(p.m, tile), p.tiles_n = divide_up(p.n, tile), p.splits = 1;
  launch_tiles(queue, key, problem, tile / 4 * (tile / 4));
}

void define(KernelSource& source, const Device& device, const GemmKey& key) {
  define_shape(source, key, {"BM", "BN", "WORDS"});
  source.define("A_WORDS", key.a_along_k).define("B_WORDS", key.b_along_k);
  source.define("SIGNED", DataType(key.type) == DataType::int8);
  const bool extension = has_integer_dot(device.info()) && !device.info().nv_inline_ptx;
  source.define("INTEGER_DOT", extension);
  if (extension) source.option("-cl-std=CL3.0");
}

constexpr GemmCore core{.name = "dot",
                        .order = 900,
                        .kernel = "dot",
                        .decline = decline,
                        .run = run,
                        .define = define,
                        .may_fail_to_build = true};

}  // namespace

void dot(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
