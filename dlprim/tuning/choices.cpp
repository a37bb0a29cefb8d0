// SPDX-License-Identifier: MIT
#include "choices.hpp"

#include <dlprim/runtime/settings.hpp>
#include <dlprim/tuning/tuning.hpp>

#include <atomic>
#include <chrono>
#include <limits>
#include <set>

namespace dlprim {

namespace {

constexpr int repetitions = 4;  // the shortest time counts
constexpr double clearly = 0.97;  // of the estimate's time

std::atomic<bool> recording{false};
std::atomic<int> made{0}, measured{0};

struct Used {
  std::mutex mutex;
  std::set<std::string> lines;
  void add(const DeviceInfo& device, const std::string& problem, const std::string& choice) {
    std::lock_guard guard(mutex);
    lines.insert(tuning::scope_of(device) + '\t' + problem + '\t' + choice);
  }
};

Used& used() {
  static Used all;
  return all;
}

double seconds(Queue& queue, const std::function<void(std::size_t)>& run, std::size_t which, double best) {
  double shortest = std::numeric_limits<double>::infinity();
  try {
    run(which);  // builds its kernels
    queue.finish();
    for (int i = 0; i < repetitions && (i == 0 || shortest < 2 * best); i++) {
      const auto start = std::chrono::steady_clock::now();
      run(which);
      queue.finish();
      shortest = std::min(shortest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();  // too large for the device
  }
  return shortest;
}

}  // namespace

namespace choices {

bool matter(const Device& device) {
  // Without any measured choice, which is the rule, a problem costs no look-up.
  return settings.benchmark || recording.load(std::memory_order_relaxed) || tuning::has_choices(device);
}

bool measuring() { return settings.benchmark; }

std::optional<std::string> load(const DeviceInfo& device, const std::string& problem) {
  const std::vector<std::string> known = tuning::values(device, problem);
  if (known.empty()) return std::nullopt;
  used().add(device, problem, known[0]);
  return known[0];
}

void store(const DeviceInfo& device, const std::string& problem, const std::string& choice) {
  tuning::keep(device, problem, {choice});
  used().add(device, problem, choice);
}

std::optional<std::size_t> fastest(Queue& queue, std::size_t count, const std::function<void(std::size_t)>& run) {
  static std::recursive_mutex one_at_a_time;  // for the times to mean something
  std::lock_guard guard(one_at_a_time);
  queue.finish();  // an error that is found here does not belong to what runs next
  std::size_t best = 0;
  double shortest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < count; i++) {
    const double time = seconds(queue, run, i, shortest);
    if (time < shortest * (best == 0 && i > 0 ? clearly : 1)) shortest = time, best = i;
  }
  return shortest < std::numeric_limits<double>::infinity() ? std::optional(best) : std::nullopt;
}

void count(int more_made, int more_measured) { made += more_made, measured += more_measured; }

}  // namespace choices

TuningProgress tuning_progress() { return {made, measured}; }

void record_choices(bool wanted) { recording = wanted; }

std::string tuned_choices() {
  std::lock_guard guard(used().mutex);
  std::string text;
  for (const std::string& line : used().lines) text += line + '\n';
  return text;
}

}  // namespace dlprim
