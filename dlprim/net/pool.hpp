// SPDX-License-Identifier: MIT
// What pools share with their gradients: sums over windows, tap by tap, where a primitive does not do it.
#pragma once
#include <functional>

#include "window.hpp"

namespace dlprim {

/// The attributes of pools.
struct PoolAttributes {
  explicit PoolAttributes(const AttributeReader& reader)
      : window(reader), storage_order(reader.integer("storage_order", 0)),
        count_include_pad(reader.integer("count_include_pad", 0)), p(reader.number("p", 2)) {}
  WindowAttributes window;
  bool storage_order, count_include_pad;
  double p;  ///< the exponent of an LpPool
};

/// The window with room after the input for the last window too, where ceil_mode lets it reach beyond the padding.
Window with_room(const Shape& x, Window w);
/// x with the window's padding around it.
Tensor padded(Queue& queue, const Tensor& x, const Window& w);
/// Calls a function with each tap's elements of a padded input, as many as there are windows.
void for_each_tap(const Tensor& padded, const Window& w, const std::function<void(const Tensor&)>& function);
/// How many elements each window averages.
Tensor window_counts(Queue& queue, DataType type, const Shape& x, const Window& w, bool count_padding);
/// What MaxUnpool makes of an input of shape `x` before output_shape widens it. Throws ValidationError.
Shape unpooled_shape(const Call& call, const WindowAttributes& attributes, const Shape& x);

}  // namespace dlprim
