// SPDX-License-Identifier: MIT
#include <dlprim/runtime/copy_queue.hpp>
#include <dlprim/runtime/gate.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "testing.hpp"

using namespace dlprim;
using namespace dlprim::testing;

namespace {

constexpr std::size_t bytes = 4096;

std::uint8_t value_of(Queue& queue, BufferRef memory) {
  std::uint8_t value = 0;
  queue.read(&value, memory, 1, true);
  return value;
}

}  // namespace

TEST(Gate, HoldsOnlyQueuesThatWait) {
  Queue &held = device().pooled_queue(), &free = device().pooled_queue();
  ASSERT_NE(&held, &free);
  const Workspace a(held, bytes), b(free, bytes);
  const std::uint8_t zero = 0, one = 1, two = 2;
  held.fill(a.data(), &zero, 1, bytes);
  held.finish();
  Gate gate(device());
  held.wait(gate.event());
  const auto start = std::chrono::steady_clock::now();
  held.fill(a.data(), &one, 1, bytes);
  const Event behind = held.record();
  free.fill(b.data(), &two, 1, bytes);
  EXPECT_EQ(value_of(free, b.data()), 2) << "another queue goes on";
  EXPECT_EQ(value_of(free, a.data()), 0) << "the command behind the gate has not run";
  EXPECT_FALSE(behind.reached());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << "the host does not wait";
  gate.open();
  EXPECT_EQ(value_of(held, a.data()), 1);
  EXPECT_TRUE(behind.reached());
}

TEST(Gate, AnErrorIsThrownOnceByTheQueueThatWaited) {
  Queue &held = device().pooled_queue(), &free = device().pooled_queue();
  const Workspace a(held, bytes);
  const std::uint8_t one = 1;
  Gate gate(device());
  held.wait(gate.event());
  held.fill(a.data(), &one, 1, bytes);
  std::thread opener([&] { gate.open(std::make_exception_ptr(Error("the other side has gone"))); });
  EXPECT_THROW(
      {
        try {
          held.finish();
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("has gone"), std::string::npos);
          throw;
        }
      },
      Error);
  opener.join();
  free.finish();
  held.finish();
  EXPECT_EQ(value_of(held, a.data()), 1) << "commands behind it have run";
}

TEST(Gate, OpensWhenItIsGone) {
  Queue& held = device().pooled_queue();
  const Workspace a(held, bytes);
  const std::uint8_t three = 3;
  {
    Gate gate(device());
    held.wait(gate.event());
    held.fill(a.data(), &three, 1, bytes);
  }
  EXPECT_EQ(value_of(held, a.data()), 3);
}

TEST(Gate, LeavesCopyQueuesAlone) {
  Gate gate(device());
  std::vector<std::unique_ptr<Workspace>> kept;
  const std::uint8_t one = 1;
  for (int i = 0; i < 40; i++) {  // more than the pool has
    Queue& held = device().pooled_queue();
    held.wait(gate.event());
    kept.push_back(std::make_unique<Workspace>(held, bytes));
    held.fill(kept.back()->data(), &one, 1, bytes);
  }
  Queue& copies = copy_queue(device());
  EXPECT_EQ(copies.submission(), nullptr);
  const Workspace there(copies, bytes);
  const std::vector<std::uint8_t> from(bytes, 7);
  std::vector<std::uint8_t> to(bytes, 0);
  copies.write(there.data(), from.data(), bytes, false);
  copies.read(to.data(), there.data(), bytes, true);
  EXPECT_EQ(to, from);
  gate.open();
  device().synchronize();
}
