// SPDX-License-Identifier: MIT
// The kernels' definitions, which specialise them for a length and what is fused with it.
#pragma once
#include <dlprim/runtime/program.hpp>

#include "shape.hpp"

namespace dlprim::fft_detail {

/// What a kernel of kernels/fft/pass.cl is made for: fields are its definitions.
struct PassKey {
  std::uint32_t length = 1;
  std::uint16_t lanes = 1, lines = 1;
  std::uint8_t split = 0, columns = 0, staged_in = 0, staged_out = 0, mixed = 0, dims = 1, load = 0, store = 0,
               swap_in = 0, swap_out = 0, chirp_in = 0, chirp_out = 0, chirp_both = 0, spectrum_in = 0, twist = 0,
               part = 0, unit_pairs = 0, unit_in = 0, unit_out = 0, limited = 0, in_place = 0, wide = 0, doubles = 0,
               turn_bits = 32, twist_bits = 32, unused[3] = {};
};

struct UntangleKey {
  std::uint8_t dims = 1, store = 0, wide = 0, doubles = 0, turn_bits = 32;
};

Kernel& pass_kernel(Device& device, const PassKey& key, const PassShape& shape);
Kernel& untangle_kernel(Device& device, const UntangleKey& key);

}  // namespace dlprim::fft_detail
