// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/tensor.hpp>

#include <filesystem>

#include "onnx.pb.h"

namespace dlprim {

/// A constant of a file; `folder` holds external data. Throws ValidationError when the data does not fit the shape.
Tensor onnx_tensor(const onnx_format::Tensor& tensor, const std::filesystem::path& folder);
/// The same for a sparse one, made dense.
Tensor onnx_tensor(const onnx_format::SparseTensor& tensor);

}  // namespace dlprim
