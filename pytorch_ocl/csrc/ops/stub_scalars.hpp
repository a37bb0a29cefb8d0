// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>

#include <c10/core/Scalar.h>

namespace pytorch_ocl {

/// Whether an extra argument of a dispatch stub can reach a kernel as scalars.
template <class T>
struct IsStubScalar : std::bool_constant<std::is_arithmetic_v<T> || std::is_enum_v<T>> {};
template <>
struct IsStubScalar<c10::Scalar> : std::true_type {};
template <class T>
struct IsStubScalar<std::optional<T>> : IsStubScalar<T> {};

/// An argument as a tuple of scalars: numbers and bools as they are, enums as integers, an optional as
/// (present, value or 0), so that no value stands for absence.
inline std::tuple<c10::Scalar> stub_scalars(const c10::Scalar& value) { return {value}; }

template <class T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
std::tuple<c10::Scalar> stub_scalars(T value) {
  return {c10::Scalar(value)};
}

template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
std::tuple<c10::Scalar> stub_scalars(T value) {
  return {c10::Scalar(static_cast<int64_t>(value))};
}

template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
std::tuple<c10::Scalar> stub_scalars(T value) {
  return {c10::Scalar(static_cast<double>(value))};
}

template <class T, std::enable_if_t<std::is_enum_v<T>, int> = 0>
std::tuple<c10::Scalar> stub_scalars(T value) {
  return {c10::Scalar(static_cast<int64_t>(value))};
}

template <class T>
std::tuple<c10::Scalar, c10::Scalar> stub_scalars(const std::optional<T>& value) {
  return std::tuple_cat(stub_scalars(value.has_value()), stub_scalars(value.value_or(T(0))));
}

/// Calls `run` with the scalars of all arguments in order, as one c10::ArrayRef<c10::Scalar>.
template <class Run, class... Args>
void with_stub_scalars(Run&& run, const Args&... args) {
  static_assert((IsStubScalar<Args>::value && ...),
                "a row serves only stubs whose extra arguments are scalars: "
                "map the stub to null in the family's yaml and register it by hand");
  std::apply([&](const auto&... scalars) { run({scalars...}); }, std::tuple_cat(stub_scalars(args)...));
}

}  // namespace pytorch_ocl
