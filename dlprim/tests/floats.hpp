// SPDX-License-Identifier: MIT
// Elements of any real type on the device, with their values on the host as double.
#pragma once
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include <dlprim/runtime/environment.hpp>

#include "testing.hpp"

namespace dlprim::testing {

/// Sets an environment variable for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { set(value); }
  ~Variable() { set(nullptr); }
  Variable(const Variable&) = delete;

 private:
  void set(const char* value) {
#ifdef _WIN32
    _putenv_s(name_, value ? value : "");  // empty: removed
#else
    value ? setenv(name_, value, 1) : unsetenv(name_);
#endif
    environment::reread();
  }
  const char* name_;
};

/// Unit roundoff of storing a result.
inline double epsilon(DataType type) {
  return type == DataType::float16 ? 5e-4 : type == DataType::bfloat16 ? 4e-3 : 0;
}

inline std::vector<DataType> floating_types() {
  std::vector<DataType> types{DataType::float32, DataType::float16, DataType::bfloat16};
  if (device().info().fp64) types.push_back(DataType::float64);
  return types;
}

inline std::uint16_t half_bits(double value) {  // exact for the values used here, rounds to even otherwise
  const _Float16 h = _Float16(value);
  std::uint16_t bits;
  std::memcpy(&bits, &h, 2);
  return bits;
}

inline std::uint64_t encode(DataType type, double value) {
  std::uint64_t bits = 0;
  if (type == DataType::float64) std::memcpy(&bits, &value, 8);
  else if (type == DataType::float16) bits = half_bits(value);
  else if (type == DataType::float32 || type == DataType::bfloat16) {
    const float f = float(value);
    std::uint32_t u;
    std::memcpy(&u, &f, 4);
    bits = type == DataType::float32 ? u : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  } else bits = std::uint64_t(std::int64_t(value));
  return bits;
}

inline double decode(DataType type, const std::byte* bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes, size_of(type));
  if (type == DataType::float64) {
    double d;
    std::memcpy(&d, &bits, 8);
    return d;
  }
  if (type == DataType::float16) {
    const auto u = std::uint16_t(bits);
    _Float16 h;
    std::memcpy(&h, &u, 2);
    return double(h);
  }
  if (type == DataType::float32 || type == DataType::bfloat16) {
    const std::uint32_t u = std::uint32_t(type == DataType::float32 ? bits : bits << 16);
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  }
  const int shift = int(64 - 8 * size_of(type));
  return is_signed(type) ? double(std::int64_t(bits << shift) >> shift) : double(bits);
}

/// Random elements: [-1, 1) for floating types, 0 to 4 otherwise.
class Elements {
 public:
  Elements(DataType type, std::size_t size, unsigned seed)
      : type_(type), size_(size), bytes_(size * size_of(type)),
        memory_(queue(), std::max<std::size_t>(bytes_.size(), 16)) {
    const auto values = random_floats(size, seed);
    for (std::size_t i = 0; i < size; i++) {
      const double value = is_floating(type) ? double(values[i]) : std::floor(2 * values[i] + 2);
      const std::uint64_t bits = encode(type, value);
      std::memcpy(bytes_.data() + i * size_of(type), &bits, size_of(type));
    }
    if (size) queue().write(data(), bytes_.data(), bytes_.size(), true);
  }
  DataType type() const { return type_; }
  BufferRef data() const { return memory_.data(); }
  double host(std::size_t i) const { return decode(type_, bytes_.data() + i * size_of(type_)); }
  std::vector<double> read() const {
    std::vector<std::byte> bytes(bytes_.size());
    if (size_) queue().read(bytes.data(), data(), bytes.size(), true);
    std::vector<double> values(size_);
    for (std::size_t i = 0; i < size_; i++) values[i] = decode(type_, bytes.data() + i * size_of(type_));
    return values;
  }

 private:
  DataType type_;
  std::size_t size_;
  std::vector<std::byte> bytes_;
  Workspace memory_;
};

}  // namespace dlprim::testing
