// SPDX-License-Identifier: MIT
#include <dlprim/scalar.hpp>

#include <cmath>
#include <cstring>
#include <limits>

namespace dlprim {

namespace {
template <class T>
std::size_t put(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
  return sizeof value;
}
}  // namespace

std::int64_t Scalar::integer() const noexcept {
  if (kind_ == Kind::integer) return integer_;
  constexpr double limit = 9223372036854775808.0;
  if (std::isnan(real_)) return 0;
  if (real_ >= limit) return std::numeric_limits<std::int64_t>::max();
  return real_ < -limit ? std::numeric_limits<std::int64_t>::min() : std::int64_t(real_);
}

std::size_t Scalar::store(DataType type, void* to) const noexcept {
  switch (compute_type(type)) {
    case DataType::float64: return put(to, real());
    case DataType::float32: return put(to, float(real()));
    case DataType::complex64: {
      const std::size_t half = put(to, float(real()));
      return half + put(static_cast<char*>(to) + half, float(imaginary_));
    }
    case DataType::complex128: {
      const std::size_t half = put(to, real());
      return half + put(static_cast<char*>(to) + half, imaginary_);
    }
    case DataType::boolean: return put(to, std::uint8_t(!is_zero()));
    default: {
      const std::int64_t value = integer();
      std::memcpy(to, &value, size_of(type));  // the low bytes: OpenCL hosts are little endian
      return size_of(type);
    }
  }
}

}  // namespace dlprim
