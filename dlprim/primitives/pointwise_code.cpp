// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pointwise_code.hpp>

#include <algorithm>
#include <cctype>

namespace dlprim {

namespace {

// What is arithmetic and comparisons, and words before brackets that call nothing.
constexpr std::string_view simple[] = {
    "T",      "real_t", "pair_t",    "ROUNDED",     "sign_of",  "negative", "nan_max", "nan_min", "replace_non_finite",
    "c_mul",  "c_conj", "c_nonzero", "c_equal",     "if",       "for",      "while",   "return",  "switch",
    "sizeof", "relu",   "relu6",     "HARDSIGMOID", "HARDSWISH"};
constexpr std::string_view of_loop_math[] = {
    "exp",  "erf",       "tanh",         "logistic",      "LOGISTIC",          "SILU",
    "GELU", "GELU_TANH", "elu_backward", "gelu_backward", "gelu_tanh_backward"};

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

bool calls_builtins(std::string_view expression, bool loop_math) {
  auto letter = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  for (std::size_t bracket = 0; (bracket = expression.find('(', bracket)) != expression.npos; bracket++) {
    std::size_t end = bracket;
    while (end > 0 && expression[end - 1] == ' ') end--;
    std::size_t begin = end;
    while (begin > 0 && letter(expression[begin - 1])) begin--;
    const std::string_view word = expression.substr(begin, end - begin);
    if (!word.empty() && !contains(simple, word) && !(loop_math && contains(of_loop_math, word))) return true;
  }
  return false;
}

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
