// SPDX-License-Identifier: MIT
// Products of one matrix of few rows with several others as one launch, where the core "gemv" is the one for them.
#pragma once
#include "engine.hpp"

namespace dlprim {

/// A product with what the problem beside it multiplies, of as many rows and sums as long.
struct GemmPart {
  BufferRef b, c;  // b lies like the problem's, rows of c lie one after the other
  std::int64_t n;
};

/// Runs a plain problem and `more` (1 to 3) products. False, and nothing runs, where one launch cannot do that or other
/// cores are faster.
bool run_several(Queue& queue, const GemmProblem& problem, std::span<const GemmPart> more);

/// C = activation(a b) * (a up) of a plain problem without an activation and an addend; `up` lies like b. False as above.
bool run_gated(Queue& queue, const GemmProblem& problem, BufferRef up, Activation activation);

}  // namespace dlprim
