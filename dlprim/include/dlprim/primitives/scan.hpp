// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

enum class ScanId { sum, prod, logsumexp, max, min };

/// y[i] = x[0] op ... op x[i] along `dim`. Both contiguous, of equal sizes and dtype; max and min are of real ones, keep
/// NaN; given `indices` (int64, contiguous, of equal sizes), they also write where the result was last found.
/// Long rows take one sweep where work-items exchange by shuffles, else three passes: totals of chunks, their scan, and
/// the scan of every chunk after its predecessors.
void scan(Queue& queue, ScanId id, const TensorView& y, const TensorView& x, int dim, const TensorView& indices = {});

}  // namespace dlprim
