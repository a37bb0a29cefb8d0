// SPDX-License-Identifier: MIT
// Roots of unity and what Bluestein's algorithm multiplies with, computed in double, rounded once, kept on the device.
#pragma once
#include <dlprim/runtime/constant_memory.hpp>

#include <complex>
#include <cstdint>
#include <memory>

#include "shape.hpp"

namespace dlprim::fft_detail {

/// A table of complex numbers on a device; null where there is none.
using Table = std::shared_ptr<const ConstantMemory>;

/// exp(-2 pi i m / n), both parts rounded once.
std::complex<double> root_of_unity(std::uint64_t m, std::uint64_t n);

/// What a pass of several stages multiplies with: for each but the first, which combines `radix` times `done` numbers, the
/// powers 1, 2, 4 ... below the radix of exp(-2 pi i k / (radix done)), those of all k below `done` side by side.
Table stage_roots(Device& device, const PassShape& shape, bool doubles);
std::size_t stage_root_count(std::uint32_t radix, std::uint32_t done);

/// exp(-2 pi i m / n) for all m below n; where n is large of m below 2^turn_bits(n), and behind them of the multiples of that.
Table turns(Device& device, std::uint64_t n, bool doubles);
int turn_bits(std::uint64_t n);  ///< 32 where there is one table

/// Bluestein 1970: c[j] = exp(-pi i j^2 / n) of j below n.
Table chirp(Device& device, std::uint64_t n, bool doubles);
/// The transform of the conjugate chirp, wrapped around in `padded` numbers, over `padded`.
Table chirp_spectrum(Device& device, std::uint64_t n, std::uint64_t padded, bool doubles);

}  // namespace dlprim::fft_detail
