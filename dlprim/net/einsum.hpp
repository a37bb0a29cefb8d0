// SPDX-License-Identifier: MIT
#pragma once
#include "operator.hpp"

namespace dlprim {

/// An Einsum equation with a letter for each dimension of each term; control characters stand for those of an ellipsis,
/// aligned at its end.
struct Equation {
  std::vector<std::string> terms;
  std::string result;
};

/// Reads the node's equation for inputs of these shapes. Throws ValidationError.
Equation read_equation(Call& call, const std::vector<Shape>& shapes);

}  // namespace dlprim
