// SPDX-License-Identifier: MIT
#include "element_type.hpp"

#include <dlprim/error.hpp>

#include <iterator>

namespace dlprim {

namespace {
constexpr const char* element_types[] = {
    "undefined", "float32",    "uint8",      "int8",         "uint16",         "int16",      "int32",
    "int64",     "string",     "bool",       "float16",      "float64",        "uint32",     "uint64",
    "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "uint4",     "int4",       "float4e2m1", "float8e8m0",   "uint2",          "int2"};
}  // namespace

std::string unsupported_element_type(std::int64_t type) {
  if (type < 0 || type >= std::int64_t(std::size(element_types))) return "number " + std::to_string(type);
  return type == 8 || type > 16 ? element_types[type] : "";
}

DataType element_type(std::int64_t type) {
  if (type <= 0) throw ValidationError("[onnx] unknown element type " + std::to_string(type));
  if (const std::string name = unsupported_element_type(type); !name.empty())
    throw NotImplementedError("[onnx] element type " + name + " is not supported");
  return parse_data_type(element_types[type]);
}

}  // namespace dlprim
