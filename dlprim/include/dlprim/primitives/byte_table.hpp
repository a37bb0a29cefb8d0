// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// y[i] = table[x[i]], where bytes of x count from 0 to 255 whatever their type: x and y uint8 or int8 that lie alike
/// in one block without gaps, table 256 contiguous elements of y's type. Throws ValidationError.
void look_up_bytes(Queue& queue, const TensorView& x, const TensorView& table, const TensorView& y);

/// y = saturate(rint((x - zeros[0]) (gate - zeros[1]) factor) + y_zero): x and y [N, C, spatial...], gate [N, C, 1...],
/// uint8 or int8, all with their channels side by side and without gaps, 16 channels at least. On CPUs only. Throws
/// ValidationError.
struct GatedBytes {
  float zeros[2]{}, factor = 1, y_zero = 0;
};
bool can_gate_bytes(const Device& device, const TensorView& x, const TensorView& gate, const TensorView& y);
void gate_bytes(Queue& queue, const TensorView& x, const TensorView& gate, const TensorView& y,
                const GatedBytes& options);

}  // namespace dlprim
