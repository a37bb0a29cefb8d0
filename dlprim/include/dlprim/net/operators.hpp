// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace dlprim {

/// An operator that nodes may name.
struct OperatorInfo {
  enum Gradient : unsigned char {
    none,  ///< training through it is refused
    zero,  ///< its results are no smooth function of its inputs
    full,
  };
  std::string domain, type;  ///< domain "" is ONNX's main one, "dlprim" that of JSON networks
  std::string attributes;    ///< that it understands, apart by blanks; "name=a|b" with the texts it takes
  Gradient gradient = none;
};

/// All of them, by domain and type.
std::vector<OperatorInfo> supported_operators();

}  // namespace dlprim
