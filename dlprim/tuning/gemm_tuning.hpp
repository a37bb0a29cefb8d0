// SPDX-License-Identifier: MIT
// Tuning parameters of the GEMM engine, as data.
#pragma once
#include <dlprim/runtime/device.hpp>

#include <span>

namespace dlprim {

/// A tile of the tiled core (tm x tn: a work-item's part) or of the mma core (a warp's). Relative throughput of a full
/// device, in general and for weights' gradients; `resident`: work-groups that share a compute unit.
struct TileShape {
  std::uint16_t bm, bn, bk, tm, tn;
  float speed, weights_speed;
  std::uint8_t resident, stages = 2;
};

/// What a choice among tiles weighs, in multiply-adds of one compute unit: a tile's start and end (as a length of k),
/// an element of partial sums on its way through memory, the launch of the reduction. `alone`: the least that few groups
/// on a unit reach of the speed of `resident` ones; it rises linearly with their number. `stream_bytes`: operands up to
/// that size may have their slices of k dealt out across tiles (stream-K): work-groups then read the same part at
/// different times, so that it has to stay in the device's cache. 0: the core cannot.
struct TileCosts {
  double tile, element, reduction, alone = 0.2, stream_bytes = 40e6;
};

/// The panel core's parameters (CPUs).
struct PanelShape {
  std::uint16_t mr, nr, mb, nb, kb;
};

/// Shapes worth trying for elements of `bytes` (4 or 8) in local memory, best first.
std::span<const TileShape> tile_shapes(const DeviceInfo& device, std::size_t bytes);
/// Shapes of the mma core for elements of `bytes` (2 or 4), best first; `aligned`: A and B are in pairs of elements.
std::span<const TileShape> mma_shapes(const DeviceInfo& device, std::size_t bytes, bool aligned);
/// Shapes of the wgmma core for elements of `bytes` (2 or 4) that are packed as `parts` numbers (1 or 2), best first.
std::span<const TileShape> wgmma_shapes(std::size_t bytes, int parts);

/// Matrix units of sub-groups: Intel's by the size of their sub-groups, AMD's by architecture.
enum class MatrixUnit : std::uint8_t { none, intel8, intel16, rdna3, rdna4, cdna };
/// Shapes of the matrix core; `emulated`: on a device that has no such unit.
std::span<const TileShape> matrix_shapes(MatrixUnit unit, bool emulated);

inline constexpr TileCosts tiled_costs{24, 32, 4e5}, mma_costs{40, 200, 2.5e6, 0.6};
inline constexpr TileCosts mma_float_costs{24, 40, 5e5, 0.8}, wgmma_costs{60, 200, 2.5e6, 0.5, 0};
inline constexpr double stream_speed = 0.85;  // of a tile whose work-group goes on to the next
PanelShape panel_shape(const DeviceInfo& device, std::size_t bytes);

/// What a tuner tries, on any device.
std::span<const TileShape> tile_candidates(std::size_t bytes);
std::span<const PanelShape> panel_candidates(std::size_t bytes);

}  // namespace dlprim
