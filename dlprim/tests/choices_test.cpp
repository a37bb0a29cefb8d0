// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/status.hpp>

#include <chrono>
#include <random>
#include <thread>

#include "../tuning/choices.hpp"
#include "setting.hpp"
#include "testing.hpp"

namespace dlprim {

struct TestProblem {
  std::int64_t number, device;
};
static std::string text_of(const TestProblem& problem) { return std::to_string(problem.number); }
struct Way {
  int number;
};
static std::string text_of(const Way& way) { return std::to_string(way.number); }

namespace {

using testing::device;
using testing::queue;

void sleep(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

// Way 2 is the fastest that runs; what fails, as when memory is short, is measured another time.
TEST(Choices, AreMadeAmongWaysThatRun) {
  Choices<TestProblem, Way> choices("test");
  const TestProblem problem{std::int64_t(std::random_device()()), device().index()};
  auto choose = [&](int first_that_runs) {
    auto run = [&](const Way& way) {
      if (way.number < first_that_runs) throw OutOfMemoryError("[test] too large");
      sleep(way.number == 2 ? 1 : 4);
    };
    return choices.get(queue(), problem, true, [] { return std::vector<Way>{{0}, {1}, {2}, {3}}; }, run).number;
  };
  const testing::Setting measuring(settings.benchmark);
  EXPECT_EQ(choose(4), 0);
  EXPECT_EQ(choose(1), 2);
  EXPECT_EQ(choose(3), 2) << "what was measured is remembered";
}

// What a kernel before the measurement found wrong belongs to its caller, and is no reason against a way.
TEST(Choices, EarlierErrorsAreRaised) {
  static Kernel* kernel = device()
                              .programs()
                              .build(KernelSource::from_text(R"(
#include "lib/types.clh"
__kernel void fail(GLOBAL(int, status), int code) { REPORT(POINTER(int, status), code, 7); }
)",
                                                             "fail"))
                              .release();  // the driver may be gone at exit
  QueueStatus& status = queue().status();
  launch(queue(), *kernel, NDRange(1), status.buffer(), status.arm("fail: element %lld"));
  EXPECT_THROW(choices::fastest(queue(), 2, [](std::size_t) {}), IndexError);
  EXPECT_NO_THROW(queue().finish());
}

}  // namespace
}  // namespace dlprim
