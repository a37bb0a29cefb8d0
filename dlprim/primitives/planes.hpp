// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>
#include <dlprim/tensor_view.hpp>

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "grid.hpp"
#include "narrow.hpp"

namespace dlprim {

/// Work-items of (N, C, d, h, w) tensors, each with one position (d, h, w) in several channels: the struct of
/// kernels/lib/planes.clh.
struct Planes {
  cl_long z = 1;
  cl_int x = 1, y = 1, batch = 1, channels = 1, blocks = 1, step = 1;

  /// Strides of all tensors start with those of N and C. N joins C where one stride spans both. Throws ValidationError
  /// naming `op` where one of them is 2^31 or more.
  Planes(const char* op, const TensorView& view, std::initializer_list<cl_long*> strides)
      : batch(narrow(op, "a batch", view.sizes[0])), channels(narrow(op, "channels", view.sizes[1])) {
    const std::int64_t both = std::int64_t(batch) * channels;
    bool joins = both <= std::numeric_limits<cl_int>::max() / 2;
    for (const cl_long* s : strides) joins = joins && (channels == 1 || s[0] == s[1] * channels);
    if (!joins || batch == 1) return;
    if (channels == 1)
      for (cl_long* s : strides) s[1] = s[0];
    batch = 1, channels = cl_int(both);
  }

  /// For tensors with these sizes of d, h, w; returns the channels of a work-item, 1 or `most`: several where enough
  /// work-items remain to fill the device.
  int place(const DeviceInfo& device, const cl_int (&size)[3], bool channels_last, int most) {
    const std::int64_t places = std::int64_t(batch) * size[0] * size[1] * size[2];
    const bool fills = device.cpu || places * (channels / most) >= std::int64_t(device.compute_units) * 1024;
    const int least = channels_last ? 16 * most : most;  // neighbours in memory for neighbouring work-items
    const int planes = fills && channels >= least ? most : 1;
    blocks = (channels + planes - 1) / planes, step = channels_last ? blocks : 1;
    x = channels_last ? blocks : size[2], y = channels_last ? size[2] : size[1];
    z = std::int64_t(batch) * size[0] * (channels_last ? size[1] : blocks);
    return planes;
  }

  /// Whether neighbouring work-items read and write neighbours in memory; strides are of n, c, d, h, w.
  static bool dense(bool channels_last, std::initializer_list<const cl_long*> strides) {
    return std::ranges::all_of(strides, [&](const cl_long* s) { return s[channels_last ? 1 : 4] == 1; });
  }

  NDRange range() const { return Grid(x, y, z).range(); }
};

}  // namespace dlprim
