// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/memory.hpp>

namespace dlprim {

/// The elements of a contiguous tensor of any dtype that are not zero, numbered in row-major order. The tensor must
/// outlive the object; count() is the only call that waits for the device.
class Compaction {
 public:
  Compaction(Queue& queue, const TensorView& mask);
  /// Elements that are not zero.
  std::int64_t count();
  /// Coordinates of the first `limit` of them: indices is [limit, dims] int64 with any strides.
  void coordinates(const TensorView& indices, std::int64_t limit);
  /// out[rank] = source[i] for each of them; source is contiguous with the mask's size, out contiguous, equal dtypes.
  void select(const TensorView& out, const TensorView& source);
  /// destination[i] = source[rank] for each of them; contiguous, equal dtypes. Ranks beyond source are reported as
  /// IndexError at the next synchronization.
  void scatter(const TensorView& destination, const TensorView& source);
  /// ranks[i] (int64): how many of them come before or at i.
  void ranks(const TensorView& ranks);
  /// runs[places[i]], or runs[i] without places (both int64): the number of the run that i is in, from 0, where those
  /// elements begin runs, the first one among them. Positions are a permutation.
  void runs(const TensorView& runs, const TensorView& places = {});

 private:
  void emit(int kind, const TensorView& out, const TensorView& source, std::int64_t limit);
  Queue& queue_;
  TensorView mask_;
  Workspace ends_;  // int64: elements up to the end of each chunk
  std::int64_t chunks_;
};

}  // namespace dlprim
