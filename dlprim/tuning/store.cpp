// SPDX-License-Identifier: MIT
#include "store.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include "../runtime/disk_cache.hpp"
#include "../runtime/embedded_kernels.hpp"

namespace dlprim::tuning {

namespace {

constexpr const char* marker = "choices were measured";  // on disk when anything was kept

using Values = std::vector<std::string>;
using Rows = std::map<std::string, Values>;  // by key

// "a/b/c" -> "a/b"; "a" -> "*".
std::string parent(const std::string& scope) {
  const auto slash = scope.rfind('/');
  return slash == std::string::npos ? "*" : scope.substr(0, slash);
}

bool is_choice(const std::string& key) { return key.find(' ') != std::string::npos; }

// The rows by scope. Those of a device also stand for its architecture, by key, unless that has its own; of several
// devices the first in the order of the files' names.
struct Shipped {
  std::map<std::string, Rows> scopes;
  std::set<std::string> with_choices;

  Shipped() {
    std::map<std::string, Rows> inherited;
    for (const EmbeddedFile& file : embedded_tuning()) {
      std::map<std::string, Rows> read;
      std::istringstream lines(std::string(file.text, file.size));
      for (std::string line; std::getline(lines, line);) {
        const auto first = line.find('\t'), last = line.find('\t', first + 1);
        if (line.empty() || line[0] == '#' || last == std::string::npos) continue;
        read[line.substr(0, first)][line.substr(first + 1, last - first - 1)].push_back(line.substr(last + 1));
      }
      for (auto& [scope, rows] : read) {
        if (std::ranges::count(scope, '/') == 2) inherited[parent(scope)].insert(rows.begin(), rows.end());
        for (auto& [key, list] : rows) scopes[scope].try_emplace(key, std::move(list));
      }
    }
    for (auto& [scope, rows] : inherited) scopes[scope].insert(rows.begin(), rows.end());
    for (const auto& [scope, rows] : scopes)
      if (std::ranges::any_of(rows, [](const auto& row) { return is_choice(row.first); })) with_choices.insert(scope);
  }
};

const Shipped& shipped() {
  static const Shipped all;
  return all;
}

// What this process has set, by scope and key; and whether anything is on disk.
struct Local {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Values> set;
  std::atomic<bool> on_disk{DiskCache::instance().load(marker).has_value()};
};
Local& local() {
  static Local all;
  return all;
}
std::atomic<unsigned> generations{0};

std::string disk_key(const DeviceInfo& device, const std::string& key) {
  return "choice|" + device.name + "|" + device.driver + "|" + key;
}

Values lines_of(const std::string& text) {
  Values all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  return all;
}

}  // namespace

std::string scope_of(const DeviceInfo& device) {
  constexpr const char* vendors[] = {"nvidia", "amd", "intel", "arm", "pocl", "other"};
  const std::string vendor = device.cpu ? "cpu" : vendors[int(device.vendor)];
  std::string architecture;
  if (device.nv_compute_capability) architecture = "sm_" + std::to_string(device.nv_compute_capability);
  else if (device.cpu) architecture = "vector" + std::to_string(device.float_vector);
  else if (device.name.starts_with("gfx")) architecture = device.name.substr(0, device.name.find(':'));
  else architecture = "simd" + std::to_string(device.warp);
  std::string name = device.name;
  for (char& c : name)
    if (c == '/' || c == '\t' || c == '\n') c = ' ';
  return vendor + "/" + architecture + "/" + name;
}

std::vector<std::string> shipped_values(const DeviceInfo& device, const std::string& key) {
  for (std::string scope = scope_of(device);; scope = parent(scope)) {
    if (const auto rows = shipped().scopes.find(scope); rows != shipped().scopes.end())
      if (const auto row = rows->second.find(key); row != rows->second.end()) return row->second;
    if (scope == "*") return {};
  }
}

std::vector<std::string> values(const DeviceInfo& device, const std::string& key) {
  Local& here = local();
  {
    std::lock_guard guard(here.mutex);
    if (const auto it = here.set.find({scope_of(device), key}); it != here.set.end()) return it->second;
  }
  if (here.on_disk)
    if (const auto text = DiskCache::instance().load(disk_key(device, key))) return lines_of(*text);
  return shipped_values(device, key);
}

std::vector<double> numbers_in(std::string_view text) {
  std::vector<double> all;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    double number = 0;
    const auto [after, error] = std::from_chars(at, end, number);  // whatever the locale
    if (error != std::errc()) break;
    all.push_back(number), at = after;
    if (at < end && (*at == ' ' || *at == 'x')) at++;
  }
  return all;
}

void read_numbers(const DeviceInfo& device, const std::string& key, std::span<double> numbers) {
  const std::vector<std::string> found = values(device, key);
  const std::vector<double> read = found.empty() ? std::vector<double>() : numbers_in(found[0]);
  if (read.size() != numbers.size())
    throw Error("[tuning] expected " + std::to_string(numbers.size()) + " numbers for '" + key + "' on " +
                scope_of(device) + ", got " + (found.empty() ? "none" : "'" + found[0] + "'"));
  std::ranges::copy(read, numbers.begin());
}

void set(const DeviceInfo& device, const std::string& key, std::vector<std::string> values) {
  Local& here = local();
  std::lock_guard guard(here.mutex);
  here.set[{scope_of(device), key}] = std::move(values);
  generations++;
}

void keep(const DeviceInfo& device, const std::string& key, const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : "\n") + value;
  DiskCache::instance().store(disk_key(device, key), text);
  DiskCache::instance().store(marker, "1");
  local().on_disk = true;
}

void forget(const DeviceInfo& device, const std::string& key) {
  Local& here = local();
  std::lock_guard guard(here.mutex);
  here.set.erase({scope_of(device), key});
  DiskCache::instance().erase(disk_key(device, key));
  generations++;
}

unsigned generation() noexcept { return generations.load(std::memory_order_acquire); }

bool has_choices(const Device& device) {
  static PerDevice<bool> ships([](const DeviceInfo& info) {
    for (std::string scope = scope_of(info); scope != "*"; scope = parent(scope))
      if (shipped().with_choices.contains(scope)) return true;
    return false;
  });
  return local().on_disk.load(std::memory_order_relaxed) || ships(device);
}

}  // namespace dlprim::tuning
