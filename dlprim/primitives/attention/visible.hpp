// SPDX-License-Identifier: MIT
// Blocks and slices of scores that a mask leaves out.
#pragma once
#include "problem.hpp"

namespace dlprim {

/// Whether kernels are to pass over what a mask leaves out: there is one, so large that to read it once more is worth it.
bool has_lists(const AttentionProblem& problem);

/// What a mask says of tiles of scores, while kernels that read lists made from it run.
class VisibleTiles {
 public:
  /// Nothing where the problem has no lists.
  VisibleTiles(Queue& queue, const AttentionProblem& problem);
  /// Gives a problem the lists of the slices of `slice` keys that blocks of `block` queries read, or with `by_keys` of
  /// slices of queries that blocks of keys do. They live until the next call.
  void list(AttentionProblem& problem, int block, int slice, bool by_keys);

 private:
  Queue& queue_;
  /// As visible.cl has it.
  struct Tiles {
    std::int32_t rows, columns, queries, keys;
  };
  std::int64_t batches_ = 1, heads_ = 1;  // of masks that differ
  Tiles tiles_{};
  BufferRef states_;
  std::optional<Workspace> found_, lists_;
};

}  // namespace dlprim
