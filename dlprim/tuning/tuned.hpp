// SPDX-License-Identifier: MIT
// Parameters measured on this machine: what `dlprim tune` found replaces the defaults of gemm_tuning.cpp. They are
// lines of tuning.txt in the folder of the cache (DLPRIM_CACHE_DIR), one for each device, driver and element size.
#pragma once
#include "gemm_tuning.hpp"

#include <filesystem>
#include <optional>
#include <vector>

namespace dlprim {

struct Tuned {
  std::vector<TileShape> tiles;     ///< for tile_shapes; empty: the defaults
  std::optional<PanelShape> panel;  ///< for panel_shape
};

/// What holds for a device and element size, or null. The file is read at the first call.
const Tuned* tuned(const DeviceInfo& device, std::size_t bytes);
/// Replaces it in this process; nothing may be launched at the same time. An empty one restores the defaults.
void set_tuned(const DeviceInfo& device, std::size_t bytes, Tuned tuned);
/// Writes what this process holds. Throws Error when the file cannot be written.
void save_tuned();
std::filesystem::path tuning_file();

}  // namespace dlprim
