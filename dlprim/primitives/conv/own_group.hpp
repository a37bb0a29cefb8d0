// SPDX-License-Identifier: MIT
#pragma once
#include "problem.hpp"

namespace dlprim {

/// For a convolution, or its data gradient, of which `together` groups at a time run as one with zeros between them:
/// zero times an Inf or a NaN is NaN, so these reach the results of other groups. An object looks for them in what is
/// read; run() then computes the results of the images and sets of groups that have some again, each from its own group.
/// The host waits for nothing. Only for float32 and 16-bit floats.
class OwnGroup {
 public:
  OwnGroup(Queue& queue, const ConvProblem& problem, std::int64_t together);
  void run(Queue& queue, const ConvProblem& problem) const;

 private:
  std::int64_t sets_, together_;
  Workspace flags_;  // a byte an image and set
};

}  // namespace dlprim
