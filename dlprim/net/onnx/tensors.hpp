// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/tensor.hpp>

#include "external.hpp"

namespace dlprim {

/// Whether ONNX's element type of this number is an integer of 4 bits, int4 or uint4.
bool is_four_bits(std::int64_t type);

/// A constant of a file; integers of 4 bits become int8 and uint8. Throws ValidationError when the data does not fit the shape.
Tensor onnx_tensor(const onnx_format::Tensor& tensor, ExternalData& external);
/// The same for a sparse one, made dense: its size is the file's promise, which counts against the budget.
Tensor onnx_tensor(const onnx_format::SparseTensor& tensor, Budget& budget);

}  // namespace dlprim
