// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/context.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

namespace dlprim::tools {

/// Milliseconds of one call, until the device has finished.
template <class F>
double milliseconds(const ExecutionContext& context, F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  context.finish();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Times {
  double first = 0, median = 0, best = 0, worst = 0;  // milliseconds
};

/// Runs `work` `warm_up` times (at least once, that is `first`) and then `runs` times that count.
template <class F>
Times measure(const ExecutionContext& context, int warm_up, int runs, F&& work) {
  Times times;
  times.first = milliseconds(context, work);
  for (int i = 1; i < warm_up; i++) milliseconds(context, work);
  std::vector<double> all;
  for (int i = 0; i < runs; i++) all.push_back(milliseconds(context, work));
  std::sort(all.begin(), all.end());
  times.median = all[all.size() / 2], times.best = all.front(), times.worst = all.back();
  return times;
}

/// The best time of one call in milliseconds, repeated until `seconds` have gone by: several calls at a time, so that
/// waiting for the device does not count.
template <class F>
double best_milliseconds(const ExecutionContext& context, double seconds, F&& work) {
  work();
  const double once = milliseconds(context, work);
  const int calls = std::clamp(int(20 / std::max(once, 1e-3)), 1, 1000);
  double best = once, spent = 0;
  while (spent < 1000 * seconds) {
    const double all = milliseconds(context, [&] {
      for (int i = 0; i < calls; i++) work();
    });
    best = std::min(best, all / calls), spent += all;
  }
  return best;
}

}  // namespace dlprim::tools
