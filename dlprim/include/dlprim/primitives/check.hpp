// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// Checks that every element of a contiguous floating tensor is within [low, high], without waiting: the queue's next
/// synchronization throws Error with `message` (a string literal) otherwise, as for NaN.
void check_range(Queue& queue, const TensorView& x, float low, float high, const char* message);

}  // namespace dlprim
