// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/dtype.hpp>

#include <string>

namespace dlprim {

/// The name of ONNX's element type when there is no DataType for it, else empty.
std::string unsupported_element_type(std::int64_t number);

/// The DataType that ONNX numbers so. Throws NotImplementedError for strings, 4- and 8-bit floats and the like.
DataType element_type(std::int64_t number);

}  // namespace dlprim
