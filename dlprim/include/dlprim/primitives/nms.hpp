// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// Greedy non-maximum suppression. `boxes` [n, 4] (contiguous, a floating dtype) holds x1, y1, x2, y2, the boxes with the
/// best scores first; keep [n] (bool, contiguous) receives whether a box overlaps no better one that is kept, that is,
/// whether their intersection over union is at most `threshold`. Boxes without area, or with NaN, suppress none like
/// themselves. Nothing waits for the device. Throws ValidationError.
void non_max_suppression(Queue& queue, const TensorView& boxes, const TensorView& keep, double threshold);

}  // namespace dlprim
