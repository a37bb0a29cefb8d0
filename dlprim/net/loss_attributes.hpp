// SPDX-License-Identifier: MIT
// What NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss are told, forward and backward.
#pragma once
#include <limits>
#include <string>

#include "operator.hpp"

namespace dlprim {

struct LossAttributes {
  explicit LossAttributes(const AttributeReader& reader)
      : ignore_index(reader.integer("ignore_index", std::numeric_limits<std::int64_t>::min())),
        reduction(reader.text("reduction", "mean")) {}
  std::int64_t ignore_index;
  std::string reduction;
};

}  // namespace dlprim
