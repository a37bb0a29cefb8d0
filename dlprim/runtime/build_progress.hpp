// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <string>

namespace dlprim {

/// Lives while a program is built. Once building has taken a few seconds in this process, a line on the terminal says
/// how many programs were built and how long it took; nothing is printed when stderr is no terminal. With
/// DLPRIM_DEBUG_BUILD=1 each program has a line on stderr, terminal or not.
class BuildProgress {
 public:
  explicit BuildProgress(const std::string& what);
  ~BuildProgress();
  /// Another process compiles it.
  void set_elsewhere() { what_ += ", by another process"; }

 private:
  std::string what_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace dlprim
