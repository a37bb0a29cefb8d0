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

/// The equation as the node gives it.
struct EinsumAttributes {
  explicit EinsumAttributes(const AttributeReader& reader) : equation(reader.text("equation", "")) {}
  std::string equation;
};

/// Reads the equation of a node with EinsumAttributes for inputs of these shapes. Throws ValidationError.
Equation read_equation(Call& call, const std::vector<Shape>& shapes);
/// Computes it. Any characters may be its letters. Throws ValidationError.
Tensor compute(Call& call, const Equation& equation, const std::vector<Tensor>& inputs);

}  // namespace dlprim
