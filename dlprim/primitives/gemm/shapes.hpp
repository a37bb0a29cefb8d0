// SPDX-License-Identifier: MIT
// Sizes of tiles and panels, read from what is known of a device (tuning/store.hpp).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "../../tuning/store.hpp"

namespace dlprim {

/// A tile of a work-group: bm x bn x bk, of which a work-item (tiled core) or a sub-group (cores of matrix units)
/// computes tm x tn. Relative throughput of a full device, in general and for weights' gradients; `resident`:
/// work-groups that share a compute unit.
struct TileShape {
  std::uint16_t bm, bn, bk, tm, tn;
  float speed, weights_speed;
  std::uint8_t resident, stages = 2;
};

/// Whether four warps of the core tma compute all of a tile of 128 rows: two such groups take tiles in turns, so that
/// one multiplies while the other stores.
inline bool takes_turns(const TileShape& shape) {
  return shape.tm == 128 && shape.bm == shape.tm && shape.bn == shape.tn;
}

/// What a choice among tiles weighs, in multiply-adds of one compute unit: a tile's start and end (as a length of k),
/// an element of partial sums on its way through memory, the launch of the reduction. `alone`: the least that few groups
/// on a unit reach of the speed of `resident` ones; it rises linearly with their number. `stream_bytes`: operands up to
/// that size may have their slices of k dealt out across tiles (stream-K): work-groups then read the same part at
/// different times, so that it has to stay in the device's cache; 0: the core cannot. `stream_speed`: of a tile whose
/// work-group goes on to the next. `power`: how far the time goes with all work instead of the busiest unit's, as where
/// clocks are kept down by the power that all of them take.
struct TileCosts {
  double tile, element, reduction, alone = 0.2, stream_bytes = 40e6, stream_speed = 0.85, power = 0;
};

/// The same, measured, of a core whose work-groups bring slices of k into a ring of stages far ahead: `rate`,
/// multiply-adds a second of one compute unit; a slice arrives after `latency` seconds and its bytes / `arrival`, of as
/// many slices at a time as there are stages; a unit takes at most `ingest` bytes a second, and the device's memory gives
/// `memory`. A tile takes `start` seconds besides; the reduction of splits `reduction`, and `element` for each of its sums.
/// Of an operand whose rows begin at multiples of 32 bytes, but not of 128, bytes count `sectors` times; at multiples of
/// 16, `pieces` times.
struct RingCosts {
  double rate, latency, arrival, ingest, memory, start, reduction, element, sectors = 1, pieces = 1;
};

/// Tiles, the best first, and what choosing among them weighs. Never empty.
struct TileTable {
  std::vector<TileShape> shapes;
  TileCosts costs;
  std::optional<RingCosts> ring;  ///< in place of costs
};

/// The parameters of the core for CPUs.
struct PanelShape {
  std::uint16_t mr, nr, mb, nb, kb;
  bool operator==(const PanelShape&) const = default;
};

/// "128x64x8x8x8x2": bm, bn, bk, tm, tn, stages; as DLPRIM_GEMM_TILE and measured choices have it.
std::string text_of(const TileShape& shape);
/// "8x32x128x96x160": mr, nr, mb, nb, kb.
std::string text_of(const PanelShape& shape);

/// The values of keys "gemm.tiles.<tiles>", lines "<sizes> <speed> <speed for weights> <resident>", of
/// "gemm.costs.<costs>", and of "gemm.rings.<tiles>" if there are any. Lines of tiles that this version cannot read are
/// left out. Throws Error when there is none.
TileTable read_tiles(const DeviceInfo& device, const std::string& tiles, const std::string& costs);
/// A line for read_tiles().
std::string line_of(const TileShape& shape);
/// The values of "gemm.panels.<type>" that fit the device's local memory, the best first: lines "<sizes> <bytes>".
std::vector<PanelShape> read_panels(const DeviceInfo& device, const std::string& type);
/// A line for read_panels().
std::string line_of(const PanelShape& shape);

/// The keys by the size of the elements that sums are made of.
inline const char* type_key(std::size_t bytes) { return bytes == 8 ? "float64" : "float32"; }

}  // namespace dlprim
