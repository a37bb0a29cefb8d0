// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/pool.hpp>

#include "operator.hpp"

namespace dlprim {

/// The geometry that Conv, ConvTranspose and the pools share: one entry for each spatial dimension.
struct Window {
  std::vector<std::int64_t> kernel, stride, dilation, before, after;
  std::vector<std::int64_t> out;  ///< sizes of the result
  int dims() const noexcept { return int(kernel.size()); }
};

/// The attributes that say so; lists are empty when they are not given.
struct WindowAttributes {
  enum Padding : std::uint8_t { listed, valid, same_upper, same_lower };
  explicit WindowAttributes(const AttributeReader& reader);
  std::vector<std::int64_t> kernel, strides, dilations, pads, output_padding, output_shape;
  Padding padding;
  bool ceil;
};

/// The attribute `name` of `count` integers, or as many times `otherwise` where it is empty. Throws ValidationError.
std::vector<std::int64_t> integer_list(const Call& call, const char* name, const std::vector<std::int64_t>& values,
                                       std::size_t count, std::int64_t otherwise);

/// The primitives' window; its arrays are aligned at the end.
PoolWindow pool_window(const Window& w);
bool dilated(const Window& w);

/// For an input [N, C, spatial...]. Throws ValidationError.
Window read_window(const Call& call, const WindowAttributes& attributes, const Shape& x,
                   std::vector<std::int64_t> kernel);
/// The same for a transposed convolution, with output_padding and output_shape.
Window read_transposed_window(const Call& call, const WindowAttributes& attributes, const Shape& x,
                              std::vector<std::int64_t> kernel);

}  // namespace dlprim
