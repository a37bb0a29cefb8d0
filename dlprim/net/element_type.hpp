// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/dtype.hpp>

namespace dlprim {

/// The DataType that ONNX numbers so. Throws NotImplementedError for strings, 4- and 8-bit floats and the like.
DataType element_type(std::int64_t number);

}  // namespace dlprim
