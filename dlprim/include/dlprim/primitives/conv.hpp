// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/gemm.hpp>
#include <dlprim/runtime/memory.hpp>

#include <optional>

namespace dlprim {

/// Geometry of a convolution with 1 to 3 spatial dimensions; entry i belongs to spatial dimension i.
struct ConvOptions {
  std::array<std::int64_t, 3> stride{1, 1, 1};
  std::array<std::int64_t, 3> padding{0, 0, 0};  ///< before the first element; what is needed behind follows from sizes
  std::array<std::int64_t, 3> dilation{1, 1, 1};
  std::int64_t groups = 1;
  bool allow_tf32 = false;  ///< as in GemmOptions
};

// x [N, C, spatial...], weights [K, C / groups, kernel...], y [N, K, spatial...], bias [K] or undefined. Tensors have
// one type (not bool), any strides (channels last is served without a copy). Transposed convolution is backward_data
// with x in y's place. All throw ValidationError. What computes them is in docs/gemm.md.

/// y = activation(conv(x, weights) + bias + residual). A residual has y's shape and type and does not overlap
/// y; implicit GEMM adds it in the same pass where it has y's strides. `kept`: a place, empty before the first call, for
/// what is made of weights that are the same in all calls on this queue with that place.
void conv_forward(Queue& queue, const TensorView& x, const TensorView& weights, const TensorView& bias,
                  const TensorView& y, const ConvOptions& options, Activation activation = Activation::none,
                  const TensorView& residual = {}, std::optional<Workspace>* kept = nullptr);

/// Code for pointwise_operation: y0 = activation(x0 + x1).
std::string sum_code(Activation activation);

/// dx = gradient of x for the gradient dy of y, plus `bias` [C] where given (for transposed convolution).
void conv_backward_data(Queue& queue, const TensorView& dy, const TensorView& weights, const TensorView& bias,
                        const TensorView& dx, const ConvOptions& options);

/// dweights = gradient of the weights; dweights must be dense, row-major or channels last.
void conv_backward_weights(Queue& queue, const TensorView& x, const TensorView& dy, const TensorView& dweights,
                           const ConvOptions& options);

/// dbias [K] = sum of dy over images and positions.
void conv_backward_bias(Queue& queue, const TensorView& dy, const TensorView& dbias);

}  // namespace dlprim
