// SPDX-License-Identifier: MIT
// An ordered list of candidates for one job: the first that does not decline runs.
#pragma once
#include <dlprim/error.hpp>
#include <dlprim/runtime/device.hpp>
#include <dlprim/runtime/environment.hpp>

#include <cstdio>
#include <cstring>
#include <span>

namespace dlprim {

template <class Problem>
struct Candidate {
  const char* name;
  /// Why it cannot, or should not, serve the problem; null when it does. `forced`: only "cannot" counts.
  const char* (*decline)(const Device& device, const Problem& problem, bool forced);
  void (*run)(Queue& queue, const Problem& problem);
};

/// The candidate to run. The environment variable `force` (such as DLPRIM_GEMM=tiled) names the only one to consider
/// where it can run at all; DLPRIM_DEBUG_SELECT=1 prints each decision. Throws NotImplementedError when all decline.
template <class Problem>
const Candidate<Problem>& select(const char* family, environment::Variable force, std::span<const Candidate<Problem>> candidates,
                                 const Device& device, const Problem& problem) {
  const bool debug = environment::is_on("DLPRIM_DEBUG_SELECT");
  const char* forced = environment::text(force);
  auto decline = [&](const Candidate<Problem>& candidate, bool only_needed) {
    const char* reason = candidate.decline(device, problem, only_needed);
    if (debug) std::fprintf(stderr, "[%s] %s: %s\n", family, candidate.name, reason ? reason : "chosen");
    return reason;
  };
  if (forced)
    for (const auto& candidate : candidates)
      if (std::strcmp(forced, candidate.name) == 0 && !decline(candidate, true)) return candidate;
  for (const auto& candidate : candidates)
    if (!decline(candidate, false)) return candidate;
  throw NotImplementedError(std::string("[") + family + "] no kernel serves this on " + device.info().name);
}

}  // namespace dlprim
