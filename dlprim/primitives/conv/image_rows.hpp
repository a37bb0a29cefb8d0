// SPDX-License-Identifier: MIT
// Blocks of images whose rows lie in local memory: what kernels with lib/image_rows.clh need to know of them.
#pragma once
#include <algorithm>

#include "problem.hpp"

namespace dlprim::conv_cores {

/// Taps and steps that kernels unroll; why a problem is none of rows of groups of several channels in float32, or null.
constexpr std::int64_t most_taps = 36, most_step = 8;
inline const char* decline_rows(const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  if (s.type != DataType::float32) return "only for float32";
  if (s.groups == 1 || s.w.channels == 1) return "no groups, or of one channel";
  if (problem.x.numel() == 0 || problem.y.numel() == 0) return "nothing is summed";
  if (s.w.size[0] != 1 || s.x.size[0] != 1 || s.padding[0] != 0) return "not of two dimensions";
  if (s.x.stride[2] != 1 || s.y.stride[2] != 1) return "points do not lie side by side";
  const std::int64_t steps = std::max({s.stride[1], s.stride[2], s.dilation[1], s.dilation[2]});
  return s.taps() > most_taps || steps > most_step ? "too many taps, or far apart" : nullptr;
}

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Whether rows start at multiples of 16 bytes and are whole vectors of them.
inline bool in_fours(const Volume& v) {
  return (v.size[2] | v.outer_stride | v.channel_stride | v.stride[1]) % 4 == 0 && v.data.offset % 16 == 0;
}

/// How many columns before a multiple of 4 the padding ends, so that copies begin at one.
inline int offset_of(std::int64_t padding) { return int(((-padding) % 4 + 4) % 4); }

/// Work-items that copy a row of `pitch` floats, `vector` at once.
inline int loaders_of(std::int64_t pitch, int vector) {
  int loaders = 32;
  while (loaders > 4 && loaders / 2 * vector >= pitch) loaders /= 2;
  return loaders;
}

/// Floats of a copied row from which windows of `columns` positions are read four at a time: the vectors of the last
/// four end within it. `reach`: from the first tap to the last.
inline std::int64_t row_pitch(std::int64_t columns, std::int64_t stride, std::int64_t reach, int offset) {
  return (columns - 4) * stride + ceil_div(offset + 3 * stride + reach + 1, 4) * 4;
}

}  // namespace dlprim::conv_cores
