// SPDX-License-Identifier: MIT
// How rows.clh lays out a panel: how many work-items, rows of each and columns.
#pragma once
#include <dlprim/runtime/device.hpp>

#include "linalg.hpp"

namespace dlprim::linalg {

struct PanelShape {
  std::uint16_t group, rows;  ///< rows of a work-item in registers; 0: the panel stays in memory
  std::uint16_t width;
};

/// The shape for `rows` x `columns` matrices: as wide as registers allow, for wide panels leave more to products.
/// Work-groups have at most `most_group` work-items.
PanelShape panel_shape(const DeviceInfo& device, DataType type, std::int64_t rows, std::int64_t columns,
                       std::size_t most_group);

/// Defines what rows.clh asks for.
KernelSource& define(KernelSource& source, const PanelShape& shape);

}  // namespace dlprim::linalg
