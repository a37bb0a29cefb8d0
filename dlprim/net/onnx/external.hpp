// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <vector>

#include "../checked.hpp"
#include "onnx.pb.h"

namespace dlprim {

/// Files beside a model that hold elements of its tensors. Only regular files of the model's folder and those below it
/// are read, wherever links lead.
class ExternalData {
 public:
  /// An empty folder is the current one.
  ExternalData(const std::filesystem::path& folder, Budget& budget) : folder_(folder), budget_(budget) {}
  /// The `bytes` bytes of a tensor that lie in a file. Throws ValidationError. What tensors read again and again counts
  /// against the budget.
  std::vector<std::byte> read(const onnx_format::Tensor& tensor, std::size_t bytes);

 private:
  std::filesystem::path find(const onnx_format::Tensor& tensor, const std::string& location) const;
  std::filesystem::path folder_;
  Budget& budget_;
  std::map<std::filesystem::path, std::uint64_t> unread_;
};

}  // namespace dlprim
