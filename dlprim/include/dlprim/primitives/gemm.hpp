// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/queue.hpp>

#include <complex>
#include <optional>
#include <span>

namespace dlprim {

/// What is applied to each result before it is stored.
enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh, relu6, silu, hardswish, sigmoid, hardsigmoid };

struct GemmOptions {
  std::complex<double> alpha = 1;  ///< the imaginary part matters for complex types only
  std::complex<double> beta = 0;
  TensorView addend;  ///< of c's shape, strides may be 0; not read when beta is 0. May be `c` itself.
  Activation activation = Activation::none;
  /// Operands of float32 may be rounded to tf32 (10 bits of mantissa) where that is faster.
  bool allow_tf32 = false;
  /// A place, empty before the first call, for what is made of a b that is the same in all calls on this queue with it.
  std::optional<Workspace>* kept = nullptr;
};

/// c = activation(alpha * a b + beta * addend) for matrices a [M, K], b [K, N], c [M, N], or for batches of them
/// [B, M, K], [B, K, N], [B, M, N]. Any strides (0 broadcasts an operand), sizes of 0 included; c must not overlap a
/// or b. All of one type, of any DataType, but that c (and the addend) may be int32 where a and b are int8 or uint8, and
/// float32 where they are 16-bit floats; sums are in float32 for 16-bit floats, exact for integers, and bool means
/// "any". Throws ValidationError.
void gemm(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& c, const GemmOptions& options = {});

/// c[i] = a b[i] for matrices a [M, K], b[i] [K, N_i], c[i] [M, N_i]: as many calls of gemm, but one launch for up to four
/// products of few rows where that is faster. Throws ValidationError.
void gemm(Queue& queue, const TensorView& a, std::span<const TensorView> b, std::span<const TensorView> c,
          bool allow_tf32 = false);

/// c = activation(a gate) * (a up), elementwise, for matrices a [M, K], gate and up [K, N], c [M, N] of one floating type
/// (SwiGLU, Shazeer 2020, with silu). One launch for products of few rows where that is faster. Throws ValidationError.
void gated_gemm(Queue& queue, const TensorView& a, const TensorView& gate, const TensorView& up, const TensorView& c,
                Activation activation, bool allow_tf32 = false);

/// Products of groups that follow one another, group g ending before ends[g] (int32, rising, contiguous): of rows of a
/// [M, K], each with its matrix of b [G, K, N], to c [M, N]; or of k, where b is a matrix [K, N], to c [G, M, N]. Rows of c
/// that belong to no group are left as they are. Ends that fall, or lie outside, make empty groups. False, and nothing
/// runs, where the device has no kernel that reads the ends itself (Hopper's has one for 16-bit floats whose rows begin
/// at multiples of 16 bytes): the host may then read them and call gemm. Throws ValidationError.
bool grouped_gemm(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& ends, const TensorView& c);

}  // namespace dlprim
