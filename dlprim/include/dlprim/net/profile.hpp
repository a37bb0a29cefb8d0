// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/profile.hpp>

namespace dlprim {

/// The operator of a network, such as "Conv 'layer1'", that a command recorded by Profiler belongs to; empty for others.
std::string profiled_operator(const ProfiledCommand& command);

}  // namespace dlprim
