// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/tensor.hpp>

#include "external.hpp"

namespace dlprim {

/// A constant of a file. Throws ValidationError when the data does not fit the shape.
Tensor onnx_tensor(const onnx_format::Tensor& tensor, ExternalData& external);
/// The same for a sparse one, made dense: its size is the file's promise, which counts against the budget.
Tensor onnx_tensor(const onnx_format::SparseTensor& tensor, Budget& budget);

}  // namespace dlprim
