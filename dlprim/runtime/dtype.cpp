// SPDX-License-Identifier: MIT
#include <dlprim/dtype.hpp>
#include <dlprim/error.hpp>

namespace dlprim {

namespace {
struct Row {
  const char *tag, *name, *value;  // value: the OpenCL C type kernels compute in
  std::uint8_t bytes;
  char kind;  // f floating, i signed, u unsigned, b boolean, c complex
};
constexpr Row rows[data_type_count] = {
    {"f64", "float64", "double", 8, 'f'},
    {"f32", "float32", "float", 4, 'f'},
    {"f16", "float16", "float", 2, 'f'},
    {"bf16", "bfloat16", "float", 2, 'f'},
    {"i64", "int64", "long", 8, 'i'},
    {"i32", "int32", "int", 4, 'i'},
    {"i16", "int16", "short", 2, 'i'},
    {"i8", "int8", "char", 1, 'i'},
    {"u64", "uint64", "ulong", 8, 'u'},
    {"u32", "uint32", "uint", 4, 'u'},
    {"u16", "uint16", "ushort", 2, 'u'},
    {"u8", "uint8", "uchar", 1, 'u'},
    {"b8", "bool", "uchar", 1, 'b'},
    {"c64", "complex64", "float2", 8, 'c'},
    {"c128", "complex128", "double2", 16, 'c'},
};
const Row& row(DataType type) { return rows[int(type)]; }
}  // namespace

std::size_t size_of(DataType type) noexcept { return row(type).bytes; }
const char* tag(DataType type) noexcept { return row(type).tag; }
const char* name(DataType type) noexcept { return row(type).name; }

DataType parse_data_type(std::string_view text) {
  for (int i = 0; i < data_type_count; i++)
    if (text == rows[i].name) return DataType(i);
  if (text == "float") return DataType::float32;
  if (text == "double") return DataType::float64;
  if (text == "half") return DataType::float16;
  if (text == "int") return DataType::int32;
  throw ValidationError("[data type] expected a name such as float32, got '" + std::string(text) + "'");
}

bool is_floating(DataType type) noexcept { return row(type).kind == 'f'; }
bool is_complex(DataType type) noexcept { return row(type).kind == 'c'; }
bool is_integral(DataType type) noexcept { return row(type).kind == 'i' || row(type).kind == 'u'; }
bool is_signed(DataType type) noexcept { return row(type).kind != 'u' && row(type).kind != 'b'; }

DataType compute_type(DataType type) noexcept {
  return is_floating(type) && size_of(type) < 4 ? DataType::float32 : type;
}

DataType accumulate_type(DataType type) noexcept {
  if (type == DataType::boolean || (is_integral(type) && type != DataType::uint64)) return DataType::int64;
  return compute_type(type);
}

std::string cl_cast(DataType from, DataType to, const std::string& expression) {
  from = compute_type(from), to = compute_type(to);
  const std::string x = "(" + expression + ")";
  if (from == to) return x;
  const std::string value = row(to).value;
  if (to == DataType::boolean)
    return is_complex(from) ? "((uchar)(" + x + ".x != 0 || " + x + ".y != 0))" : "((uchar)(" + x + " != 0))";
  if (is_complex(to)) {
    const std::string part = to == DataType::complex64 ? "float" : "double";
    return is_complex(from) ? "convert_" + value + x : "((" + value + ")((" + part + ")" + x + ", 0))";
  }
  const std::string real = is_complex(from) ? x + ".x" : x;
  // Out of range, C leaves the conversion undefined; through long it wraps as it does on the CPU.
  const bool narrow = !is_floating(to) && size_of(to) < 8 && (is_floating(from) || is_complex(from));
  return "((" + value + ")" + (narrow ? "(long)" : "") + real + ")";
}

}  // namespace dlprim
