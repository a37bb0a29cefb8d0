// SPDX-License-Identifier: MIT
// Gradients of a layer or RMS norm's parameters on GPUs.
#pragma once
#include <dlprim/primitives/norm.hpp>
#include <dlprim/runtime/memory.hpp>

namespace dlprim {

/// `parts` partial sums of the gradients of weight and bias, [2, parts, channels], or [1, ...] without a mean.
class PartialSums {
 public:
  PartialSums(Queue& queue, std::int64_t parts, const GroupShape& shape, DataType x);
  BufferRef data() const noexcept { return memory_.data(); }
  void add_up(Queue& queue, const TensorView& grad_weight, const TensorView& grad_bias) const;

 private:
  std::int64_t parts_, channels_;
  bool center_;
  DataType type_;
  Workspace memory_;
};

/// Contiguous rows x channels; statistics [rows], `mean` ignored without a mean.
struct NormColumns {
  const TensorView &gy, &x, &mean, &rstd;
};

/// Why a device takes general reductions instead; nullptr: norm_columns.
const char* decline_norm_columns(const DeviceInfo& device, const GroupShape& shape);

void norm_columns(Queue& queue, const GroupShape& shape, const TensorView& grad_weight, const TensorView& grad_bias,
                  const NormColumns& data);

}  // namespace dlprim
