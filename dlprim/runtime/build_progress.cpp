// SPDX-License-Identifier: MIT
#include "build_progress.hpp"

#include <dlprim/runtime/environment.hpp>

#include <cstdio>
#include <mutex>

#include "system.hpp"

namespace dlprim {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double quiet_seconds = 2;  // of building, before anything is said

struct Totals {
  std::mutex mutex;
  int programs = 0, active = 0;
  Clock::duration time{};  // in which something was built
  Clock::time_point since;  // what is being built has been
  bool shown = false;
  bool terminal = is_terminal();
  double seconds() const {
    return std::chrono::duration<double>(active ? time + (Clock::now() - since) : time).count();
  }
  ~Totals() {
    if (shown) std::fputc('\n', stderr);
  }
};

Totals& totals() {
  static Totals instance;
  return instance;
}

}  // namespace

BuildProgress::BuildProgress(const std::string& what) : what_(what), start_(std::chrono::steady_clock::now()) {
  Totals& all = totals();
  std::lock_guard guard(all.mutex);
  if (all.active++ == 0) all.since = start_;
  if (!all.terminal || all.seconds() < quiet_seconds) return;
  std::fprintf(stderr, "\rdlprim: %d kernels built in %.0f s, building %.40s\x1b[K", all.programs, all.seconds(),
               what.c_str());
  all.shown = true;
}

BuildProgress::~BuildProgress() {
  Totals& all = totals();
  std::lock_guard guard(all.mutex);
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - start_).count();
  all.programs++;
  if (--all.active == 0) all.time += now - all.since;
  if (environment::is_on("DLPRIM_DEBUG_BUILD"))
    std::fprintf(stderr, "dlprim: %.3f s to build %s\n", seconds, what_.c_str());
  if (all.shown) std::fprintf(stderr, "\rdlprim: %d kernels built in %.0f s\x1b[K", all.programs, all.seconds());
}

}  // namespace dlprim
