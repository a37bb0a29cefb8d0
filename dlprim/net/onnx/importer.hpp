// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/graph.hpp>

#include <filesystem>

#include "onnx.pb.h"

namespace dlprim {

/// The network of an ONNX model of so many bytes, functions of the model expanded; `folder` holds external data. Throws
/// ValidationError.
Network import_onnx(const onnx_format::Model& model, std::size_t bytes, const std::filesystem::path& folder);

}  // namespace dlprim
