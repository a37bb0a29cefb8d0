// SPDX-License-Identifier: MIT
// Panels of Cholesky's factor by many work-groups, for GPUs: a launch for each block of columns.
#pragma once
#include "linalg.hpp"

namespace dlprim::linalg {

/// Whether the device has what CholeskyBlocks asks for.
bool cholesky_in_blocks(Queue& queue, const TensorView& a);

class CholeskyBlocks {
 public:
  CholeskyBlocks(Queue& queue, const TensorView& a, const TensorView& info);
  std::int64_t width() const { return width_; }  ///< columns of a block
  /// Factors `count` columns of `a`, from column `from` on and from the diagonal down, which are updated with those before;
  /// `from` is a multiple of the width. Of the columns after these nothing is read.
  void columns(const TensorView& a, std::int64_t from, std::int64_t count);

 private:
  Queue& queue_;
  TensorView info_;
  std::int64_t width_;
  Temporary work_;  ///< panels that are read while they are written, see cholesky_blocks.cl
};

}  // namespace dlprim::linalg
