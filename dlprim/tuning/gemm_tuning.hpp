// SPDX-License-Identifier: MIT
// Tuning parameters of the GEMM engine, as data.
#pragma once
#include <dlprim/runtime/device.hpp>

#include <span>

namespace dlprim {

/// A shape of the tiled core (GPUs). Relative throughput of a full device, in general and for weights' gradients;
/// `resident`: work-groups that share a compute unit.
struct TileShape {
  std::uint16_t bm, bn, bk, tm, tn;
  float speed, weights_speed;
  std::uint8_t resident;
};

/// The panel core's parameters (CPUs).
struct PanelShape {
  std::uint16_t mr, nr, mb, nb, kb;
};

/// Shapes worth trying for elements of `bytes` (4 or 8) in local memory, best first.
std::span<const TileShape> tile_shapes(const DeviceInfo& device, std::size_t bytes);
PanelShape panel_shape(const DeviceInfo& device, std::size_t bytes);

}  // namespace dlprim
