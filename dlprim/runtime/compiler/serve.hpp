// SPDX-License-Identifier: MIT
#pragma once

namespace dlprim {

/// Compiles OpenCL C for a process of the library (compilers.hpp), which has started this one with a connection in both
/// directions as standard input, and waits until it has gone to the background. `device`: "platform:device", numbered as
/// the loader lists them. Ends the process when the connection is closed; returns an exit code where there is no such
/// device, or no such connection on this system.
int serve_compiler(const char* device);

}  // namespace dlprim
