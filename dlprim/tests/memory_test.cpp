// SPDX-License-Identifier: MIT
#include <thread>

#include "testing.hpp"

namespace dlprim {
namespace {

using testing::device;
using testing::queue;

char* address(Block* block) { return static_cast<char*>(Allocator::address(block)); }

TEST(Allocator, ReusesFreedMemoryOfTheSameQueue) {
  Allocator& allocator = device().allocator();
  Block* first = allocator.allocate(3000, queue());
  char* const where = address(first);
  allocator.release(first);
  Block* second = allocator.allocate(3000, queue());
  EXPECT_EQ(address(second), where);
  Block* third = allocator.allocate(3000, queue());
  EXPECT_NE(address(third), where);
  allocator.release(second);
  allocator.release(third);
}

TEST(Allocator, AddressesLeadToBuffers) {
  Allocator& allocator = device().allocator();
  for (const std::size_t size : {1ul, 512ul, 5000ul, 3ul << 20, 30ul << 20}) {
    Block* block = allocator.allocate(size, queue());
    EXPECT_GE(Allocator::size(block), size);
    const BufferRef base = Allocator::locate(address(block)), end = Allocator::locate(address(block) + size - 1);
    ASSERT_NE(base.memory, nullptr);
    EXPECT_EQ(base.memory, end.memory);
    EXPECT_EQ(end.offset - base.offset, size - 1);
    EXPECT_EQ(base.offset % 512, 0u);
    EXPECT_EQ(Allocator::device_of(address(block)), &device());
    allocator.release(block);
  }
  int on_the_stack = 0;
  EXPECT_EQ(Allocator::locate(nullptr).memory, nullptr);
  EXPECT_EQ(Allocator::locate(&on_the_stack).memory, nullptr);
  EXPECT_EQ(Allocator::device_of(&on_the_stack), nullptr);
}

TEST(Allocator, CountsAndGivesBack) {
  Allocator& allocator = device().allocator();
  allocator.empty_cache();
  const MemoryStats before = allocator.stats();
  std::vector<Block*> blocks;
  for (int i = 1; i <= 50; i++) blocks.push_back(allocator.allocate(std::size_t(i) * 100000, queue()));
  EXPECT_EQ(allocator.stats().allocations.current, before.allocations.current + 50);
  EXPECT_EQ(allocator.stats().requested_bytes.current, before.requested_bytes.current + 1275 * 100000);
  for (std::size_t i = 0; i < blocks.size(); i += 2) allocator.release(blocks[i]);
  for (std::size_t i = 1; i < blocks.size(); i += 2) allocator.release(blocks[i]);
  EXPECT_EQ(allocator.stats().allocated_bytes.current, before.allocated_bytes.current);
  EXPECT_GT(allocator.stats().reserved_bytes.current, before.reserved_bytes.current);
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().reserved_bytes.current, before.reserved_bytes.current);
  EXPECT_GE(allocator.stats().allocated_bytes.peak, before.allocated_bytes.current + 1275 * 100000);
  allocator.reset_peak_stats();
  EXPECT_EQ(allocator.stats().allocated_bytes.peak, allocator.stats().allocated_bytes.current);
}

TEST(Allocator, MemoryUsedByAnotherQueueWaitsForIt) {
  Allocator& allocator = device().allocator();
  Queue& other = device().pooled_queue();
  Block* block = allocator.allocate(30 << 20, queue());
  const int pattern = 1;
  for (int i = 0; i < 20; i++) other.fill(Allocator::locate(address(block)), &pattern, sizeof pattern, 30 << 20);
  allocator.record_queue(block, other);
  allocator.release(block);
  EXPECT_GE(allocator.stats().active_bytes.current, allocator.stats().allocated_bytes.current);
  other.finish();
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().active_bytes.current, allocator.stats().allocated_bytes.current);
}

TEST(Allocator, RefusesWhatTheDeviceDoesNotHaveAndGoesOn) {
  Allocator& allocator = device().allocator();
  const auto before = allocator.stats().out_of_memory;
  for (const std::uint64_t size : {device().info().global_memory + 1, std::uint64_t(1) << 60}) {
    try {
      allocator.allocate(size, queue());
      FAIL() << size;
    } catch (const OutOfMemoryError& error) {
      EXPECT_NE(std::string(error.what()).find("Tried to allocate"), std::string::npos);
    }
  }
  EXPECT_EQ(allocator.stats().out_of_memory, before + 2);
  allocator.release(allocator.allocate(1000, queue()));
}

TEST(Allocator, ServesThreads) {
  Allocator& allocator = device().allocator();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; t++)
    threads.emplace_back([&allocator, t] {
      std::mt19937 random(t);
      std::vector<Block*> held;
      for (int i = 0; i < 2000; i++) {
        if (held.size() > 20) {
          std::swap(held[random() % held.size()], held.back());
          allocator.release(held.back());
          held.pop_back();
        }
        held.push_back(allocator.allocate(1 + random() % 100000, queue()));
        if (random() % 2) allocator.release(held.back()), held.pop_back();
      }
      for (Block* block : held) allocator.release(block);
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace dlprim
