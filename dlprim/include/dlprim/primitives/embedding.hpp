// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

enum class BagMode : std::uint8_t { sum, mean, max };

/// Tensors of embedding_bag. All contiguous; indices [n] and offsets int64, or both int32.
struct EmbeddingBag {
  TensorView weight;   ///< [rows, columns], any floating dtype
  TensorView indices, offsets;
  TensorView sample_weights;  ///< [n], weight's dtype; optional
  TensorView out;      ///< [bags, columns], weight's dtype
  TensorView sizes;    ///< [bags] of the indices' dtype: how many rows went into each bag
  TensorView maxima;   ///< [bags, columns] of the indices' dtype for max: the row of each element; optional
};

/// out[bag] = sum, mean or maximum of the weight's rows named by indices[offsets[bag] .. offsets[bag + 1]), without
/// those that equal `padding`; 0 for empty bags. The last bag ends with the indices. An index out of range is reported
/// at the next synchronization.
void embedding_bag(Queue& queue, const EmbeddingBag& bag, BagMode mode, std::int64_t padding);

}  // namespace dlprim
