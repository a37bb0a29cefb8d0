// SPDX-License-Identifier: MIT
// What the candidates of the engine share: compiling a core for a problem and launching it.
#pragma once
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>

#include <functional>
#include <vector>

#include "../../tuning/choices.hpp"
#include "../../tuning/gemm_tuning.hpp"
#include "engine.hpp"
#include "../select.hpp"

namespace dlprim {

/// Cores by kernel file. Add new ones at the end: tuned choices know them by number.
enum class GemmCore : std::uint8_t { reference, tiled, panel, mma, reduce, thin, gemv, wgmma, matrix, dot, packed };

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A plain problem with its short side along m.
inline GemmProblem lying(GemmProblem problem) {
  if (problem.p.n < problem.p.m) turn(problem);
  return problem;
}

/// What distinguishes one compiled core from another.
struct GemmKey {
  std::uint16_t shape[5]{};  // tile or panel shape
  GemmCore core{};
  std::uint8_t mode = 0, rank = 1, check = 0, channel_inner = 0, type = 0, addend = 0, activation = 0;
  std::uint8_t split = 0, wide_index = 0;
  std::uint8_t va = 1, vb = 1, vc = 1, a_along_k = 0, b_along_k = 0;  // tiled, mma, gemv, matrix
  std::uint8_t tap_mask = 0, full_k = 0, turned = 0, stages = 0, residual = 0, passes = 0;
  std::uint8_t unit = 0;  // matrix: a MatrixUnit, + emulated_unit on a device that has none
  std::uint8_t result = 0;  // a DataType
  std::uint8_t stream = 0;  // stream-K: work-groups that share a unit
  std::uint8_t both = 0;    // one program stores raw sums of splits and finished results, with and without addend
  std::uint8_t unused[5]{};  // keys are compared byte by byte
};

/// On matrix units float32 takes 1 pass of tf32 where settings.tf32 allows it, else 3; other types none (0).
int tf32_passes(DataType type);
GemmKey gemm_key(GemmCore core, const GemmProblem& problem);
Kernel& gemm_kernel(Device& device, const GemmKey& key);
/// Launches with problem.p as the parameters; `output` replaces C where given (a workspace of partial sums).
void launch_gemm(Queue& queue, Kernel& kernel, const GemmKey& key, const GemmProblem& problem, NDRange range,
                 BufferRef a, BufferRef output);
/// Runs `core` over the tiles of problem.p and, when problem.p.splits > 1, the reduction of its partial sums.
void launch_tiles(Queue& queue, GemmKey key, const GemmProblem& problem, std::size_t group);

/// Whether A, B and C can be accessed in aligned vectors of `unit` elements, and A and B along k.
struct Vectors {
  bool a, b, c, a_along_k, b_along_k;
};
Vectors vectors(const GemmProblem& problem, int unit);
/// Whether a point's bit mask can say which taps lie inside the image.
bool few_taps(const GemmProblem& problem);

struct TileChoice {
  TileShape shape;
  std::int64_t splits;     // of k, equal ones
  std::int64_t share = 0;  // stream-K instead: slices of k that a work-group takes
};
/// Shapes with splits of k, the shortest estimated time first; never empty.
std::vector<TileChoice> rank_tiles(std::span<const TileShape> shapes, const TileCosts& costs, const DeviceInfo& info,
                                   const GemmProblem& problem);
/// Whether a variable of the environment leaves rank_tiles no choice.
bool tiles_are_forced();

using TileRun = void (*)(Queue& queue, const GemmProblem& problem, const TileChoice& choice);
// The choice for a problem: the fastest by measurement where it was measured, which happens at the first use with
// settings.benchmark, else the estimate.
/// Tile and split, the best ranked by estimate.
TileChoice choose_tile(Queue& queue, GemmCore core, const GemmProblem& problem, std::span<const TileShape> shapes,
                       const TileCosts& costs, TileRun run);
using PanelRun = void (*)(Queue& queue, const GemmProblem& problem, const PanelShape& shape);
/// Blocks of the panel core; the device's by estimate.
PanelShape choose_panel(Queue& queue, const GemmProblem& problem, PanelRun run);
/// The core; the first that does not decline by estimate.
const Candidate<GemmProblem>& choose_core(Queue& queue, std::span<const Candidate<GemmProblem>> candidates,
                                          const GemmProblem& problem);
/// Sets tile counts and splits of a problem, and the index width and shape of its key.
void set_tiles(GemmProblem& problem, GemmKey& key, const TileChoice& choice);

/// Whether the device's compiler refused a core that only some drivers build.
bool refused(const Device& device, GemmCore core);
/// Runs such a core; false, once and for all, where the compiler refuses it.
bool builds(const Device& device, GemmCore core, const std::function<void()>& run);

/// The candidates.
const char* decline_wgmma(const Device& device, const GemmProblem& problem, bool forced);
void run_wgmma(Queue& queue, const GemmProblem& problem);
const char* decline_mma(const Device& device, const GemmProblem& problem, bool forced);
void run_mma(Queue& queue, const GemmProblem& problem);
inline constexpr std::uint8_t emulated_unit = 128;
template <MatrixUnit unit>
const char* decline_matrix(const Device& device, const GemmProblem& problem, bool forced);
template <MatrixUnit unit>
void run_matrix(Queue& queue, const GemmProblem& problem);
const char* decline_tiled(const Device& device, const GemmProblem& problem, bool forced);
void run_tiled(Queue& queue, const GemmProblem& problem);
const char* decline_thin(const Device& device, const GemmProblem& problem, bool forced);
void run_thin(Queue& queue, const GemmProblem& problem);
const char* decline_gemv(const Device& device, const GemmProblem& problem, bool forced);
void run_gemv(Queue& queue, const GemmProblem& problem);
const char* decline_panel(const Device& device, const GemmProblem& problem, bool forced);
void run_panel(Queue& queue, const GemmProblem& problem);
const char* decline_packed(const Device& device, const GemmProblem& problem, bool forced);
void run_packed(Queue& queue, const GemmProblem& problem);
/// Whether the device multiplies four bytes at a time.
bool has_integer_dot(const DeviceInfo& info);
const char* decline_dot(const Device& device, const GemmProblem& problem, bool forced);
void run_dot(Queue& queue, const GemmProblem& problem);
void run_reference(Queue& queue, const GemmProblem& problem);

}  // namespace dlprim
