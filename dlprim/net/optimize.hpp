// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/graph.hpp>

namespace dlprim {

/// Rewrites a prepared network so that it does less work: nodes that nothing needs are dropped, normalization by
/// constants goes into the convolution before it, activations into the product before them.
void optimize(Network& network);

}  // namespace dlprim
