// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pointwise.hpp>


namespace dlprim {

namespace {
constexpr PointwiseRow rows[] = {
#define ROW(name, result, expression, complex_expression) \
  {#name, ResultType::result, expression, complex_expression, false},
#include "pointwise_table.inc"
#undef ROW
#define ROW(name, result, expression, complex_expression) \
  {#name, ResultType::result, expression, complex_expression, true},
#include "special_table.inc"
#undef ROW
};
}  // namespace

int pointwise_row_count() noexcept { return int(std::size(rows)); }

const PointwiseRow& pointwise_row(PointwiseId id) noexcept { return rows[int(id)]; }

std::optional<PointwiseId> find_pointwise(std::string_view name) noexcept {
  for (const PointwiseRow& row : rows)
    if (name == row.name) return PointwiseId(&row - rows);
  return {};
}

DataType promote(DataType a, DataType b) noexcept {
  if (a == b) return a;
  if (is_complex(a) || is_complex(b)) {
    const bool wide = a == DataType::complex128 || b == DataType::complex128 || a == DataType::float64 ||
                      b == DataType::float64;
    return wide ? DataType::complex128 : DataType::complex64;
  }
  if (is_floating(a) || is_floating(b)) {
    if (!is_floating(a)) return b;
    if (!is_floating(b)) return a;
    if (size_of(a) == size_of(b)) return DataType::float32;  // float16 with bfloat16
    return size_of(a) > size_of(b) ? a : b;
  }
  if (a == DataType::boolean) return b;
  if (b == DataType::boolean) return a;
  if (is_signed(a) == is_signed(b)) return size_of(a) > size_of(b) ? a : b;
  const DataType with_sign = is_signed(a) ? a : b, without = is_signed(a) ? b : a;
  if (size_of(with_sign) > size_of(without)) return with_sign;
  switch (size_of(without)) {
    case 1: return DataType::int16;
    case 2: return DataType::int32;
    case 4: return DataType::int64;
    default: return DataType::float32;
  }
}

}  // namespace dlprim
