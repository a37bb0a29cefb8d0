// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/upsample.hpp>

#include "operator.hpp"

namespace dlprim {

/// What a node of type Interpolation asks for.
struct InterpolationAttributes {
  explicit InterpolationAttributes(const AttributeReader& reader);
  Resampling resampling;
  std::vector<std::int64_t> sizes;
  std::vector<double> scales;
};

}  // namespace dlprim
