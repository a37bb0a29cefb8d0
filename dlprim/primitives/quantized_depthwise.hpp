// SPDX-License-Identifier: MIT
// quantized_conv of as many groups as channels.
#pragma once
#include <dlprim/primitives/quantized_conv.hpp>

namespace dlprim {

/// Whether the kernel takes such weights.
bool has_quantized_depthwise(std::span<const std::int64_t> weights);
/// Of arguments that quantized_conv checked.
void run_depthwise(Queue& queue, const TensorView& x, const TensorView& weights, const TensorView& y,
                   const ConvOptions& options, const QuantizedConv& quantized, std::optional<Workspace>& kept);

}  // namespace dlprim
