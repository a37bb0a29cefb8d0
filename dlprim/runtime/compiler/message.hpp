// SPDX-License-Identifier: MIT
// What the library and its compiler in another process (compilers.hpp) tell each other.
#pragma once
#include <cstdint>

namespace dlprim {

/// Before a program: how many bytes of options, of the target of its PTX (KernelSource::ptx_target) and of OpenCL C follow.
struct CompileRequest {
  std::uint64_t options, target, text;
};

/// The answer: how many bytes of the device's binary follow; none where the program does not build.
struct CompileReply {
  std::uint64_t binary;
};

}  // namespace dlprim
