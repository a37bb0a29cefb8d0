// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/upsample.hpp>

#include "operator.hpp"

namespace dlprim {

/// What a node of type Interpolation asks for.
Resampling read_resampling(const Call& call);

}  // namespace dlprim
