// SPDX-License-Identifier: MIT
#include <dlprim/runtime/capture.hpp>
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

// Memory that outlives the capture, or is given back within it, is nobody else's while the capture lives.
TEST(Capture, KeepsItsMemory) {
  const Numbers x(1);
  std::optional<Capture> capture(std::in_place, queue());
  std::optional<Workspace> within(std::in_place, queue(), bytes), later(std::in_place, queue(), bytes);
  const BufferRef first = within->data(), second = later->data();
  within.reset();
  const Workspace again(queue(), bytes);
  EXPECT_EQ(again.data().offset, first.offset);
  capture->finish();
  later.reset();
  {
    std::vector<Workspace> many;
    for (int i = 0; i < 50; i++) {
      const BufferRef other = many.emplace_back(queue(), bytes).data();
      EXPECT_FALSE(other.memory == second.memory && other.offset == second.offset);
    }
  }
  const std::int64_t held = device().allocator().stats().allocated_bytes.current;
  capture.reset();
  EXPECT_LT(device().allocator().stats().allocated_bytes.current, held);
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
