// SPDX-License-Identifier: MIT
#include "profile.hpp"

#include <dlprim/net/profile.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "model.hpp"

namespace dlprim::tools {

namespace {

void show_profile(const char* phase, const std::vector<ProfiledCommand>& commands, bool by_operator) {
  struct Row {
    std::uint64_t nanoseconds = 0, bytes = 0;
    int count = 0;
  };
  std::map<std::string, Row> rows;
  std::uint64_t total = 0;
  for (const ProfiledCommand& command : commands) {
    const std::string label = by_operator ? profiled_operator(command) : command.name;
    Row& row = rows[label.empty() ? "(other)" : label];
    row.nanoseconds += command.end - command.start, row.bytes += command.bytes, row.count++;
    total += command.end - command.start;
  }
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.nanoseconds > b.second.nanoseconds; });
  Table table({std::string(phase) + (by_operator ? ": operator" : ": kernel"), "count", "ms", "%", "GB/s"});
  for (const auto& [label, row] : sorted)
    table.add({label, std::to_string(row.count), text(double(row.nanoseconds) * 1e-6, 3),
               text(100. * double(row.nanoseconds) / double(std::max<std::uint64_t>(1, total)), 1),
               text(double(row.bytes) / double(std::max<std::uint64_t>(1, row.nanoseconds)), 1)});
  table.print();
  std::printf("\n");
}

}  // namespace

void profile(const char* phase, const std::function<void()>& work) {
  const std::size_t start = Profiler::start();
  work();
  const std::vector<ProfiledCommand> commands = Profiler::stop(start);
  if (std::ranges::any_of(commands, [](const ProfiledCommand& c) { return !profiled_operator(c).empty(); }))
    show_profile(phase, commands, true);
  show_profile(phase, commands, false);
}

}  // namespace dlprim::tools
