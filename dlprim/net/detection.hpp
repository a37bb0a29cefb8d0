// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/roi.hpp>

#include "operator.hpp"

namespace dlprim {

/// What a RoiAlign or MaxRoiPool node asks for.
RegionPooling read_region_pooling(Call& call);

}  // namespace dlprim
