// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <span>

namespace dlprim {

/// A state of an optimizer in bytes: element i is table[bytes[i]] * scales[i / block].
struct ByteState {
  TensorView bytes;   ///< uint8, contiguous, one for each element of the parameter
  TensorView scales;  ///< float32, contiguous, one for each block
  TensorView table;   ///< 256 float32, contiguous, ascending
};

enum class ByteOptimizer : std::uint8_t { adam, ademamix, momentum, rmsprop, lion, adagrad };

/// Factors of a step; each optimizer takes those that its definition names. Weight decay is decoupled (W. Loshchilov,
/// F. Hutter, 2019) but for momentum, rmsprop and adagrad, which add it to the gradient.
struct ByteOptimizerStep {
  double lr = 0, beta1 = 0, beta2 = 0, beta3 = 0, alpha = 0, eps = 0, weight_decay = 0, gradient_scale = 1;
  std::int64_t number = 1;  ///< of the step, from 1 on
};

/// One launch: changes `parameter` and its states by `gradient`. Both are contiguous and floating, not float64; `states`
/// are two for adam (means, squares), three for ademamix (fast and slow means, squares), else one. `block` elements, a
/// multiple of 64 up to 4096, share a scale. Throws ValidationError.
void step_of_bytes(Queue& queue, ByteOptimizer optimizer, const TensorView& parameter, const TensorView& gradient,
                   std::span<const ByteState> states, std::int64_t block, const ByteOptimizerStep& step);

}  // namespace dlprim
