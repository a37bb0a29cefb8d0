// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <span>

namespace dlprim {

/// Joins `inputs` along `dim` into `out`. Sizes agree except along dim, where they add up to out's; dtypes are
/// converted to out's. Dense tensors of one dtype and order of dimensions take one launch for every 8 of them, others
/// one each. Throws ValidationError on shapes.
void concat(Queue& queue, const TensorView& out, std::span<const TensorView> inputs, int dim);

}  // namespace dlprim
