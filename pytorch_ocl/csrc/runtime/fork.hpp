// SPDX-License-Identifier: MIT
#pragma once

namespace pytorch_ocl {

/// What `function` returns, computed in a short-lived child process, so that the drivers it loads and the threads they
/// start stay out of this one; computed here where processes cannot fork or the child fails.
int call_in_child(int (*function)()) noexcept;

}  // namespace pytorch_ocl
