// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/graph.hpp>

#include <set>

namespace dlprim {

/// Finds every node's operator and what inner graphs read from outside. Throws NotImplementedError that lists all nodes
/// that no operator serves.
void resolve(Network& network);

/// Keeps the attributes of all nodes with them, inner graphs included, as their operators read them. Comes after
/// everything that changes attributes. Throws ValidationError.
void parse_attributes(Graph& graph);

/// Finds where the values that a graph defines are read last, in inner graphs too; `kept` ones stay.
void mark_dead(Graph& graph, const std::set<int>& kept = {});

}  // namespace dlprim
