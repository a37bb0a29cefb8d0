// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "onnx.pb.h"

namespace dlprim {

/// The nodes of a graph, each behind those whose results it or its inner graphs read, else as they are in the file: some
/// tools write them in another order. Those of a cycle stay where they are.
std::vector<int> node_order(const onnx_format::Graph& graph);

}  // namespace dlprim
