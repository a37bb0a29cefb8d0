// SPDX-License-Identifier: MIT
#include "cpus.hpp"

#include <dlprim/runtime/environment.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

#include "system.hpp"

namespace dlprim {

namespace {

std::string contents_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Microseconds of CPU time a period over the period, rounded up; nothing for "max", -1 or no file.
std::optional<unsigned> ratio(const std::string& quota_and_period) {
  std::istringstream in(quota_and_period);
  double quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  const double cpus = std::min(quota / period, 1e6);
  return unsigned(cpus) + (cpus > unsigned(cpus) ? 1 : 0);
}

// The least limit of a group and those that it lies in. In a container the path may be one of the host's, which does not
// exist inside; there the mount point itself is the group.
template <class Limit>
unsigned least_upwards(const std::filesystem::path& mount, std::filesystem::path group, Limit limit) {
  unsigned least = 0;
  for (group = group.relative_path();; group = group.parent_path()) {
    if (const std::optional<unsigned> own = limit(mount / group)) least = least ? std::min(least, *own) : *own;
    if (group.empty()) return least;
  }
}

unsigned limit_of_line(const std::string& line, const std::filesystem::path& root) {
  const auto first = line.find(':'), second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return 0;
  const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
  if (controllers.empty())
    return least_upwards(root, group, [](const auto& folder) { return ratio(contents_of(folder / "cpu.max")); });
  if ((',' + controllers + ',').find(",cpu,") == std::string::npos) return 0;
  return least_upwards(root / controllers, group, [](const auto& folder) {
    return ratio(contents_of(folder / "cpu.cfs_quota_us") + " " + contents_of(folder / "cpu.cfs_period_us"));
  });
}

}  // namespace

unsigned control_group_cpus(std::string_view membership, const std::filesystem::path& root) {
  unsigned least = 0;
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);)
    if (const unsigned own = limit_of_line(line, root)) least = least ? std::min(least, own) : own;
  return least;
}

unsigned available_cpus() {
  static const unsigned found = [] {
    const unsigned allowed = std::max(1u, scheduled_cpus());
    const unsigned quota = control_group_cpus(contents_of("/proc/self/cgroup"), "/sys/fs/cgroup");
    return quota ? std::min(quota, allowed) : allowed;
  }();
  return found;
}

unsigned share_of_cpus() {
  const std::int64_t processes = environment::number("LOCAL_WORLD_SIZE").value_or(1);
  return std::max(1u, unsigned(available_cpus() / processes));
}

}  // namespace dlprim
