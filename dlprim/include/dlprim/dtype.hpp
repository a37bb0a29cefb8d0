// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dlprim {

/// Element types of tensors; the closed list that kernels know (dlprim/kernels/lib/types.clh).
enum class DataType : std::uint8_t {
  float64,
  float32,
  float16,
  bfloat16,
  int64,
  int32,
  int16,
  int8,
  uint64,
  uint32,
  uint16,
  uint8,
  boolean,
  complex64,
  complex128,
};
inline constexpr int data_type_count = 15;

/// Bytes of one element.
std::size_t size_of(DataType type) noexcept;
/// Tag used in kernel sources and cache keys: f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 b8 c64 c128.
const char* tag(DataType type) noexcept;
/// Full name: "float32", "bfloat16", "int64", "bool", ...
const char* name(DataType type) noexcept;
/// Parses a full name or one of the aliases float, double, half, int, bool. Throws ValidationError.
DataType parse_data_type(std::string_view text);

bool is_floating(DataType type) noexcept;  ///< float64, float32, float16, bfloat16
bool is_complex(DataType type) noexcept;
bool is_integral(DataType type) noexcept;  ///< integers, not boolean
bool is_signed(DataType type) noexcept;

/// Type in which kernels compute on elements of `type`: float32 for float16 and bfloat16, else itself.
DataType compute_type(DataType type) noexcept;
/// Type in which sums of `type` are accumulated: float32 for 16-bit floats, int64 for integers and bool.
DataType accumulate_type(DataType type) noexcept;

/// OpenCL C expression converting `expression`, a value of `from`'s compute type, to `to`'s compute type.
std::string cl_cast(DataType from, DataType to, const std::string& expression);

}  // namespace dlprim
