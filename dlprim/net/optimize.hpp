// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/graph.hpp>
#include <dlprim/primitives/gemm.hpp>

namespace dlprim {

class Queue;

/// Rewrites a resolved network so that it does less work: what depends on constants alone is computed, nodes that
/// nothing needs are dropped, normalization by constants goes into the convolution before it, biases and activations
/// into the product or sum before them, sums into the convolution before them. What is fused are the attributes
/// "activation" and "residual" (the last input is added), which files cannot give; convolutions and products whose weights
/// are constants get "constant_weights". choose_layouts comes last.
void optimize(Network& network, Queue& queue);

/// Products, sums and moves between DequantizeLinear and QuantizeLinear as operators on bytes (quantized_graph.hpp), on
/// devices that multiply bytes faster than floats.
void fuse_quantized(Network& network, Queue& queue);

/// Gives convolutions whose results are to have their channels side by side on CPUs the attribute "channels_last".
void choose_layouts(Network& network);

/// Computes the nodes that read constants only, or of these those that are constants in themselves.
void fold_constants(Network& network, Queue& queue, bool literals_only = false);

class AttributeReader;
/// The activation that optimize() left in a node.
Activation fused_activation(const AttributeReader& reader);

}  // namespace dlprim
