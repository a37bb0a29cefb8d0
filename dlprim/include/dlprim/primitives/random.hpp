// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// Where a call stands in the sequence of a generator. Every call below consumes exactly one `offset`: equal seed,
/// offset, sizes and dtype give equal numbers on every device.
struct PhiloxState {
  std::uint64_t seed = 0, offset = 0;
};

/// Distributions with scalar parameters a and b.
enum class Distribution : std::uint8_t {
  uniform,  ///< in [a, b)
  normal,  ///< mean a, standard deviation b
  log_normal,  ///< exp of such a normal
  exponential,  ///< rate a; never 0
  cauchy,  ///< median a, scale b
  geometric,  ///< trials up to the first success of probability a
  bernoulli,  ///< 1 with probability a, else 0
};

/// Fills `out` (contiguous; any dtype but complex, uniform and the like meaningful for floating ones) with numbers from
/// Philox4x32-10. Throws ValidationError when `out` is not contiguous.
void random_fill(Queue& queue, const TensorView& out, Distribution distribution, double a, double b, PhiloxState state);

/// Integers uniform in [base, base + range) as any dtype; range 0 stands for all 2^64.
void random_integers(Queue& queue, const TensorView& out, std::uint64_t range, std::int64_t base, PhiloxState state);

/// 1 with the probability in `probability` (floating, same sizes, contiguous), else 0.
void random_bernoulli(Queue& queue, const TensorView& out, const TensorView& probability, PhiloxState state);

/// Standard gamma of shape `a`; Poisson of rate `a`; binomial of `a` trials with probability `b`. `out`, `a` and `b`
/// are contiguous, of equal size and floating dtype.
void random_gamma(Queue& queue, const TensorView& out, const TensorView& a, PhiloxState state);
void random_poisson(Queue& queue, const TensorView& out, const TensorView& a, PhiloxState state);
void random_binomial(Queue& queue, const TensorView& out, const TensorView& a, const TensorView& b, PhiloxState state);

/// A random permutation of 0 ... numel-1 in `out` (contiguous, any real dtype).
void random_permutation(Queue& queue, const TensorView& out, PhiloxState state);

/// Draws category indices with replacement: `cumulative` (rows, categories) holds running sums of weights (floating),
/// `out` (rows, samples) is int64; both contiguous.
void random_categorical(Queue& queue, const TensorView& cumulative, const TensorView& out, PhiloxState state);

/// out = in * mask / (1 - p), mask (bool) is 1 with probability 1 - p. All contiguous, of equal size; `in` and `out`
/// floating of one dtype, possibly the same memory.
void dropout(Queue& queue, const TensorView& in, const TensorView& out, const TensorView& mask, double p,
             PhiloxState state);

}  // namespace dlprim
