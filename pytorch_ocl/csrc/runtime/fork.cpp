// SPDX-License-Identifier: MIT
#include "fork.hpp"

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace pytorch_ocl {

#ifdef _WIN32

int call_in_child(int (*function)()) noexcept { return function(); }

#else

int call_in_child(int (*function)()) noexcept {
  int ends[2];
  if (pipe(ends) != 0) return function();
  const pid_t child = fork();
  if (child == 0) {
    const int result = function();
    _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  close(ends[1]);
  int result = 0;
  ssize_t received = 0;
  while (child > 0 && (received = read(ends[0], &result, sizeof result)) < 0 && errno == EINTR) {
  }
  close(ends[0]);
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return received == sizeof result ? result : function();
}

#endif

}  // namespace pytorch_ocl
