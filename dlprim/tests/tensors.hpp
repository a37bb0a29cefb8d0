// SPDX-License-Identifier: MIT
// Tensors of every dtype on the device under test, filled from and read to the host as doubles.
#pragma once
#include <bit>
#include <cmath>

#include "testing.hpp"

namespace dlprim::testing {

inline bool supports(DataType type) {
  return (type != DataType::float64 && type != DataType::complex128) || queue().device().info().fp64;
}

inline double half_to_double(std::uint16_t h) {
  const int sign = h >> 15, exponent = (h >> 10) & 31, mantissa = h & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                  : std::ldexp(mantissa + 1024, exponent - 25);
  return sign ? -value : value;
}

inline std::uint16_t double_to_half(double v) {
  const std::uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  v = std::fabs(v);
  if (std::isnan(v)) return sign | 0x7e00;
  if (v >= 65520) return sign | 0x7c00;
  if (v < 0x1p-14) return std::uint16_t(sign | int(std::nearbyint(std::ldexp(v, 24))));
  int exponent;
  const double mantissa = std::frexp(v, &exponent);
  return std::uint16_t(sign + ((exponent + 14) << 10) + int(std::nearbyint(std::ldexp(mantissa, 11))) - 1024);
}

/// Calls `visit` with a zero of the C++ type of a dtype that is neither complex nor a 16-bit float.
template <class Visit>
decltype(auto) with_zero(DataType type, Visit&& visit) {
  switch (type) {
    case DataType::float64: return visit(double());
    case DataType::float32: return visit(float());
    case DataType::int64: return visit(std::int64_t());
    case DataType::int32: return visit(std::int32_t());
    case DataType::int16: return visit(std::int16_t());
    case DataType::int8: return visit(std::int8_t());
    case DataType::uint64: return visit(std::uint64_t());
    case DataType::uint32: return visit(std::uint32_t());
    case DataType::uint16: return visit(std::uint16_t());
    default: return visit(std::uint8_t());
  }
}

/// Host elements <-> double for every dtype that is not complex.
inline double load(DataType type, const void* data, std::size_t i) {
  const auto* bits = static_cast<const std::uint16_t*>(data);
  if (type == DataType::float16) return half_to_double(bits[i]);
  if (type == DataType::bfloat16) return std::bit_cast<float>(std::uint32_t(bits[i]) << 16);
  return with_zero(type, [&](auto zero) { return double(static_cast<const decltype(zero)*>(data)[i]); });
}

inline void store(DataType type, void* data, std::size_t i, double v) {
  auto* bits = static_cast<std::uint16_t*>(data);
  if (type == DataType::float16) {
    bits[i] = double_to_half(v);
  } else if (type == DataType::bfloat16) {
    const auto word = std::bit_cast<std::uint32_t>(float(v));
    bits[i] = std::isnan(v) ? 0x7fc0 : std::uint16_t((word + 0x7fff + ((word >> 16) & 1)) >> 16);
  } else if (type == DataType::boolean) {
    static_cast<std::uint8_t*>(data)[i] = std::uint8_t(v) != 0;
  } else {
    with_zero(type, [&](auto zero) { static_cast<decltype(zero)*>(data)[i] = decltype(zero)(v); });
  }
}

/// The value `v` as `type` stores it.
inline double rounded(DataType type, double v) {
  char element[16];
  store(type, element, 0, v);
  return load(type, element, 0);
}

/// A tensor that owns its memory.
class DeviceTensor {
 public:
  DeviceTensor(DataType type, std::vector<std::int64_t> sizes)
      : sizes_(std::move(sizes)), view_({}, type, std::span<const std::int64_t>(sizes_)) {
    memory_ = Workspace(queue(), std::max<std::size_t>(1, bytes()));
    view_.data = memory_.data();
  }
  DeviceTensor(DataType type, std::vector<std::int64_t> sizes, const std::vector<double>& values)
      : DeviceTensor(type, std::move(sizes)) {
    write(values);
  }

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }
  std::size_t numel() const { return std::size_t(view_.numel()); }

  /// Elements in memory order.
  void write(const std::vector<double>& values) {
    std::vector<char> host(bytes());
    for (std::size_t i = 0; i < numel(); i++) store(view_.dtype, host.data(), i, values.at(i));
    queue().write(view_.data, host.data(), host.size(), true);
  }
  std::vector<double> read() const {
    std::vector<char> host(bytes());
    queue().read(host.data(), view_.data, host.size(), true);
    queue().finish();
    std::vector<double> values(numel());
    for (std::size_t i = 0; i < numel(); i++) values[i] = load(view_.dtype, host.data(), i);
    return values;
  }
  /// Lays the memory out as N, spatial..., C: sizes stay N, C, spatial...
  DeviceTensor& channels_last() {
    std::int64_t stride = view_.sizes[1];
    view_.strides[1] = 1;
    for (int d = view_.dims - 1; d >= 2; d--) view_.strides[d] = stride, stride *= view_.sizes[d];
    view_.strides[0] = stride;
    return *this;
  }

 private:
  std::size_t bytes() const { return numel() * size_of(view_.dtype); }
  std::vector<std::int64_t> sizes_;
  TensorView view_;
  Workspace memory_;
};

/// Reproducible values in [low, high).
inline std::vector<double> random_values(std::size_t count, double low = -1, double high = 1, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  std::vector<double> values(count);
  for (double& v : values) v = distribution(engine);
  return values;
}

/// Expects |actual - expected| <= tolerance * (1 + |expected|) everywhere.
inline void expect_close(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  int reported = 0;
  for (std::size_t i = 0; i < actual.size() && reported < 3; i++) {
    if (std::isnan(expected[i]) ? std::isnan(actual[i])
                                : actual[i] == expected[i] ||
                                      std::fabs(actual[i] - expected[i]) <= tolerance * (1 + std::fabs(expected[i])))
      continue;
    reported++;
    ADD_FAILURE() << "element " << i << ": expected " << expected[i] << ", got " << actual[i];
  }
}

/// Relative tolerance of results stored as `type`.
inline double tolerance(DataType type) {
  return type == DataType::float64    ? 1e-12
         : type == DataType::float16  ? 2e-3
         : type == DataType::bfloat16 ? 1.6e-2
                                      : 2e-5;
}

}  // namespace dlprim::testing
