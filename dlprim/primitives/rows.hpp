// SPDX-License-Identifier: MIT
// Layout of kernels that keep one reduction ("row") in the registers of a group: softmax, layer and group norm.
#pragma once
#include <dlprim/runtime/device.hpp>
#include <dlprim/runtime/settings.hpp>
#include <dlprim/tensor_view.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>

namespace dlprim {

/// LANES x ROWS work-items form a group: LANES share a row, ITEMS elements each.
struct RowLayout {
  std::uint16_t lanes = 1, rows = 1;
  std::uint16_t items = 0;    ///< elements a work-item keeps; 0: rows do not fit and are read again
  std::uint16_t columns = 0;  ///< neighbouring work-items work on neighbouring rows
};

/// `inner`: distance between elements of a row; rows next to each other start at neighbouring elements if above 1.
/// `most`: lanes that GPUs take for rows that are too long for the usual 256. `pack`: elements next to each other that a
/// work-item loads at once; `items` is a multiple of it.
inline RowLayout row_layout(const DeviceInfo& device, std::int64_t length, std::int64_t inner, int max_items,
                            std::size_t most = 256, int pack = 1) {
  RowLayout layout;
  layout.columns = inner > 1;
  const bool cpu = device.cpu && !settings.gpu_forms;
  const std::size_t wish = cpu ? 16 : !layout.columns && length > 256 * max_items ? most : 256;
  const std::int64_t group = std::int64_t(std::bit_floor(std::min(wish, device.max_work_group)));
  std::int64_t lanes;
  if (cpu) {
    lanes = !layout.columns && length >= 4 * group ? group : 1;  // else work-items walk rows
  } else {
    // Shuffles make whole warps of few lanes with many elements best, local memory many lanes with few.
    const bool shuffles = device.nv_inline_ptx && !layout.columns;
    const std::int64_t wanted = shuffles ? std::max((length + max_items - 1) / max_items,
                                                    std::min<std::int64_t>((length + pack - 1) / pack, 32))
                                         : (length + 3) / 4;
    const std::int64_t least = layout.columns ? group / std::min<std::int64_t>(inner, 32) : 1;
    lanes = std::int64_t(std::bit_ceil(std::uint64_t(std::clamp<std::int64_t>(wanted, 1, group))));
    if (layout.columns)
      lanes =
          std::min<std::int64_t>(lanes, std::max<std::int64_t>(1, std::int64_t(std::bit_ceil(std::uint64_t(least)))));
  }
  layout.lanes = std::uint16_t(lanes);
  layout.rows = std::uint16_t(std::max<std::int64_t>(1, group / lanes));
  std::int64_t items = std::max<std::int64_t>((length + lanes - 1) / lanes, 1);
  items = pack > 1 ? (items + pack - 1) / pack * pack : std::int64_t(std::bit_ceil(std::uint64_t(items)));
  layout.items = std::uint16_t(items <= max_items ? items : 0);
  return layout;
}

/// Whether indices of so many elements take 64 bits, also those of rows behind the last that a group counts.
inline bool rows_are_wide(std::uint64_t rows, std::uint64_t length) {
  constexpr std::uint64_t most_together = 1024;
  return rows * length + most_together > std::uint64_t(settings.index_limit);
}

/// Whether GPUs may load the first four elements, and every other four after them, as one vector; undefined views may.
inline bool begins_with_fours(const DeviceInfo& device, std::initializer_list<const TensorView*> data) {
  if (device.cpu && !settings.gpu_forms) return false;
  return std::ranges::all_of(data, [](const TensorView* view) {
    return !view->defined() || view->data.offset % (4 * size_of(view->dtype)) == 0;
  });
}

/// The same of every row of `length` dense elements.
inline bool takes_fours(const DeviceInfo& device, std::int64_t length, std::initializer_list<const TensorView*> data) {
  return length % 4 == 0 && begins_with_fours(device, data);
}

/// Whether CPUs walk along dense rows in vectors (lib/lines.clh): where `run` neighbours fill some, of floats.
inline bool takes_lines(const DeviceInfo& device, std::int64_t run, std::initializer_list<DataType> types) {
  if (!device.cpu || settings.gpu_forms || run < 32) return false;
  return std::ranges::none_of(types, [](DataType type) { return type == DataType::float64; });
}

/// Work-items for `rows` of these, which share them.
inline std::size_t line_groups(const DeviceInfo& device, std::uint64_t rows) {
  return std::size_t(std::min<std::uint64_t>(rows, std::uint64_t(device.compute_units) * 8));
}

}  // namespace dlprim
