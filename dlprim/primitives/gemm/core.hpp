// SPDX-License-Identifier: MIT
// What the cores of the engine are, and share: compiling one for a problem and launching it.
#pragma once
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>

#include <initializer_list>
#include <limits>
#include <vector>

#include "../grid.hpp"
#include "../select.hpp"
#include "engine.hpp"
#include "shapes.hpp"

namespace dlprim {

struct GemmKey;

/// An operand of a problem, or a part of one, as a tensor.
inline TensorView strided(BufferRef data, DataType type, std::initializer_list<std::int64_t> sizes,
                          std::initializer_list<std::int64_t> strides) {
  return {data, type, std::span(sizes.begin(), sizes.size()), std::span(strides.begin(), strides.size())};
}

/// A core of the engine: Core of select.hpp and what its kernel is, gemm_<kernel> of kernels/gemm/<kernel>.cl.
struct GemmCore {
  using Problem = GemmProblem;
  const char* name;  ///< also in the keys of measured choices
  int order;
  const char* kernel;
  const char* (*decline)(const Device& device, const GemmProblem& problem, bool forced) = nullptr;
  void (*run)(Queue& queue, const GemmProblem& problem) = nullptr;
  /// Defines what its kernel asks for beside what all kernels of the engine do.
  void (*define)(KernelSource& source, const Device& device, const GemmKey& key) = nullptr;
  bool copies = false, may_fail_to_build = false;
  bool a_of_sums = false, b_of_sums = false;  ///< the elements of A or B have the type of sums
  bool passes = false;                        ///< float32 goes through tf32: GemmKey::passes tells kernels apart
  bool holds_addend = false;                  ///< takes Addend::held_along_n: a vector that bulk copies can read
  int lanes = 1;                              ///< work-items that share a part tm x tn of a tile
};
using GemmCores = Cores<GemmCore>;
const GemmCores& all_gemm_cores();
namespace gemm_cores {
/// For products of 8-bit floats, which no core of the list takes.
extern const GemmCore tma_scaled;
/// For products of groups, likewise.
extern const GemmCore tma_grouped;
/// Rows of weights side by side in panels, and rows of which each first one begins a panel.
struct PanelsOfBytes {
  std::int64_t width, rows;
};
/// The panels that convolutions take in `groups` of so many rows (channels), which read so many quads of bytes of a
/// tap.
PanelsOfBytes panels_of_bytes(const Device& device, std::int64_t groups, std::int64_t rows, std::int64_t quads);
/// Whether groups are not too small for that.
bool takes_groups_of_bytes(std::int64_t groups, std::int64_t rows, std::int64_t quads);
/// Runs a convolution of quads of bytes, whose A is such panels, [rows / width][k][width] for each first row, with as
/// many quads of the zero point behind them as a point's channels of all groups have; addend and scales reach to the
/// end of the last panel.
void run_points_of_bytes(Queue& queue, GemmProblem problem);
/// Whether the device and its driver have what the core tma needs.
bool has_tma(const Device& device);
}  // namespace gemm_cores

/// A plain problem with its short side along m.
inline GemmProblem wide(GemmProblem problem) {
  if (problem.p.n < problem.p.m) transpose(problem);
  return problem;
}

/// How a core for matrix units reads the addend: ADDEND of kernels/gemm/operands.clh.
enum class Addend : std::uint8_t { none, any, along_n, along_m, pairs_along_n, pairs_along_m, held_along_n };

/// What distinguishes one compiled core from another.
struct GemmKey {
  const GemmCore* core = nullptr;
  std::uint16_t shape[5]{};  // tile or panel shape
  std::uint8_t mode = 0, rank = 1, check = 0, channel_inner = 0, type = 0, addend = 0, activation = 0;
  std::uint8_t split = 0, wide_index = 0;
  // tiled, mma, gemv, matrix; tma: va is the words in which rows of C are stored
  std::uint8_t va = 1, vb = 1, vc = 1, a_along_k = 0, b_along_k = 0;
  std::uint8_t tap_mask = 0, full_k = 0, transposed = 0, stages = 0, residual = 0, passes = 0;
  std::uint8_t unit = 0;  // matrix: the unit, and whether it is emulated; tma: work-groups that share a compute unit
  std::uint8_t result = 0;  // a DataType
  std::uint8_t stream = 0;  // stream-K: work-groups that share a unit
  std::uint8_t both = 0;  // one program stores raw sums of splits and finished results, with and without addend
  std::uint8_t more = 0, gated = 0;  // gemv: further products of a launch; 1 + the activation of what the result gates
  std::uint8_t kinds = 0;  // of 8-bit floats: 1 + those of A and B as digits; points: 128 of bytes, 129 of signed ones
  std::uint8_t scales = 0, exact_sums = 0;  // 2: of lines
  std::uint8_t grouped = 0;  // keys are compared byte by byte
};

/// Whether A and B are quads of bytes (QuantizedSums).
inline bool of_bytes(const GemmKey& key) { return key.kinds >= 128; }
/// On matrix units float32 takes 1 pass of tf32 where the problem allows it, else 3; other types none (0).
int tf32_passes(const GemmProblem& problem);
GemmKey gemm_key(const GemmCore* core, const GemmProblem& problem);
/// Defines the sizes of key.shape by these names.
void define_shape(KernelSource& source, const GemmKey& key, std::initializer_list<const char*> names);
Kernel& gemm_kernel(Device& device, const GemmKey& key);
/// Launches with problem.p as the parameters; `output` replaces C where given (a workspace of partial sums). Of kernels
/// that have them, `first` is the first parameter, and `more` and `last` are behind the others.
void launch_gemm(Queue& queue, Kernel& kernel, const GemmKey& key, const GemmProblem& problem, NDRange range,
                 BufferRef a, BufferRef output, std::span<const std::byte> first = {},
                 std::span<const BufferRef> more = {}, std::span<const std::byte> last = {});
/// Runs `core` over the tiles of problem.p and, when problem.p.splits > 1, the reduction of its partial sums. There are
/// as many work-groups as tiles, or as parts of them, but at most `most_groups`.
void launch_tiles(Queue& queue, GemmKey key, const GemmProblem& problem, std::size_t group,
                  std::int64_t most_groups = std::int64_t(1) << 31, std::span<const std::byte> first = {});

/// Whether A, B and C can be accessed in aligned vectors of `unit` elements, and A and B along k.
struct Vectors {
  bool a, b, c, a_along_k, b_along_k;
};
Vectors vectors(const GemmProblem& problem, int unit);
/// Whether storing C one by one, which mma does better, would take too great a part of the time of the cores that are
/// faster otherwise.
bool stores_too_much(const Device& device, const GemmProblem& problem);
/// Whether a point's bit mask of so many bits can say which taps lie inside the image.
bool few_taps(const GemmProblem& problem, int bits = 32);

/// Whether four neighbouring bytes along k can be read as one word, for any row and batch.
inline bool lies_in_words(const BufferRef& x, std::int64_t along, std::int64_t across, std::int64_t batch) {
  return along == 1 && x.offset % 4 == 0 && across % 4 == 0 && batch % 4 == 0;
}
/// The longest sums of products of bytes that surely fit 32 bits.
inline constexpr std::int64_t longest_of_bytes = 32768;

struct TileChoice {
  TileShape shape;
  std::int64_t splits;  // of k, equal ones
  std::int64_t share = 0;  // stream-K instead: slices of k that a work-group takes
};
/// Shapes with at most so many splits of k, the shortest estimated time first; never empty.
std::vector<TileChoice> rank_tiles(const TileTable& tiles, const DeviceInfo& info, const GemmProblem& problem,
                                   std::int64_t most_splits = 512);
/// Whether a variable of the environment leaves rank_tiles no choice.
bool tiles_are_forced();

using TileRun = void (*)(Queue& queue, const GemmProblem& problem, const TileChoice& choice);
// The choice for a problem: the fastest by measurement where it was measured, which happens at the first use with
// settings.benchmark, else the estimate.
/// Tile and split, the best ranked by estimate.
TileChoice choose_tile(Queue& queue, const GemmCore& core, const GemmProblem& problem, const TileTable& tiles,
                       TileRun run);
using PanelRun = void (*)(Queue& queue, const GemmProblem& problem, const PanelShape& shape);
/// Blocks of the panel core, of those for the device; the first by estimate.
PanelShape choose_panel(Queue& queue, const GemmProblem& problem, std::span<const PanelShape> panels, PanelRun run);
/// The core; the first that does not decline by estimate.
const GemmCore& choose_core(Queue& queue, const GemmProblem& problem);
/// Sets tile counts and splits of a problem, and the index width and shape of its key.
void set_tiles(GemmProblem& problem, GemmKey& key, const TileChoice& choice);

}  // namespace dlprim
