// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <span>

namespace dlprim {

/// The sign of the exponent: forward exp(-2 pi i n k / N), inverse exp(+2 pi i n k / N).
enum class FftDirection { forward, inverse };

/// y = scale * the discrete Fourier transform of x along `dims` (distinct, at least one), of any lengths, not normalized
/// otherwise. x and y are strided; x is not changed and may be y where both are complex. By dtype and size:
/// - complex -> complex: equal sizes.
/// - real -> complex, forward: y has all N numbers along the last of `dims`, or only the first N / 2 + 1, of which the
///   others are the conjugates.
/// - complex -> real, inverse: y has N numbers along the last of `dims` and x N / 2 + 1. Imaginary parts that symmetry
///   makes zero are not read.
/// float32 with complex64, or float64 with complex128 where the device has it. Errors grow with the logarithm of N.
/// docs/fft.md has the algorithms. Throws ValidationError.
void fft(Queue& queue, const TensorView& y, const TensorView& x, std::span<const int> dims, FftDirection direction,
         double scale = 1);

}  // namespace dlprim
