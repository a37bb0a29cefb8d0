// SPDX-License-Identifier: MIT
#include <dlprim/net/operators.hpp>

#include "gradient.hpp"

namespace dlprim {

std::vector<OperatorInfo> supported_operators() {
  std::vector<OperatorInfo> result;
  for (const auto& [key, implementation] : Registry::get().all()) {
    if (key.first.starts_with("dlprim.")) continue;  // forms that training and optimize() put in others' place
    Node node;
    node.domain = key.first, node.type = key.second, node.implementation = &implementation;
    const Gradient* gradient = GradientRegistry::get().find(node);
    result.push_back({key.first, key.second, implementation.attributes,
                      !gradient            ? OperatorInfo::none
                      : gradient->function ? OperatorInfo::full
                                           : OperatorInfo::zero});
  }
  return result;
}

}  // namespace dlprim
