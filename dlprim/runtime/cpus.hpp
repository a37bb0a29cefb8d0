// SPDX-License-Identifier: MIT
#pragma once
#include <filesystem>
#include <string_view>

namespace dlprim {

/// How many CPUs this process may keep busy, at least 1: those that it may run on, and no more than the CPU time
/// that a container (Linux control groups, versions 1 and 2) allows it. Found once.
unsigned available_cpus();

/// Those that work in the background should keep busy, at least 1: where a launcher of distributed programs says how many
/// processes it started on this host (LOCAL_WORLD_SIZE), they share the CPUs.
unsigned share_of_cpus();

/// The limit of control groups alone; 0 where there is none. `membership` is the contents of /proc/self/cgroup, `root`
/// the folder where the groups are mounted. A quota of one and a half CPUs counts as two.
unsigned control_group_cpus(std::string_view membership, const std::filesystem::path& root);

}  // namespace dlprim
