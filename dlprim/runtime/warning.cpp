// SPDX-License-Identifier: MIT
#include <dlprim/runtime/warning.hpp>

#include <atomic>
#include <cstdio>

namespace dlprim {

namespace {

std::atomic<void (*)(const std::string&)> handler{nullptr};

}  // namespace

void warn(const std::string& message) {
  if (const auto chosen = handler.load()) chosen(message);
  else std::fprintf(stderr, "dlprim: %s\n", message.c_str());
}

void set_warning_handler(void (*chosen)(const std::string&)) noexcept { handler.store(chosen); }

}  // namespace dlprim
