// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/primitives/small_floats.hpp>

#include <array>
#include <string>

#include "check.hpp"

namespace dlprim {

namespace {

// A kind of number, in the order of SmallFloat; e8m0fnu, the last, has none.
struct Row {
  int mantissa, bias;
  std::uint32_t too_large;  // the least float32, as bits, that becomes `overflow`
  int overflow, nan;        // of numbers that are too large, of NaN; the sign is added where `signed_nan` holds
  bool signed_nan, infinite;
};
constexpr Row rows[] = {
    {3, 7, 1087u << 20, 0x7f, 0x7f, true, false},  {2, 15, 143u << 23, 0x7c, 0x7f, true, true},
    {3, 8, 0x87u << 23, 0x80, 0x80, false, false}, {2, 16, 0x8fu << 23, 0x80, 0x80, false, false},
    {3, 7, 1087u << 20, 0x7e, 0x7f, true, false},
};
constexpr int kinds = int(std::size(rows)) + 1;
static_assert(int(SmallFloat::e8m0fnu) == kinds - 1);

std::string hex(std::uint32_t bits) { return std::to_string(bits) + "u"; }

// `v`, a float, from `b`, a byte.
std::string decoding(SmallFloat kind) {
  if (kind == SmallFloat::e8m0fnu)
    return "const float v = as_float(b == 255u ? 0x7fc00000u : b == 0u ? 0x400000u : b << 23);";
  const Row& row = rows[int(kind)];
  const std::string shift = std::to_string(23 - row.mantissa), mantissa = std::to_string(row.mantissa);
  const std::string least = "0x1p" + std::to_string(1 - row.bias - row.mantissa) + "f";  // the unit of small numbers
  // What is below the least normal number is an integer times that unit.
  std::string text = "const uint m = b & 127u, s = (b & 128u) << 24;"
                     "float v = m >> " +
                     mantissa + " == 0u ? (float)m * " + least + " : as_float((m << " + shift + ") + " +
                     hex(std::uint32_t(127 - row.bias) << 23) +
                     ");"
                     "v = as_float(as_uint(v) | s);";
  if (!row.signed_nan) return text + "v = b == 128u ? NAN : v;";
  if (row.infinite) return text + "v = m > 124u ? NAN : m == 124u ? as_float(0x7f800000u | s) : v;";
  return text + "v = m == 127u ? NAN : v;";
}

// y0 = the byte of `v`.
std::string encoding(SmallFloat kind) {
  if (kind == SmallFloat::e8m0fnu)
    return "const uint u = as_uint(v), e = u >> 23 & 255u;"
           "y0 = e == 255u ? 255 : e + ((u & 0x400000u) != 0u && ((u & 0x3fffffu) != 0u || e > 0u) ? 1 : 0);";
  const Row& row = rows[int(kind)];
  const std::string shift = std::to_string(23 - row.mantissa);
  const auto least_normal = std::uint32_t(128 - row.bias) << 23;
  // Adding this number leaves a small one rounded in the lowest bits.
  const auto rounder = std::uint32_t(128 - row.bias + 23 - row.mantissa) << 23;
  const auto moved = (std::uint32_t(row.bias - 127) << 23) + ((1u << (22 - row.mantissa)) - 1);
  return "const uint u = as_uint(v) & 0x7fffffffu, sign = as_uint(v) >> 24 & 128u;"
         "uint r;"
         "if (u >= " +
         hex(row.too_large) + ") r = (u > 0x7f800000u ? " + std::to_string(row.nan) +
         "u : " + std::to_string(row.overflow) +
         "u) | sign;"
         "else {"
         "  if (u < " +
         hex(least_normal) + ") r = as_uint(as_float(u) + as_float(" + hex(rounder) + ")) - " + hex(rounder) +
         ";"
         "  else r = (u + " +
         hex(moved) + " + (u >> " + shift + " & 1u)) >> " + shift +
         ";"
         // Rounding may lead past the largest number.
         "  r = min(r, " +
         std::to_string(row.infinite || !row.signed_nan ? 255 : row.overflow) + "u);" +
         "  r = " + (row.signed_nan ? "r | sign" : "r == 0u ? 0u : r | sign") +
         ";"
         "}"
         "y0 = r;";
}

std::string statements(int from, int to) {
  std::string text = from < kinds ? "const uint b = (uint)x0;" + decoding(SmallFloat(from)) : "const float v = x0;";
  return text + (to < kinds ? encoding(SmallFloat(to)) : "y0 = v;");
}

}  // namespace

void convert(Queue& queue, const TensorView& to, std::optional<SmallFloat> to_kind, const TensorView& from,
             std::optional<SmallFloat> from_kind) {
  DLPRIM_EXPECT(!to_kind || to.dtype == DataType::uint8, "convert", "bytes to write, got ", to.dtype);
  DLPRIM_EXPECT(!from_kind || from.dtype == DataType::uint8, "convert", "bytes to read, got ", from.dtype);
  static const auto texts = [] {
    std::array<std::array<std::string, kinds + 1>, kinds + 1> all;
    for (int i = 0; i <= kinds; i++)
      for (int j = 0; j <= kinds; j++) all[std::size_t(i)][std::size_t(j)] = statements(i, j);
    return all;
  }();
  const auto index = [](std::optional<SmallFloat> kind) { return std::size_t(kind ? int(*kind) : kinds); };
  pointwise_operation(queue, {from}, {to}, {}, texts[index(from_kind)][index(to_kind)], DataType::float32);
}

}  // namespace dlprim
