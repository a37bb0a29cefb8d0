// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/graph.hpp>

#include <set>

namespace dlprim {

/// Finds every node's operator and what inner graphs read from outside. Throws NotImplementedError that lists all nodes
/// that no operator serves.
void resolve(Network& network);

/// Finds where the values that a graph defines are read last, in inner graphs too; `kept` ones stay.
void mark_dead(Graph& graph, const std::set<int>& kept = {});

}  // namespace dlprim
