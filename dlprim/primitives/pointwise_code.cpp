// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pointwise_code.hpp>

namespace dlprim {

// In a scope of their own, so that operands may be called x0 themselves.
std::string assign_row(PointwiseId id, std::string_view result, std::span<const std::string> inputs,
                       std::span<const std::string> scalars) {
  std::string outer, inner;
  auto name_all = [&](std::span<const std::string> operands, char letter) {
    for (std::size_t i = 0; i < operands.size(); i++) {
      const std::string name = letter + std::to_string(i);
      outer += "const T given_" + name + " = " + operands[i] + "; ";
      inner += "const T " + name + " = given_" + name + "; ";
    }
  };
  name_all(inputs, 'x'), name_all(scalars, 'w');
  std::string text = "{ T row_result; { " + outer + "{ " + inner + "row_result = (";
  text += pointwise_row(id).expression;
  return text + "); } } " + std::string(result) + " = row_result; }";
}

void define_compute(KernelSource& source, DataType compute) {
  source.define("COMPUTE", tag(compute));
  source.define("COMPUTE_FLOATING", is_floating(compute)).define("COMPUTE_INTEGER", is_integral(compute));
  source.define("COMPUTE_SIGNED", is_signed(compute)).define("COMPUTE_BOOL", compute == DataType::boolean);
  source.define("COMPUTE_COMPLEX", is_complex(compute)).define("COMPUTE_NARROW", compute_type(compute) != compute);
  source.define("COMPUTE_DOUBLE", compute == DataType::float64 || compute == DataType::complex128);
}

}  // namespace dlprim
