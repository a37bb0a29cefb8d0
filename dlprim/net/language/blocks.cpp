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

namespace {

using Bytes = const std::uint8_t*;

float half_at(Bytes from) { return half_to_float(std::uint16_t(from[0] | from[1] << 8)); }

// What a block becomes: numbers, of which those of four bits are packed behind, and its groups' scales and zeros.
struct Unpacked {
  std::uint8_t numbers[256];
  float *scales, *zeros;

  // Numbers in the low and in the high bits of `count` bytes.
  void set_nibbles(Bytes from, int low, int high, int count) {
    for (int i = 0; i < count; i++) numbers[low + i] = from[i] & 15, numbers[high + i] = from[i] >> 4;
  }
  // All 32 of a block of 16 bytes.
  void set_nibbles(Bytes from, int first = 0) { set_nibbles(from, first, first + 16, 16); }
  // Of 256 numbers, four groups of 64 of 32 bytes each.
  void set_nibbles_k(Bytes from) {
    for (int g = 0; g < 256; g += 64) set_nibbles(from + g / 2, g, g + 32, 32);
  }
  // Adds two bits of each of 256 numbers: 64 bytes, each half of 128 numbers in 32, its quarters one above the other.
  void add_two_bits(Bytes from, int shift) {
    for (int g = 0; g < 8; g++)
      for (int i = 0; i < 32; i++) numbers[32 * g + i] |= (from[g / 4 * 32 + i] >> (g % 4 * 2) & 3) << shift;
  }
  // Adds a bit of each of 256 numbers: groups of 32 one above the other in 32 bytes.
  void add_bits(Bytes from, int shift) {
    for (int g = 0; g < 8; g++)
      for (int i = 0; i < 32; i++) numbers[32 * g + i] |= (from[i] >> g & 1) << shift;
  }
  // Adds the fifth bit of each of 32 numbers.
  void add_fifth_bits(Bytes from) {
    const std::uint32_t bits = from[0] | from[1] << 8 | from[2] << 16 | std::uint32_t(from[3]) << 24;
    for (int i = 0; i < 32; i++) numbers[i] |= std::uint8_t((bits >> i & 1) << 4);
  }
  void subtract(int count, int middle) {
    for (int i = 0; i < count; i++) numbers[i] = std::uint8_t(numbers[i] - middle);
  }
  void clear() { std::memset(numbers, 0, sizeof numbers); }
};

// A scale, then 32 bytes.
void unpack_q8_0(Bytes from, Unpacked& to) {
  to.scales[0] = half_at(from);
  std::memcpy(to.numbers, from + 2, 32);
}

// A scale, then 16 bytes.
void unpack_q4_0(Bytes from, Unpacked& to) {
  to.scales[0] = half_at(from);
  to.set_nibbles(from + 2);
}

// The same with a number to add behind the scale.
void unpack_q4_1(Bytes from, Unpacked& to) {
  to.scales[0] = half_at(from), to.zeros[0] = half_at(from + 2);
  to.set_nibbles(from + 4);
}

// Fifth bits in four bytes before the others.
void unpack_q5_0(Bytes from, Unpacked& to) {
  to.scales[0] = half_at(from);
  to.set_nibbles(from + 6), to.add_fifth_bits(from + 2), to.subtract(32, 16);
}

void unpack_q5_1(Bytes from, Unpacked& to) {
  to.scales[0] = half_at(from), to.zeros[0] = half_at(from + 2);
  to.set_nibbles(from + 8), to.add_fifth_bits(from + 4);
}

// Scales in the low, minima in the high bits of 16 bytes, of groups of 16; 64 bytes of numbers; a factor for each.
void unpack_q2_k(Bytes from, Unpacked& to) {
  const float factor = half_at(from + 80), least = half_at(from + 82);
  for (int g = 0; g < 16; g++) to.scales[g] = factor * float(from[g] & 15), to.zeros[g] = -least * float(from[g] >> 4);
  to.clear(), to.add_two_bits(from + 16, 0);
}

// The third bits in 32 bytes, 64 bytes of lower ones, 16 scales of six bits in 12 bytes (four lower bits in the first
// eight, two higher ones in the others), a factor.
void unpack_q3_k(Bytes from, Unpacked& to) {
  const Bytes six = from + 96;
  const float factor = half_at(from + 108);
  for (int g = 0; g < 16; g++) {
    const int scale = (six[g % 8] >> (g / 8 * 4) & 15) | (six[8 + g % 4] >> (g / 4 * 2) & 3) << 4;
    to.scales[g] = factor * float(scale - 32);
  }
  to.clear(), to.add_two_bits(from + 32, 0), to.add_bits(from, 2), to.subtract(256, 4);
}

// Two factors, eight scales and minima of six bits in 12 bytes.
void unpack_scales_k(Bytes from, Unpacked& to) {
  const float factor = half_at(from), least = half_at(from + 2);
  const Bytes six = from + 4;
  for (int g = 0; g < 8; g++) {
    const int high = g - 4;
    const int scale = g < 4 ? six[g] & 63 : (six[g + 4] & 15) | (six[high] >> 6) << 4;
    const int minimum = g < 4 ? six[g + 4] & 63 : six[g + 4] >> 4 | (six[g] >> 6) << 4;
    to.scales[g] = factor * float(scale), to.zeros[g] = -least * float(minimum);
  }
}

void unpack_q4_k(Bytes from, Unpacked& to) {
  unpack_scales_k(from, to);
  to.set_nibbles_k(from + 16);
}

// Fifth bits in 32 bytes before the others.
void unpack_q5_k(Bytes from, Unpacked& to) {
  unpack_scales_k(from, to);
  to.set_nibbles_k(from + 48), to.add_bits(from + 16, 4);
}

// 128 bytes of low and 64 of high bits, 16 scales of groups of 16, a factor. Each half of 128 numbers has its own 64
// and 32 bytes.
void unpack_q6_k(Bytes from, Unpacked& to) {
  const float factor = half_at(from + 208);
  for (int g = 0; g < 16; g++) to.scales[g] = factor * float(std::int8_t(from[192 + g]));
  to.set_nibbles(from, 0, 64, 64), to.set_nibbles(from + 64, 128, 192, 64);
  to.add_two_bits(from + 128, 4), to.subtract(256, 32);
}

// Numbers of four bits that name these.
constexpr std::int8_t uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void name_uneven(Unpacked& to, int count) {
  for (int i = 0; i < count; i++) to.numbers[i] = std::uint8_t(uneven[to.numbers[i]]);
}

void unpack_iq4_nl(Bytes from, Unpacked& to) {
  to.scales[0] = half_at(from);
  to.set_nibbles(from + 2), name_uneven(to, 32);
}

// A factor, eight scales of six bits (two higher bits in two bytes, four lower ones in four), eight times 16 bytes.
void unpack_iq4_xs(Bytes from, Unpacked& to) {
  const float factor = half_at(from);
  const int high = from[2] | from[3] << 8;
  for (int g = 0; g < 8; g++) {
    const int scale = (from[4 + g / 2] >> (g % 2 * 4) & 15) | (high >> 2 * g & 3) << 4;
    to.scales[g] = factor * float(scale - 32);
    to.set_nibbles(from + 8 + 16 * g, 32 * g);
  }
  name_uneven(to, 256);
}

// Floats of four bits: a sign, two bits of the exponent, one of the mantissa; here times two.
constexpr float fours[16] = {0, 1, 2, 3, 4, 6, 8, 12, -0.f, -1, -2, -3, -4, -6, -8, -12};

// The exponent of a scale, then 16 bytes.
void unpack_mxfp4(Bytes from, Unpacked& to) {
  to.scales[0] = std::ldexp(1.f, from[0] - 128);
  to.set_nibbles(from + 1);
}

struct PackedType {
  WeightType type;
  PackedLayout layout;
  void (*unpack)(Bytes from, Unpacked& to);
};

// Groups of 16 have bytes: products read 16 bytes of a group at once.
constexpr PackedType types[] = {
    {WeightType::q8_0, {8, 32, 0, false}, unpack_q8_0},         {WeightType::q4_0, {4, 32, 8, false}, unpack_q4_0},
    {WeightType::q4_1, {4, 32, 0, true}, unpack_q4_1},          {WeightType::q5_0, {8, 32, 0, false}, unpack_q5_0},
    {WeightType::q5_1, {8, 32, 0, true}, unpack_q5_1},          {WeightType::q2_k, {8, 16, 0, true}, unpack_q2_k},
    {WeightType::q3_k, {8, 16, 0, false}, unpack_q3_k},         {WeightType::q4_k, {4, 32, 0, true}, unpack_q4_k},
    {WeightType::q5_k, {8, 32, 0, true}, unpack_q5_k},          {WeightType::q6_k, {8, 16, 0, false}, unpack_q6_k},
    {WeightType::iq4_nl, {8, 32, 0, false}, unpack_iq4_nl},     {WeightType::iq4_xs, {8, 32, 0, false}, unpack_iq4_xs},
    {WeightType::mxfp4, {4, 32, 0, false, fours}, unpack_mxfp4}};

const PackedType* find(WeightType type) noexcept {
  for (const PackedType& known : types)
    if (known.type == type) return &known;
  return nullptr;
}

}  // namespace

const PackedLayout* packed_layout(WeightType type) noexcept {
  const PackedType* known = find(type);
  return known ? &known->layout : nullptr;
}

void unpack_blocks(WeightType type, const std::byte* from, std::int64_t blocks, std::uint8_t* data, float* scales,
                   float* zeros) {
  const WeightLayout& stored = layout_of(type);
  const PackedType& known = *find(type);
  const std::int64_t groups = stored.elements / known.layout.group, bytes = stored.elements * known.layout.bits / 8;
  auto* block = reinterpret_cast<Bytes>(from);
  Unpacked unpacked;
  for (std::int64_t i = 0; i < blocks; i++, block += stored.bytes, data += bytes) {
    unpacked.scales = scales + i * groups, unpacked.zeros = known.layout.zeros ? zeros + i * groups : nullptr;
    known.unpack(block, unpacked);
    if (known.layout.bits == 8) std::memcpy(data, unpacked.numbers, std::size_t(bytes));
    else
      for (std::int64_t k = 0; k < bytes; k++)
        data[k] = known.layout.table ? std::uint8_t(unpacked.numbers[2 * k] << 4 | unpacked.numbers[2 * k + 1])
                                     : std::uint8_t(unpacked.numbers[2 * k] | unpacked.numbers[2 * k + 1] << 4);
  }
}

}  // namespace dlprim
