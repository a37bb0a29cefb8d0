// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace pytorch_ocl::ops {

/// One layer in one direction. Undefined biases and, of a GRU, an undefined cell stand for none.
struct RecurrentLayer {
  bool gru, reverse;
  at::Tensor x, state, cell, w_input, w_hidden, b_input, b_hidden;  // x (steps, batch, features), states (batch, width)

  int64_t steps() const { return x.size(0); }
  int64_t step(int64_t i) const { return reverse ? steps() - 1 - i : i; }
  std::vector<at::Tensor> operands() const { return {x, state, cell, w_input, w_hidden, b_input, b_hidden}; }
  static RecurrentLayer from(bool gru, bool reverse, const std::vector<at::Tensor>& v) {
    return {gru, reverse, v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
  }
};

/// Output (steps, batch, width), the last state and the last cell (undefined of a GRU), with their derivatives.
std::vector<at::Tensor> run_layer(const RecurrentLayer& layer);

}  // namespace pytorch_ocl::ops
