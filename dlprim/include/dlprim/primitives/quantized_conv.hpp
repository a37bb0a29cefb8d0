// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/conv.hpp>

namespace dlprim {

/// What bytes stand for in a convolution: x for a number times (x - x_zero), weights for numbers times themselves.
struct QuantizedConv {
  std::int64_t x_zero = 0;  ///< within the limits of x's type; also what lies outside of x
  TensorView bias;          ///< int32 [K], added to the sums, or undefined
  TensorView scale;         ///< float32 [K]: what a sum is multiplied by; undefined for results of int32
  std::int64_t y_zero = 0;  ///< added to the rounded products, for results of bytes
};

/// Whether the device has dot products of bytes (CPUs with AVX512-VNNI whose compiler knows them).
bool has_quantized_conv(const Device& device);
/// Whether quantized_conv takes such weights [K, C / groups, kernel...] there, with up to 128 positions of the kernel:
/// in one group, or groups of whole quads of channels and of four rows or more, or of two rows that fill vectors of 16;
/// or, with one or two spatial dimensions and 49 positions, in as many as channels, 16 at least.
bool has_quantized_conv(const Device& device, std::span<const std::int64_t> weights, std::int64_t groups);

/// y = saturate(rint((conv(x - x_zero, weights) + bias) * scale) + y_zero), ties to even, or for y of float32 the
/// products themselves, and where groups have several channels for y of int32 the sums. x [N, C, spatial...] uint8 or
/// int8, weights [K, C / groups, kernel...] int8, y [N, K, spatial...] uint8, int8, float32 or int32 with its channels
/// side by side, all of sizes above 0; x and weights of any strides, x best with its channels side by side. Sums are
/// exact in 32 bits.
/// `kept`: as in conv_forward, for weights and biases that are the same in all calls with it. Throws ValidationError.
void quantized_conv(Queue& queue, const TensorView& x, const TensorView& weights, const TensorView& y,
                    const ConvOptions& options, const QuantizedConv& quantized,
                    std::optional<Workspace>* kept = nullptr);

}  // namespace dlprim
