// SPDX-License-Identifier: MIT
#pragma once
#include "core.hpp"

namespace dlprim {

/// Why a core for products of bytes declines whatever its instructions; null when it need not.
inline const char* decline_bytes(const DeviceInfo& info, const GemmProblem& problem, std::size_t local_memory,
                                 bool forced) {
  const auto& p = problem.p;
  if (problem.type != DataType::int8 && problem.type != DataType::uint8) return "only for bytes";
  if (problem.mode != GemmMode::plain) return "only for plain products";
  if (p.k == 0) return "k is 0";
  if (p.k > longest_of_bytes) return "sums may outgrow 32 bits";
  if (std::min({p.m, p.n, p.k}) <= 8 && !forced) return "too thin a product to pay";
  if (info.max_work_group < 256 || info.local_memory < local_memory) return "the device's work-groups are too small";
  return nullptr;
}

}  // namespace dlprim
