// SPDX-License-Identifier: MIT
#pragma once

namespace dlprim {

/// Whether threads are building kernels, or kernels wait for that, or commands are under way on a device whose driver
/// compiles kernels when it runs them. A program that may end meanwhile should wait until there are none: a driver's
/// compiler that is at work while its library's static objects are destroyed ends the process with a signal. What has been
/// registered with std::atexit waits, but objects that the compiler made since are destroyed before.
bool builds_are_under_way() noexcept;

}  // namespace dlprim
