// SPDX-License-Identifier: MIT
// Copies through pinned memory, which this forces on devices that do without.
#include "staging.hpp"

#include <dlprim/runtime/host_memory.hpp>
#include <dlprim/runtime/parallel.hpp>

#include <numeric>
#include <thread>

#include "device_bridge.hpp"
#include "floats.hpp"

namespace dlprim {
namespace {

using testing::device;
using testing::queue;
using testing::Variable;
using Bytes = std::vector<std::uint8_t>;

Bytes numbered(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; i++) bytes[i] = std::uint8_t((i * 2654435761u + seed) >> 13);
  return bytes;
}

// Around the borders of pieces of both sizes, and of the turns of their slots.
constexpr std::size_t kib = 1024;
const std::size_t sizes[] = {1,
                             3,
                             4095,
                             256 * kib - 1,
                             256 * kib,
                             256 * kib + 1,
                             1024 * kib,
                             1024 * kib + 5,
                             4 * 1024 * kib - 1,
                             5 * 1024 * kib + 3,
                             16 * 1024 * kib,
                             21 * 1024 * kib + 7};

TEST(Staging, AllSizesAndOffsetsThereAndBack) {
  const Variable forced("DLPRIM_STAGED_COPIES", "1");
  const Workspace memory(queue(), sizes[11] + 100);
  for (const std::size_t size : sizes)
    for (const std::size_t offset : {std::size_t(0), std::size_t(13)}) {
      const Bytes sent = numbered(size + 8, unsigned(size));
      Bytes received(size + 8, 77);
      const BufferRef target{memory.data().memory, memory.data().offset + offset};
      ASSERT_TRUE(device().staging().serves(sent.data(), size));
      queue().write(target, sent.data() + 3, size, true);
      queue().read(received.data() + 5, target, size, true);
      ASSERT_TRUE(std::equal(received.begin() + 5, received.begin() + 5 + std::ptrdiff_t(size), sent.begin() + 3))
          << size;
      for (const std::size_t i : {std::size_t(0), std::size_t(4), size + 5, size + 7}) ASSERT_EQ(received[i], 77);
    }
}

TEST(Staging, TheSourceMayChangeAtOnce) {
  const Variable forced("DLPRIM_STAGED_COPIES", "1");
  const std::size_t size = std::size_t(9) << 20;
  const Workspace memory(queue(), size);
  Bytes sent = numbered(size, 5), received(size);
  const Bytes kept = sent;
  for (int i = 0; i < 3; i++) {
    sent = kept;
    queue().write(memory.data(), sent.data(), size, true);
    std::fill(sent.begin(), sent.end(), 0);
    queue().read(received.data(), memory.data(), size, true);
    ASSERT_EQ(received, kept);
  }
}

TEST(Staging, ThreadsAndQueues) {
  const Variable forced("DLPRIM_STAGED_COPIES", "1");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; t++)
    threads.emplace_back([&wrong, t] {
      Queue& own = device().queue(1 + t % 2);
      const std::size_t size = (std::size_t(1) << 20) + 1000 * t;
      const Workspace memory(own, size);
      for (unsigned i = 0; i < 5; i++) {
        const Bytes sent = numbered(size, 10 * t + i);
        Bytes received(size);
        own.write(memory.data(), sent.data(), size, true);
        own.read(received.data(), memory.data(), size, true);
        if (received != sent) wrong++;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Staging, ServesWhereItPays) {
  const std::size_t large = std::size_t(64) << 20;
  const char here = 0;
  const DeviceInfo& info = device().info();
  EXPECT_EQ(device().staging().serves(&here, large), !info.cpu && !info.unified_memory);
  EXPECT_FALSE(device().staging().serves(&here, 1000));
  const Variable forced("DLPRIM_STAGED_COPIES", "1");
  void* pinned = device().host_memory().allocate(large);
  EXPECT_TRUE(device().staging().serves(&here, 1000));
  EXPECT_FALSE(device().staging().serves(pinned, large)) << "the device reaches pinned memory by itself";
  device().host_memory().release(pinned);
  const Variable off("DLPRIM_STAGED_COPIES", "0");
  EXPECT_FALSE(device().staging().serves(&here, large));
}

// Sends numbers of every size from the first device to the second by copy(target, to, source, from, bytes).
template <class Copy>
void send_all_sizes(Queue& first, Queue& second, const Copy& copy) {
  const Workspace there(first, sizes[11] + 100), here(second, sizes[11] + 100);
  for (const std::size_t size : sizes) {
    const Bytes sent = numbered(size, 3);
    Bytes received(size);
    const BufferRef from{there.data().memory, there.data().offset + 16}, to{here.data().memory, here.data().offset + 5};
    first.write(from, sent.data(), size, true);
    copy(to, from, size);
    first.write(from, received.data(), size, true);
    second.read(received.data(), to, size, true);
    ASSERT_EQ(received, sent) << size << " bytes";
  }
}

// Between two devices of this process, where there are two.
TEST(Staging, BetweenDevices) {
  if (Device::count() < 2) return;
  Queue &first = Device::get(0).default_queue(), &second = Device::get(1).default_queue();
  EXPECT_THROW(first.copy_from(first, {}, {}, 1), ValidationError);
  for (const char* how : {"0", "1"}) {
    const Variable chosen("DLPRIM_STAGED_COPIES", how);
    send_all_sizes(first, second,
                   [&](BufferRef to, BufferRef from, std::size_t bytes) { second.copy_from(first, to, from, bytes); });
  }
}

TEST(Staging, ABridgeBetweenDevices) {
  if (Device::count() < 2) return;
  Queue &first = Device::get(0).default_queue(), &second = Device::get(1).default_queue();
  DeviceBridge bridge(first.device(), second.device());
  if (!bridge) return;
  send_all_sizes(first, second, [&](BufferRef to, BufferRef from, std::size_t bytes) {
    bridge.is_fast(first, from, second, to, bytes);
    bridge.send(first, from, second, to, bytes);
  });
}

TEST(Staging, ParallelCopies) {
  for (const std::size_t size : sizes) {
    const Bytes from = numbered(size, 9);
    Bytes to(size);
    parallel_copy(to.data(), from.data(), size);
    ASSERT_EQ(to, from);
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; t++)
    threads.emplace_back([&wrong, t] {
      const Bytes from = numbered(std::size_t(1) << 20, t);
      for (int i = 0; i < 50; i++) {
        Bytes to(from.size());
        parallel_copy(to.data(), from.data(), from.size());
        if (to != from) wrong++;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace dlprim
