// SPDX-License-Identifier: MIT
// What Pad and CenterCropPad share with their gradients.
#pragma once
#include "operator.hpp"

namespace dlprim {

/// Elements added before and after each dimension; negative ones cut off.
struct Pads {
  std::vector<std::int64_t> before, after;
};

/// The attributes of both.
struct PadAttributes {
  enum Mode : std::uint8_t { constant, edge, reflect, wrap };
  explicit PadAttributes(const AttributeReader& reader);
  bool crops;  ///< CenterCropPad
  Mode mode;
  std::vector<std::int64_t> pads, axes;
  bool has_axes;
  double value;
};

/// What a node of either type asks for with an input of shape `x`. Throws ValidationError.
Pads read_pads(Call& call, const Shape& x);
/// The elements of a row of `size` that stand in the row padded by mode edge, reflect or wrap.
std::vector<std::int64_t> padded_index(Call& call, std::int64_t before, std::int64_t size, std::int64_t after);

}  // namespace dlprim
