// SPDX-License-Identifier: MIT
// Gated products, of which models have one for all tokens or many that share the work.
#pragma once
#include "shape.hpp"
#include "weights.hpp"

namespace dlprim {

/// What two matrices make out of, strided as matrices may be: SiLU(gate) up; GELU(gate) up; g / (1 + exp(-1.702 g)) (u + 1)
/// with the gate up to 7, the other in [-7, 7], where they are clamped. Without `up` what the gate alone makes.
void multiply_gates(Queue& queue, const TensorView& gate, const TensorView& up, const TensorView& out, Gate kind);

/// A mixture of experts: each token takes the `used` that a router scores highest, weighed by the softmax of their scores or,
/// if they are not `normalized`, by their part of the softmax of all.
class Experts {
 public:
  struct Shape {
    std::int64_t count = 0, used = 0, width = 0, inner = 0;
    Gate gate = Gate::silu;
    bool normalized = true;
  };
  struct Tensors {
    const WeightTensor* router;  // [count, width]
    // One of each expert, or one of all: [inner, width] of each, down [width, inner].
    std::vector<const WeightTensor*> gate, up, down;
    // Added to results, [count, rows], and to the router's scores, [count]; or none.
    const WeightTensor *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
    Tensor router_bias = {};
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
  Weights gate_bias_, up_bias_, down_bias_;  // a row for each expert; or undefined
  Tensor router_bias_;
};

}  // namespace dlprim
