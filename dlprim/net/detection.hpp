// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/roi.hpp>

#include "operator.hpp"

namespace dlprim {

/// What a RoiAlign or MaxRoiPool node asks for.
struct RegionAttributes {
  explicit RegionAttributes(const AttributeReader& reader);
  RegionPooling pooling;
  std::vector<std::int64_t> size;  ///< height and width of the result
};

}  // namespace dlprim
