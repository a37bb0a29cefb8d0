// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/graph.hpp>

namespace dlprim {

/// Makes a network ready to run: finds every node's operator, what inner graphs read from outside, and where values are
/// read last, after optimizing it. Throws NotImplementedError that lists all nodes that no operator serves.
void prepare(Network& network);

}  // namespace dlprim
