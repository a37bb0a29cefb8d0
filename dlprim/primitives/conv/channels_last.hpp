// SPDX-License-Identifier: MIT
// Copies with the channels side by side.
#pragma once
#include <dlprim/primitives/copy.hpp>

#include "shape.hpp"

namespace dlprim::conv_cores {

enum class Copy { none, empty, filled };

// A tensor, or a copy of it with the channels side by side where one is wanted and they are not.
class ChannelsLast {
 public:
  ChannelsLast(Queue& queue, const TensorView& tensor, Copy wanted) : view_(tensor) {
    if (wanted == Copy::none || tensor.stride(1) == 1) return;
    memory_ = Workspace(queue, std::size_t(tensor.numel()) * size_of(tensor.dtype));
    view_.data = memory_.data();
    lay_channels_last(view_);
    if (wanted == Copy::filled) copy(queue, view_, tensor);
  }
  const TensorView& view() const noexcept { return view_; }
  bool is_copy() const noexcept { return memory_.data().memory != nullptr; }

 private:
  Workspace memory_;
  TensorView view_;
};

}  // namespace dlprim::conv_cores
