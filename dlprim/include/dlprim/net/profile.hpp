// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/profile.hpp>

namespace dlprim {

/// The operator of a network, such as "Conv 'layer1'", that a command Profiler recorded belongs to; empty for others.
std::string profiled_operator(const ProfiledCommand& command);

}  // namespace dlprim
