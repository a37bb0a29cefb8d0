// SPDX-License-Identifier: MIT
#include <dlprim/runtime/host_memory.hpp>

#include <thread>

#include "floats.hpp"
#include "memory_address.hpp"

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

// Addresses are given out for years with sizes that always change: what is given back must join its neighbours.
TEST(Addresses, GapsJoin) {
  static auto* const far = new Device(63, nullptr, {});  // devices are never destroyed
  std::mt19937 random(1);
  std::vector<std::unique_ptr<address::Segment>> held;
  const std::uint64_t unit = std::uint64_t(1) << 33;  // 8 GiB of a range of 16 TiB
  const auto release = [&](std::size_t i) {
    address::retract(*held[i]);
    std::swap(held[i], held.back());
    held.pop_back();
  };
  for (int i = 0; i < 200000; i++) {
    if (held.size() > 100) release(random() % held.size());
    auto segment = std::make_unique<address::Segment>();
    segment->device = far;
    segment->size = unit / 256 + (random() % 1000) * (unit / 1000);
    ASSERT_TRUE(address::publish(*segment)) << "after " << i;
    ASSERT_EQ(address::find(segment->base + segment->size - 1), segment.get());
    held.push_back(std::move(segment));
  }
  while (!held.empty()) release(held.size() - 1);
  address::Segment all;
  all.device = far, all.size = std::uint64_t(1) << 44;
  EXPECT_TRUE(address::publish(all)) << "the whole range is one gap again";
  address::Segment more;
  more.device = far, more.size = 1;
  EXPECT_FALSE(address::publish(more));
  address::retract(all);
}

TEST(Allocator, AddressesUsedUpAreExhaustion) {
  Allocator& allocator = device().allocator();
  allocator.empty_cache();
  address::Segment rest;
  rest.device = &device();
  for (rest.size = std::uint64_t(1) << 44; !address::publish(rest);) rest.size -= address::granule;
  const auto before = allocator.stats();
  EXPECT_THROW(allocator.allocate(50 << 20, queue()), OutOfMemoryError);
  EXPECT_EQ(allocator.stats().out_of_memory, before.out_of_memory + 1);
  EXPECT_EQ(allocator.stats().reserved_bytes.current, before.reserved_bytes.current);
  address::retract(rest);
  allocator.release(allocator.allocate(30 << 20, queue()));
}

std::vector<MemoryEvent> told;

TEST(Allocator, TellsWhatItDoes) {
  Allocator& allocator = device().allocator();
  allocator.empty_cache();
  told.clear();
  Allocator::on_event([](const MemoryEvent& event) { told.push_back(event); });
  Block* block = allocator.allocate(40 << 20, queue());
  const auto where = std::uint64_t(reinterpret_cast<std::uintptr_t>(address(block)));
  allocator.release(block);
  allocator.empty_cache();
  EXPECT_THROW(allocator.allocate(std::size_t(1) << 50, queue()), OutOfMemoryError);
  Allocator::on_event(nullptr);
  std::vector<MemoryEvent::Kind> kinds;
  for (const MemoryEvent& event : told) {
    kinds.push_back(event.kind);
    EXPECT_EQ(event.device, &device());
    if (event.kind != MemoryEvent::exhausted) EXPECT_EQ(event.address, where);
  }
  EXPECT_EQ(kinds, (std::vector<MemoryEvent::Kind>{MemoryEvent::segment_allocated, MemoryEvent::allocated,
                                                   MemoryEvent::release_requested, MemoryEvent::released,
                                                   MemoryEvent::segment_released, MemoryEvent::exhausted}));
}

TEST(Allocator, FreeMemoryIsWhatNobodyUses) {
  Allocator& allocator = device().allocator();
  const std::uint64_t total = device().info().global_memory;
  EXPECT_GT(allocator.free_bytes(), 0u);
  EXPECT_LE(allocator.free_bytes(), total - std::uint64_t(allocator.stats().reserved_bytes.current));
}

#ifdef FAULTY_OPENCL
// In processes of their own, whose OpenCL fails (faults/faults.cpp).
TEST(AllocatorDeathTest, AFailedDeviceIsNotOutOfMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto allocate = [] {
    try {
      device().allocator().allocate(40 << 20, queue());
    } catch (const OutOfMemoryError&) {
      std::_Exit(1);
    } catch (const DeviceError& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(0);
    }
    std::_Exit(2);
  };
  const testing::Variable library("DLPRIM_OPENCL_LIBRARY", FAULTY_OPENCL);
  {
    const testing::Variable fault("FAULTY_OPENCL", "lost");
    EXPECT_EXIT(allocate(), ::testing::ExitedWithCode(0), "clEnqueueFillBuffer: CL_INVALID_COMMAND_QUEUE");
  }
  {
    const testing::Variable fault("FAULTY_OPENCL", "faulted");
    EXPECT_EXIT(allocate(), ::testing::ExitedWithCode(0), "clFinish: NVIDIA: illegal memory access");
  }
  const testing::Variable fault("FAULTY_OPENCL", "full");
  EXPECT_EXIT(allocate(), ::testing::ExitedWithCode(1), "");
}
#endif

TEST(HostMemory, KeepsOneEventAQueue) {
  HostMemory& pool = device().host_memory();
  void* memory = pool.allocate(1000);
  for (int i = 0; i < 100; i++) {
    ASSERT_TRUE(pool.record(memory, queue()));
    ASSERT_TRUE(pool.record(static_cast<char*>(memory) + 500, device().queue(2)));
  }
  EXPECT_EQ(pool.queues_of(memory), 2u);
  pool.release(memory);
  EXPECT_FALSE(pool.contains(memory));
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
