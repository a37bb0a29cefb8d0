// SPDX-License-Identifier: MIT
// Activations that products and convolutions apply to their results, by the names that compiled graphs give them.
#pragma once
#include <c10/util/Exception.h>
#include <dlprim/primitives/gemm.hpp>

#include <string_view>
#include <utility>

namespace pytorch_ocl {

inline dlprim::Activation activation_of(const char* op, std::string_view name) {
  using enum dlprim::Activation;
  constexpr std::pair<std::string_view, dlprim::Activation> names[] = {
      {"none", none}, {"relu", relu},           {"gelu", gelu},       {"gelu_tanh", gelu_tanh},    {"relu6", relu6},
      {"silu", silu}, {"hardswish", hardswish}, {"sigmoid", sigmoid}, {"hardsigmoid", hardsigmoid}};
  for (const auto& [known, activation] : names)
    if (known == name) return activation;
  TORCH_CHECK_VALUE(
      false, op,
      ": expected an activation among none, relu, gelu, gelu_tanh, relu6, silu, hardswish, sigmoid and hardsigmoid, ",
      "got ", name);
}

}  // namespace pytorch_ocl
