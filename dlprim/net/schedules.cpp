// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/net/solver.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dlprim::schedules {

namespace {

// From `from` to `to` along half a cosine, for t of [0, 1].
double along_cosine(double from, double to, double t) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * std::clamp(t, 0.0, 1.0))) / 2;
}

void expect_steps(std::int64_t steps, const char* what) {
  if (steps < 1)
    throw ValidationError(std::string("[schedule] expected 1 or more ") + what + ", got " + std::to_string(steps));
}

}  // namespace

Schedule constant(double lr) {
  return [=](std::int64_t) { return lr; };
}

Schedule step(double lr, std::int64_t size, double gamma) {
  expect_steps(size, "steps");
  return [=](std::int64_t i) {
    const std::int64_t steps = i / size;
    return lr * std::pow(gamma, double(steps));
  };
}

Schedule multistep(double lr, std::vector<std::int64_t> milestones, double gamma) {
  return [=](std::int64_t i) {
    const auto behind = std::count_if(milestones.begin(), milestones.end(), [&](std::int64_t at) { return at <= i; });
    return lr * std::pow(gamma, double(behind));
  };
}

Schedule exponential(double lr, double gamma) {
  return [=](std::int64_t i) { return lr * std::pow(gamma, double(i)); };
}

Schedule cosine(double lr, std::int64_t steps, double lowest) {
  expect_steps(steps, "steps");
  return [=](std::int64_t i) { return along_cosine(lr, lowest, double(i) / double(steps)); };
}

Schedule warm_up(std::int64_t steps, Schedule then, double start) {
  expect_steps(steps, "steps");
  return [=](std::int64_t i) {
    if (i >= steps) return then(i - steps);
    return then(0) * (start + (1 - start) * double(i + 1) / double(steps));
  };
}

Schedule one_cycle(double highest, std::int64_t steps, double rise, double division, double final_division) {
  expect_steps(steps, "steps");
  const double start = highest / division, top = std::max(1.0, rise * double(steps) - 1);
  return [=](std::int64_t i) {
    if (double(i) <= top) return along_cosine(start, highest, double(i) / top);
    return along_cosine(highest, start / final_division, (double(i) - top) / std::max(1.0, double(steps) - 1 - top));
  };
}

}  // namespace dlprim::schedules
