// SPDX-License-Identifier: MIT
// Weights within larger ones.
#pragma once
#include <dlprim/primitives/copy.hpp>

#include "shape.hpp"

namespace dlprim::conv_cores {

// Dense weights that are zero but for `inside`, where those given stand; inside and given have the same sizes. In channels
// last where those given are, or where that is asked for.
struct EnlargedWeights {
  Workspace memory;
  TensorView view, inside, given;

  EnlargedWeights(Queue& queue, const TensorView& weights, TensorView enlarged, bool channels_last)
      : memory(queue, std::size_t(enlarged.numel()) * size_of(weights.dtype)),
        view(memory.data(), weights.dtype, enlarged.shape()), given(weights) {
    if (channels_last) lay_channels_last(view);
    inside = view;
  }
  void fill(Queue& queue) const {
    const std::uint32_t zero = 0;
    if (inside.numel() < view.numel())
      queue.fill(view.data, &zero, size_of(view.dtype), std::size_t(view.numel()) * size_of(view.dtype));
    copy(queue, inside, given);
  }
  void take_back(Queue& queue) const { copy(queue, given, inside); }
};

}  // namespace dlprim::conv_cores
