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

/// An attribute of `count` integers, or as many times `otherwise` where it is not given. Throws ValidationError.
std::vector<std::int64_t> integer_list(Call& call, const char* name, std::size_t count, std::int64_t otherwise);

/// The primitives' window; its arrays are aligned at the end.
PoolWindow pool_window(const Window& w);
bool dilated(const Window& w);

/// Reads strides, dilations, pads, auto_pad and ceil_mode for an input [N, C, spatial...]. Throws ValidationError.
Window read_window(Call& call, const Shape& x, std::vector<std::int64_t> kernel);
/// The same for a transposed convolution, with output_padding and output_shape.
Window read_transposed_window(Call& call, const Shape& x, std::vector<std::int64_t> kernel);

}  // namespace dlprim
