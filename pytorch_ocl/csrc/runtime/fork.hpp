// SPDX-License-Identifier: MIT
#pragma once

namespace pytorch_ocl {

/// What `function` returns, computed in a short-lived child process, so that the drivers it loads and the threads they
/// start stay out of this one; computed here where processes cannot fork, the child fails, or it takes longer than
/// `seconds` (a child of a process with threads may inherit a lock that nobody opens any more).
int call_in_child(int (*function)(), int seconds) noexcept;

}  // namespace pytorch_ocl
