// SPDX-License-Identifier: MIT
// What transformers call the tensors of their models.
#pragma once
#include <string>

#include "shape.hpp"

namespace dlprim {

/// Of a `model_type`; of those that have names with and without a prefix those that the file has.
const TensorNames& folder_names(const std::string& model, const WeightFile& file);

}  // namespace dlprim
