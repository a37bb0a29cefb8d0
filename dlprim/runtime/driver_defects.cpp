// SPDX-License-Identifier: MIT
#include "driver_defects.hpp"

#include <dlprim/runtime/environment.hpp>

#include <fstream>
#include <iterator>

#include "embedded_kernels.hpp"

namespace dlprim {

namespace {

std::string text_of_file(const char* name) {
  std::ifstream file(name, std::ios::binary);
  if (!file) throw Error("[device] DLPRIM_DRIVER_DEFECTS names a file that cannot be read: " + std::string(name));
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::vector<DriverDefect>& known_defects() {
  static const std::vector<DriverDefect> all = [] {
    std::string text;
    for (const EmbeddedFile& file : embedded_defects()) text.append(file.text, file.size);
    if (const char* name = environment::text("DLPRIM_DRIVER_DEFECTS")) text += text_of_file(name);
    return driver_defects_in(text);
  }();
  return all;
}

// Cuts `rest` off at `end`.
std::string take(std::string_view& rest, char end) {
  const std::string_view first = rest.substr(0, rest.find(end));
  rest.remove_prefix(std::min(rest.size(), first.size() + 1));
  return std::string(first);
}

}  // namespace

std::vector<DriverDefect> driver_defects_in(std::string_view text) {
  std::vector<DriverDefect> defects;
  while (!text.empty()) {
    const std::string line = take(text, '\n');
    if (line.empty() || line.front() == '#') continue;
    std::string_view rest = line;
    DriverDefect defect;
    for (std::string* field : {&defect.platform, &defect.driver, &defect.kernels}) *field = take(rest, '\t');
    defect.reason = rest;
    if (defect.platform.empty() || defect.kernels.empty() || defect.reason.empty())
      throw ValidationError("[device] expected platform, driver, kernels and reason separated by tabs, got '" + line +
                            "'");
    defects.push_back(std::move(defect));
  }
  return defects;
}

const DriverDefect* driver_defect(const DeviceInfo& device, std::string_view kernel) {
  for (const DriverDefect& defect : known_defects())
    if (device.platform == defect.platform && device.driver.starts_with(defect.driver) &&
        kernel.starts_with(defect.kernels))
      return &defect;
  return nullptr;
}

}  // namespace dlprim
