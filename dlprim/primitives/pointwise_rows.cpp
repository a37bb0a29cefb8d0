// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pointwise_types.hpp>

#include <unordered_map>

namespace dlprim {

namespace {

enum class Served : std::uint8_t { any, floats, wide, numbers, integers, bits };

// The second column of the tables.
struct Types {
  ResultType result;
  Served served;
};
constexpr Types same{ResultType::same, Served::any}, truth{ResultType::truth, Served::any},
    real{ResultType::real, Served::any}, pair{ResultType::pair, Served::any}, floats{ResultType::same, Served::floats},
    wide{ResultType::same, Served::wide}, numbers{ResultType::same, Served::numbers},
    integers{ResultType::same, Served::integers}, bits{ResultType::same, Served::bits};

constexpr Served served[] = {
#define ROW(name, types, expression, complex_expression) types.served,
#include <dlprim/primitives/pointwise_table.inc>
#include <dlprim/primitives/special_table.inc>
#undef ROW
};

constexpr PointwiseRow rows[] = {
#define ROW(name, types, expression, complex_expression) {#name, types.result, expression, complex_expression, false},
#include <dlprim/primitives/pointwise_table.inc>
#undef ROW
#define ROW(name, types, expression, complex_expression) {#name, types.result, expression, complex_expression, true},
#include <dlprim/primitives/special_table.inc>
#undef ROW
};
}  // namespace

bool serves(PointwiseId id, DataType compute) noexcept {
  if (is_complex(compute) && !*pointwise_row(id).complex_expression) return false;
  const bool floating = is_floating(compute) || is_complex(compute), boolean = compute == DataType::boolean;
  switch (served[int(id)]) {
    case Served::floats: return floating;
    case Served::wide: return floating && size_of(compute) >= 4;
    case Served::numbers: return !boolean;
    case Served::integers: return !floating && !boolean;
    case Served::bits: return !floating;
    default: return true;
  }
}

int pointwise_row_count() noexcept { return int(std::size(rows)); }

const PointwiseRow& pointwise_row(PointwiseId id) noexcept { return rows[int(id)]; }

std::optional<PointwiseId> find_pointwise(std::string_view name) noexcept {
  static const std::unordered_map<std::string_view, PointwiseId> names = [] {
    std::unordered_map<std::string_view, PointwiseId> result;
    for (const PointwiseRow& row : rows) result.emplace(row.name, PointwiseId(&row - rows));
    return result;
  }();
  const auto it = names.find(name);
  return it == names.end() ? std::nullopt : std::optional(it->second);
}

DataType promote(DataType a, DataType b) noexcept {
  if (a == b) return a;
  if (is_complex(a) || is_complex(b)) {
    const bool wide =
        a == DataType::complex128 || b == DataType::complex128 || a == DataType::float64 || b == DataType::float64;
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
