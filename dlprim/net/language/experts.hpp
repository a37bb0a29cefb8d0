// SPDX-License-Identifier: MIT
// Gated products, of which models have one for all tokens or many that share the work.
#pragma once
#include "weights.hpp"

namespace dlprim {

/// out [m, n] = activation(gate) * up, the activation SiLU or GELU's tanh form. Strided as matrices may be.
void multiply_gates(Queue& queue, const TensorView& gate, const TensorView& up, const TensorView& out, bool gelu);

/// A mixture of experts: each token takes the `used` that a router scores highest, weighed by the softmax of their scores or,
/// if they are not `normalized`, by their part of the softmax of all.
class Experts {
 public:
  struct Shape {
    std::int64_t count = 0, used = 0, width = 0, inner = 0;
    bool gelu = false, normalized = true;
  };
  struct Tensors {
    const WeightTensor* router;  // [count, width]
    // One of each expert, or one of all: [inner, width] of each, down [width, inner].
    std::vector<const WeightTensor*> gate, up, down;
  };

  Experts() = default;
  Experts(Queue& queue, const WeightFile& file, const Tensors& tensors, const Shape& shape, DataType dtype);
  bool defined() const noexcept { return shape_.count > 0; }
  std::size_t bytes() const noexcept;
  /// What the experts give for x [m, width], contiguous. The host waits for the choice where there are several tokens.
  Tensor run(Queue& queue, const Tensor& x) const;

 private:
  struct Choice {
    Tensor experts, shares;  // [m, used], int64 and the type of x
  };
  Choice choose(Queue& queue, const Tensor& x) const;
  Tensor run_one(Queue& queue, const Tensor& x, const Choice& choice) const;
  Tensor run_several(Queue& queue, const Tensor& x, const Choice& choice) const;

  Shape shape_;
  Weights router_, gate_, up_, down_;
};

}  // namespace dlprim
