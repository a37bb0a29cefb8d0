// SPDX-License-Identifier: MIT
#include "fork.hpp"

#ifndef _WIN32
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>

#include <dlprim/runtime/warning.hpp>
#endif

namespace pytorch_ocl {

#ifdef _WIN32

int call_in_child(int (*function)(), int) noexcept { return function(); }

#else

namespace {

// Whether something can be read from `file` before the time is over.
bool readable(int file, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd waiting{file, POLLIN, 0};
    const int ready = poll(&waiting, 1, int(std::max<std::int64_t>(left.count(), 0)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

int call_in_child(int (*function)(), int seconds) noexcept {
  int ends[2];
  if (pipe(ends) != 0) return function();
  const pid_t child = fork();
  if (child == 0) {
    dlprim::set_warning_handler([](const std::string&) {});  // this process warns when it calls the function itself
    const int result = function();
    _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  close(ends[1]);
  int result = 0;
  ssize_t received = 0;
  if (child > 0 && readable(ends[0], seconds))
    while ((received = read(ends[0], &result, sizeof result)) < 0 && errno == EINTR) {}
  close(ends[0]);
  // One that has answered may still hang in a driver's end.
  if (child > 0) kill(child, SIGKILL);
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
  return received == sizeof result ? result : function();
}

#endif

}  // namespace pytorch_ocl
