// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/graph.hpp>

#include <span>
#include <string>

namespace dlprim {

/// A network in an ONNX file: operator sets 7 and newer.
class ONNXModel : public ModelBase {
 public:
  /// Reads a file; data in external files is looked for beside it. Throws ValidationError for files that are no valid
  /// ONNX model.
  void load(const std::string& path);
  /// The same from memory; `folder` holds external data.
  void load_bytes(std::span<const std::byte> bytes, const std::string& folder = "");

  const Network& network() const override { return network_; }
  /// Fixes sizes that are open: by the name that the model gives them, or the first dimension of every input.
  void set_dynamic_axis(const std::string& name, std::int64_t size);
  void set_batch(std::int64_t size);

 private:
  Network network_;
};

}  // namespace dlprim
