// SPDX-License-Identifier: MIT
#include <dlprim/runtime/capture.hpp>
#include <dlprim/runtime/device.hpp>
#include <dlprim/runtime/status.hpp>

#include <cstring>
#include <optional>
#include <thread>

#include "testing.hpp"

namespace dlprim {
namespace {

using testing::device;

constexpr std::size_t count = 1000, bytes = count * sizeof(float);

Queue& queue() { return device().default_queue(); }

struct Amount {
  cl_ulong number;
  cl_int n;
};

Kernel& add_number() {
  static Kernel* kernel =
      device()
          .programs()
          .build(KernelSource::from_text(
              "#include \"lib/types.clh\"\n"
              "typedef struct { ulong number; int n; } Amount;\n"
              "__kernel void add_number(GLOBAL(float, to), CONST_GLOBAL(float, from), const Amount a) {\n"
              "  const int i = get_global_id(0);\n"
              "  if (i < a.n) POINTER(float, to)[i] = CONST_POINTER(float, from)[i] + a.number;\n"
              "}\n",
              "add_number"))
          .release();
  return *kernel;
}

void add(BufferRef to, BufferRef from, std::uint64_t number) {
  Amount amount;
  std::memset(&amount, 0, sizeof amount);
  amount.number = number, amount.n = int(count);
  launch(queue(), add_number(), NDRange(count), to, from, amount);
}

struct Numbers {
  Workspace memory{queue(), bytes};
  explicit Numbers(float start) { queue().fill(memory.data(), &start, sizeof start, bytes); }
  BufferRef data() const { return memory.data(); }
  float last() const {
    float value[count];
    queue().read(value, data(), bytes, true);
    return value[count - 1];
  }
};

TEST(Capture, RunsWhenReplayed) {
  const Numbers x(5), y(0);
  Capture capture(queue());
  {
    const Workspace between(queue(), bytes);
    add(between.data(), x.data(), 1);
    queue().copy(y.data(), between.data(), bytes);
  }
  add(x.data(), x.data(), 10);
  capture.finish();
  EXPECT_EQ(capture.commands().size(), 3u);
  EXPECT_EQ(y.last(), 0);
  capture.replay({});
  capture.replay({});
  EXPECT_EQ(x.last(), 25);
  EXPECT_EQ(y.last(), 16);
}

TEST(Capture, NotesWhatOtherThreadsDo) {
  const Numbers x(1);
  Capture capture(queue());
  std::thread([&] { add(x.data(), x.data(), 2); }).join();
  capture.finish();
  EXPECT_EQ(x.last(), 1);
  capture.replay({});
  EXPECT_EQ(x.last(), 3);
}

TEST(Capture, GivenNumbersTakeTheirPlaces) {
  const Numbers x(0), y(0);
  Capture capture(queue());
  const std::uint64_t first = capture.placeholder(), second = capture.placeholder();
  add(x.data(), x.data(), first);
  add(y.data(), x.data(), second);
  capture.finish();
  const std::uint64_t some[] = {3, 4}, others[] = {10, 20};
  capture.replay(some);
  EXPECT_EQ(y.last(), 7);
  capture.replay(others);
  EXPECT_EQ(x.last(), 13);
  EXPECT_EQ(y.last(), 33);
}

TEST(Capture, UnusedPlaceholdersAreRefused) {
  Capture capture(queue());
  capture.placeholder();
  EXPECT_THROW(capture.finish(), Error);
}

// What is given back within serves the capture alone, as long as that lives.
TEST(Capture, KeepsItsMemory) {
  std::optional<Capture> capture(std::in_place, queue());
  std::optional<Workspace> within(std::in_place, queue(), bytes), later(std::in_place, queue(), bytes);
  const BufferRef first = within->data(), second = later->data();
  within.reset();
  const Workspace again(queue(), bytes);
  EXPECT_EQ(again.data().offset, first.offset);
  capture->finish();
  later.reset();
  const auto is_handed_out = [&] {
    std::vector<Workspace> many;
    for (int i = 0; i < 600; i++) {
      const BufferRef other = many.emplace_back(queue(), bytes).data();
      if (other.memory == second.memory && other.offset == second.offset) return true;
    }
    return false;
  };
  device().allocator().empty_cache();
  EXPECT_FALSE(is_handed_out());
  capture.reset();
  device().allocator().empty_cache();  // `again` keeps the segment
  EXPECT_TRUE(is_handed_out());
}

TEST(Capture, TakesLittleMoreMemoryThanTheWorkItself) {
  constexpr std::size_t large = std::size_t(27) << 19;
  device().allocator().empty_cache();
  const std::int64_t before = device().allocator().stats().reserved_bytes.current;
  Capture capture(queue());
  Workspace last(queue(), large);
  for (int i = 0; i < 8; i++) last = Workspace(queue(), large - std::size_t(i) * 4096);
  EXPECT_LE(device().allocator().stats().reserved_bytes.current - before, std::int64_t(2 * large + (4 << 20)));
}

TEST(Capture, SharesAPool) {
  auto pool = std::make_shared<MemoryPool>(queue());
  const Numbers x(1);
  BufferRef used{};
  const auto add_twice = [&](Capture& capture) {
    const Workspace between(queue(), bytes);
    used = between.data();
    add(between.data(), x.data(), 1);
    add(x.data(), between.data(), 1);
    capture.finish();
  };
  Capture first(queue(), pool);
  add_twice(first);
  const BufferRef before = used;
  Capture second(queue(), pool);
  add_twice(second);
  EXPECT_EQ(used.memory, before.memory);
  EXPECT_EQ(used.offset, before.offset);
  first.replay({});
  second.replay({});
  EXPECT_EQ(x.last(), 5);
}

TEST(Capture, QueuesThatWaitForItJoin) {
  const Numbers x(1), y(0);
  Queue& other = device().pooled_queue();
  Capture capture(queue());
  add(x.data(), x.data(), 1);
  const Event fork = queue().record();
  other.wait(fork);
  EXPECT_EQ(other.capture(), &capture);
  Amount amount;
  std::memset(&amount, 0, sizeof amount);
  amount.number = 10, amount.n = int(count);
  launch(other, add_number(), NDRange(count), y.data(), x.data(), amount);
  queue().wait(other.record());
  add(x.data(), y.data(), 0);
  EXPECT_THROW(fork.wait(), Error);
  EXPECT_THROW(fork.reached(), Error);
  capture.finish();
  EXPECT_EQ(other.capture(), nullptr);
  EXPECT_THROW(other.wait(fork), Error);
  EXPECT_EQ(y.last(), 0);
  capture.replay({});
  EXPECT_EQ(x.last(), 12);
}

TEST(Capture, KnowsPlaceholders) {
  Capture capture(queue());
  const std::uint64_t number = capture.placeholder();
  EXPECT_TRUE(Capture::is_placeholder(number));
  for (std::uint64_t other : {std::uint64_t(0), std::uint64_t(1), number + 1, ~number})
    EXPECT_FALSE(Capture::is_placeholder(other));
}

TEST(Capture, AnothersPlaceholdersAreRefused) {
  const Numbers x(0);
  std::uint64_t number;
  {
    Capture capture(queue());
    number = capture.placeholder();
  }
  Capture capture(queue());
  add(x.data(), x.data(), number);
  EXPECT_THROW(capture.finish(), Error);
}

// The memory that commands name is not given back to the driver.
TEST(Capture, ReplaysAfterItsTensorsAreGone) {
  std::optional<Numbers> x(std::in_place, 1.0f);
  Capture capture(queue());
  add(x->data(), x->data(), 1);
  x.reset();
  device().allocator().empty_cache();
  capture.finish();
  capture.replay({});
  queue().finish();
}

TEST(Capture, ReadingFromTheDeviceIsRefused) {
  const Numbers x(1);
  {
    Capture capture(queue());
    EXPECT_THROW(x.last(), Error);
    EXPECT_THROW(capture.finish(), Error);
  }
  EXPECT_EQ(x.last(), 1);
}

TEST(Capture, OneAtATime) {
  Capture capture(queue());
  EXPECT_THROW(Capture second(queue()), Error);
  EXPECT_EQ(queue().capture(), &capture);
}

TEST(Capture, OneThatIsNeverFinishedLeavesTheQueueAsItWas) {
  const Numbers x(1);
  { Capture capture(queue()); }
  add(x.data(), x.data(), 1);
  EXPECT_EQ(x.last(), 2);
}

TEST(Capture, PassesOnWhatItReplays) {
  const Numbers x(0);
  Capture inner(queue());
  add(x.data(), x.data(), 1);
  inner.finish();
  Capture outer(queue());
  inner.replay({});
  inner.replay({});
  outer.finish();
  EXPECT_EQ(x.last(), 0);
  outer.replay({});
  EXPECT_EQ(x.last(), 2);
}

}  // namespace
}  // namespace dlprim
