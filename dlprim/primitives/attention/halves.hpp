// SPDX-License-Identifier: MIT
// float32 operands of attention as pairs of 16 bits, for matrix units of 16 bits.
#pragma once
#include "problem.hpp"

namespace dlprim {

/// Queries, keys and values of a problem of float32 as kernels/attention/halves.cl makes them, all in one memory.
struct AttentionHalves {
  /// The problem over the parts: float16, strides and data of q, k and v replaced; sizes and the rest are the same.
  AttentionProblem problem;
  Workspace memory;
  /// float32: what scores and results are multiplied by, for each head of q, k and v.
  BufferRef scales;
};

/// Columns of an operand's parts: the upper ones, then as many lower ones, of rows that are padded with 0 to 64.
inline int columns_of_halves(int width) { return 2 * ((width + 63) / 64 * 64); }

AttentionHalves attention_halves(Queue& queue, const AttentionProblem& problem);

}  // namespace dlprim
