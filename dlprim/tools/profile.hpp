// SPDX-License-Identifier: MIT
#pragma once
#include <functional>

namespace dlprim::tools {

/// Does the work and prints what its kernels and copies took, by operator of a network, if any, and by kernel.
void profile(const char* phase, const std::function<void()>& work);

}  // namespace dlprim::tools
