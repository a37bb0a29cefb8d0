// SPDX-License-Identifier: MIT
// Checks of arguments that cost nothing while they hold.
#pragma once
#include <dlprim/error.hpp>
#include <dlprim/runtime/device.hpp>
#include <dlprim/tensor_view.hpp>

#include <concepts>
#include <string>

namespace dlprim {

/// A dtype and sizes, for messages: "float32 [2, 3]".
std::string text(const TensorView& tensor);

/// Throws NotImplementedError where the device has no arithmetic of that dtype.
inline void expect_precision(const char* operation, const DeviceInfo& device, DataType type) {
  if ((type == DataType::float64 || type == DataType::complex128) && !device.fp64) [[unlikely]]
    throw NotImplementedError("[" + std::string(operation) + "] float64 is not available on " + device.name +
                              "; use float32 instead");
}

namespace detail {

inline const std::string& part(const std::string& text) { return text; }
inline std::string part(const char* text) { return text; }
inline std::string part(DataType type) { return name(type); }
inline std::string part(const TensorView& tensor) { return text(tensor); }
template <class Number>
  requires(std::integral<Number> || std::floating_point<Number>)
std::string part(Number number) {
  return std::to_string(number);
}

template <class... Parts>
[[noreturn]] void fail(const char* operation, const Parts&... parts) {
  throw ValidationError((("[" + std::string(operation) + "] expected ") + ... + part(parts)));
}

}  // namespace detail
}  // namespace dlprim

/// Throws ValidationError "[operation] expected ..." where the condition does not hold. The rest of the message, one or
/// more texts, numbers, dtypes and tensors, is evaluated and put together only then.
#define DLPRIM_EXPECT(condition, operation, ...)      \
  do {                                                \
    if (!(condition)) [[unlikely]]                    \
      ::dlprim::detail::fail(operation, __VA_ARGS__); \
  } while (false)
