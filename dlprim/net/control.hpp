// SPDX-License-Identifier: MIT
// The attributes of If, Loop and Scan, for them and their gradients.
#pragma once
#include <array>

#include "operator.hpp"

namespace dlprim {

struct IfAttributes {
  explicit IfAttributes(const AttributeReader& reader)
      : branches{reader.graph("then_branch"), reader.graph("else_branch")} {}
  std::array<std::shared_ptr<const Graph>, 2> branches;
};

struct LoopAttributes {
  explicit LoopAttributes(const AttributeReader& reader) : body(reader.graph("body")) {}
  std::shared_ptr<const Graph> body;
};

struct ScanAttributes {
  explicit ScanAttributes(const AttributeReader& reader)
      : body(reader.graph("body")), inputs(reader.integer("num_scan_inputs", 0)),
        input_axes(reader.integers("scan_input_axes")), input_directions(reader.integers("scan_input_directions")),
        output_axes(reader.integers("scan_output_axes")), output_directions(reader.integers("scan_output_directions")) {
  }
  std::shared_ptr<const Graph> body;
  std::int64_t inputs;  ///< how many are scanned
  std::vector<std::int64_t> input_axes, input_directions, output_axes, output_directions;
};

}  // namespace dlprim
