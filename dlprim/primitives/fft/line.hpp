// SPDX-License-Identifier: MIT
#pragma once
#include "pass.hpp"

namespace dlprim::fft_detail {

/// Transforms lines of any length: `pass` with the length of the whole lines in `length` and `inputs`.
void transform_lines(Queue& queue, Pass pass);

}  // namespace dlprim::fft_detail
