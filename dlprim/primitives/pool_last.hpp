// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/pool.hpp>

namespace dlprim {

/// Whether max_last takes images [N, C, H, W] of bytes, their channels side by side, on a CPU.
bool has_max_last(const Device& device, const TensorView& in, const TensorView& out, const PoolWindow& window);
/// The maximum of each window, without indices.
void max_last(Queue& queue, const TensorView& in, const TensorView& out, const PoolWindow& window);

}  // namespace dlprim
