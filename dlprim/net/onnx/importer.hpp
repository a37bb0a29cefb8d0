// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/graph.hpp>

#include <filesystem>

#include "onnx.pb.h"

namespace dlprim {

/// The network of an ONNX model, functions of the model expanded. Throws ValidationError.
Network import_onnx(const onnx_format::Model& model, const std::filesystem::path& folder);

}  // namespace dlprim
