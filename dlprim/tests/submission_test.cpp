// SPDX-License-Identifier: MIT
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/submission.hpp>

#include <array>
#include <chrono>
#include <thread>

#include "testing.hpp"

namespace dlprim {
namespace {

using testing::device;
using testing::DeviceVector;

// A payload of these tests: a number, the count of ints, and the number again as the last of them.
std::vector<int> seen;
void see(const std::byte* payload) {
  const int* values = reinterpret_cast<const int*>(payload);
  if (values[values[1] - 1] == values[0]) seen.push_back(values[0]);
}

TEST(Submission, RunsCommandsOfAllSizesInOrder) {
  Submission submission;
  seen.clear();
  constexpr int count = 20000;  // far more than there is room for at a time
  for (int i = 0; i < count; i++) {
    const int size = 3 + i % 300;
    submission.push(see, sizeof(int) * std::size_t(size), [&](std::byte* payload) {
      int* values = reinterpret_cast<int*>(payload);
      values[0] = values[size - 1] = i;
      values[1] = size;
    });
  }
  submission.drain();
  ASSERT_EQ(seen.size(), std::size_t(count));
  for (int i = 0; i < count; i++) ASSERT_EQ(seen[std::size_t(i)], i);
}

TEST(Submission, WakesUpAfterAPause) {
  Submission submission;
  std::atomic<int> ran{0};
  for (int i = 1; i <= 3; i++) {
    submission.push([&ran] { ran++; });
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (ran < i && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(ran, i);  // nobody drained
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(Submission, ALaterCallThrowsTheFirstError) {
  Submission submission;
  std::atomic<int> ran{0};
  submission.push([&ran] {
    ran++;
    throw DeviceError("clFirst", -5);
  });
  try {
    submission.drain();
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("clFirst"), std::string::npos);
  }
  submission.push([&ran] { ran++; });  // thrown once
  submission.drain();
  EXPECT_EQ(ran, 2);
  submission.push([] { throw DeviceError("clSecond", -5); });
  submission.wait();  // throws nothing and loses nothing
  EXPECT_THROW(submission.drain(), DeviceError);
  EXPECT_THROW(submission.push([](const std::byte*) {}, std::size_t(1) << 24, [](std::byte*) {}), std::length_error);
}

TEST(Submission, ThreadsShareIt) {
  Submission submission;
  constexpr int threads = 4, count = 5000;
  static std::array<std::atomic<int>, threads> last;
  static std::atomic<int> disorder;
  std::vector<std::thread> pushing;
  for (int t = 0; t < threads; t++) {
    last[std::size_t(t)] = -1;
    pushing.emplace_back([&submission, t] {
      for (int i = 0; i < count; i++) {
        submission.push([t, i] {
          if (last[std::size_t(t)].exchange(i) != i - 1) disorder++;
        });
        if (i % 100 == t) {
          submission.drain();
          if (last[std::size_t(t)] != i) disorder++;
        }
      }
    });
  }
  for (std::thread& thread : pushing) thread.join();
  submission.drain();
  EXPECT_EQ(disorder, 0);
  for (auto& value : last) EXPECT_EQ(value, count - 1);
}

TEST(Submission, DestructionRunsWhatIsLeft) {
  std::atomic<int> ran{0};
  {
    Submission submission;
    for (int i = 0; i < 100; i++) submission.push([&ran] { ran++; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(Submission, EventsDoNotKeepTheHost) {
  Submission* submission = device().submission();
  if (!submission) return;  // of devices without one, events have OpenCL's own at once
  Queue &first = device().pooled_queue(), &second = device().pooled_queue();
  DeviceVector<int> data(std::vector<int>(64, 1));
  device().default_queue().finish();  // other queues do not wait for what it has copied
  std::atomic<bool> open{false};
  submission->push([&open] {
    while (!open) std::this_thread::yield();
  });
  const int seven = 7;
  first.fill(data.data(), &seven, sizeof seven, 256);
  const Event filled = first.record();
  second.wait(filled);
  const Event behind = second.record();
  EXPECT_TRUE(filled);
  EXPECT_FALSE(filled.reached());
  open = true;
  behind.wait();
  EXPECT_TRUE(filled.reached());
  EXPECT_NE(filled.get(), nullptr);
  EXPECT_EQ(data.read(), std::vector<int>(64, 7));
}

// With and without a Submission: a launch that the driver refuses is an error, and the queue goes on.
TEST(Submission, RefusedLaunches) {
  const auto kernel = device().programs().build(
      KernelSource::from_text("__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void set("
                              "__global int *x, ulong at, int value) { x[get_global_id(0)] = value; }",
                              "set"));
  Queue& queue = device().default_queue();
  DeviceVector<int> data(std::vector<int>(64, 1));
  EXPECT_THROW(
      {
        launch(queue, *kernel, NDRange(32, 32), data.data(), cl_int(2));
        queue.finish();
      },
      DeviceError);
  launch(queue, *kernel, NDRange(64, 64), data.data(), cl_int(3));
  EXPECT_EQ(data.read(), std::vector<int>(64, 3));
}

}  // namespace
}  // namespace dlprim
