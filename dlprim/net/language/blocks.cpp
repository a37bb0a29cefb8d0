// SPDX-License-Identifier: MIT
#include "blocks.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace dlprim {

float half_to_float(std::uint16_t half) noexcept {
  const int exponent = (half >> 10) & 31, mantissa = half & 1023;
  float value = exponent == 0    ? std::ldexp(float(mantissa), -24)
                : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                 : std::ldexp(float(mantissa + 1024), exponent - 25);
  return half >> 15 ? -value : value;
}

std::uint16_t float_to_half(float value) noexcept {
  const auto sign = std::uint16_t(std::signbit(value) ? 0x8000 : 0);
  const float v = std::fabs(value);
  if (std::isnan(v)) return sign | 0x7e00;
  if (v >= 65520.f) return sign | 0x7c00;
  if (v < 0x1p-14f) return std::uint16_t(sign | int(std::nearbyint(std::ldexp(v, 24))));
  int exponent;
  const float mantissa = std::frexp(v, &exponent);
  return std::uint16_t(sign + ((exponent + 14) << 10) + int(std::nearbyint(std::ldexp(mantissa, 11))) - 1024);
}

const PackedLayout* packed_layout(WeightType type) noexcept {
  static constexpr PackedLayout q8_0{8, 32, 0, false}, q4_0{4, 32, 8, false}, q4_k{4, 32, 0, true},
      q6_k{8, 16, 0, false};
  switch (type) {
    case WeightType::q8_0: return &q8_0;
    case WeightType::q4_0: return &q4_0;
    case WeightType::q4_k: return &q4_k;
    case WeightType::q6_k: return &q6_k;
    default: return nullptr;
  }
}

namespace {

float half_at(const std::uint8_t* from) { return half_to_float(std::uint16_t(from[0] | from[1] << 8)); }

// Two halves of 16 numbers each in the low and the high bits of 16 bytes become neighbours.
void interleave(const std::uint8_t* from, std::uint8_t* to) {
  for (int i = 0; i < 8; i++) {
    to[i] = std::uint8_t((from[2 * i] & 15) | (from[2 * i + 1] & 15) << 4);
    to[8 + i] = std::uint8_t(from[2 * i] >> 4 | (from[2 * i + 1] & 0xf0));
  }
}

// A scale, then 32 bytes.
void unpack_q8_0(const std::uint8_t* from, std::uint8_t* data, float* scales) {
  *scales = half_at(from);
  std::memcpy(data, from + 2, 32);
}

// A scale, then 16 bytes: number i in the low bits of byte i, number 16 + i in its high bits.
void unpack_q4_0(const std::uint8_t* from, std::uint8_t* data, float* scales) {
  *scales = half_at(from);
  interleave(from + 2, data);
}

// Two factors, eight scales and minima of six bits in 12 bytes, then four times 32 bytes: group 2 i in the low bits,
// group 2 i + 1 in the high bits.
void unpack_q4_k(const std::uint8_t* from, std::uint8_t* data, float* scales, float* zeros) {
  const float factor = half_at(from), least = half_at(from + 2);
  const std::uint8_t *six = from + 4, *numbers = from + 16;
  for (int g = 0; g < 8; g++) {
    const int high = g - 4;
    const int scale = g < 4 ? six[g] & 63 : (six[g + 4] & 15) | (six[high] >> 6) << 4;
    const int minimum = g < 4 ? six[g + 4] & 63 : six[g + 4] >> 4 | (six[g] >> 6) << 4;
    scales[g] = factor * float(scale), zeros[g] = -least * float(minimum);
    const std::uint8_t* bytes = numbers + g / 2 * 32;
    const int shift = g % 2 * 4;
    for (int i = 0; i < 16; i++)
      data[16 * g + i] = std::uint8_t((bytes[2 * i] >> shift & 15) | (bytes[2 * i + 1] >> shift & 15) << 4);
  }
}

// 128 bytes of low and 64 of high bits, 16 scales of groups of 16, a factor. Each half of 128 numbers has its own 64
// and 32 bytes.
void unpack_q6_k(const std::uint8_t* from, std::uint8_t* data, float* scales) {
  const std::uint8_t *own = from + 192, *low = from, *high = from + 128;
  const float factor = half_at(from + 208);
  for (int g = 0; g < 16; g++) scales[g] = factor * float(std::int8_t(own[g]));
  for (int half = 0; half < 2; half++, low += 64, high += 32)
    for (int i = 0; i < 128; i++) {
      const int bits = low[i % 64] >> (i / 64 * 4) & 15, above = high[i % 32] >> (i / 32 * 2) & 3;
      data[128 * half + i] = std::uint8_t(std::int8_t((bits | above << 4) - 32));
    }
}

}  // namespace

void unpack_blocks(WeightType type, const std::byte* from, std::int64_t blocks, std::uint8_t* data, float* scales,
                   float* zeros) {
  const WeightLayout& layout = layout_of(type);
  const PackedLayout& packed = *packed_layout(type);
  const std::int64_t groups = layout.elements / packed.group, bytes = layout.elements * packed.bits / 8;
  const auto* block = reinterpret_cast<const std::uint8_t*>(from);
  for (std::int64_t i = 0; i < blocks; i++, block += layout.bytes, data += bytes, scales += groups) {
    switch (type) {
      case WeightType::q8_0: unpack_q8_0(block, data, scales); break;
      case WeightType::q4_0: unpack_q4_0(block, data, scales); break;
      case WeightType::q4_k: unpack_q4_k(block, data, scales, zeros + i * groups); break;
      default: unpack_q6_k(block, data, scales);
    }
  }
}

}  // namespace dlprim
