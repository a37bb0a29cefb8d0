// SPDX-License-Identifier: MIT
#include <dlprim/runtime/recording.hpp>

#include "testing.hpp"

namespace dlprim {
namespace {

using testing::device;

constexpr std::size_t count = 1000, bytes = count * sizeof(float);

Queue& queue() { return device().default_queue(); }

Kernel& add_one() {
  static Kernel* kernel = device()
                              .programs()
                              .build(KernelSource::from_text(
                                  "#include \"lib/types.clh\"\n"
                                  "__kernel void add_one(GLOBAL(float, to), CONST_GLOBAL(float, from), int n) {\n"
                                  "  const int i = get_global_id(0);\n"
                                  "  if (i < n) POINTER(float, to)[i] = CONST_POINTER(float, from)[i] + 1;\n"
                                  "}\n",
                                  "add_one"))
                              .release();
  return *kernel;
}

void add_one(BufferRef to, BufferRef from) { launch(queue(), add_one(), NDRange(count), to, from, int(count)); }

struct Numbers {
  Workspace memory{queue(), bytes};
  explicit Numbers(float start) { queue().fill(memory.data(), &start, sizeof start, bytes); }
  BufferRef data() const { return memory.data(); }
  Recording::Piece piece() const { return {data(), bytes}; }
  float last() const {
    float value[count];
    queue().read(value, data(), bytes, true);
    return value[count - 1];
  }
};

// to = from + 3, by way of memory of its own.
void add_three(BufferRef to, BufferRef from) {
  const Workspace between(queue(), bytes);
  add_one(between.data(), from);
  const Workspace copied(queue(), bytes);
  queue().copy(copied.data(), between.data(), bytes);
  add_one(copied.data(), copied.data());
  add_one(to, copied.data());
}

TEST(Recording, ReplaysWithOtherMemory) {
  const Numbers from(5), to(0);
  Recording recording(queue());
  add_three(to.data(), from.data());
  const Recording::Piece given[] = {from.piece(), to.piece()};
  ASSERT_EQ(recording.finish(given, {}), "");
  EXPECT_EQ(recording.commands(), 4u);
  EXPECT_EQ(to.last(), 8);
  const Numbers between(100);  // would take memory that the recording gave back
  const Numbers other(20), result(0);
  const BufferRef now[] = {other.data(), result.data()};
  ASSERT_TRUE(recording.fits(now));
  for (int i = 0; i < 3; i++) recording.replay(now);
  EXPECT_EQ(result.last(), 23);
  EXPECT_EQ(to.last(), 8);
  EXPECT_EQ(between.last(), 100);
}

TEST(Recording, SaysWhatCannotBeReplayed) {
  const Numbers from(5), to(0);
  {
    Recording recording(queue());
    add_one(to.data(), from.data());
    const Recording::Piece given[] = {from.piece()};
    EXPECT_NE(recording.finish(given, {}), "") << "memory that nobody names";
  }
  {
    Recording recording(queue());
    add_one(to.data(), from.data());
    const Recording::Piece given[] = {from.piece(), to.piece(), {to.data(), 4}};
    EXPECT_NE(recording.finish(given, {}), "") << "inputs that overlap";
  }
  {
    Recording recording(queue());
    EXPECT_THROW(Recording second(queue()), Error);
    EXPECT_EQ(Recording::current(), &recording);
    (void)to.last();
    EXPECT_NE(recording.finish({}, {}), "") << "a copy to the host";
  }
  EXPECT_EQ(Recording::current(), nullptr);
}

TEST(Recording, GivesItsMemoryBack) {
  const Numbers from(5), to(0);
  const auto before = device().allocator().stats().allocated_bytes.current;
  {
    Recording recording(queue());
    add_three(to.data(), from.data());
    const Recording::Piece given[] = {from.piece(), to.piece()};
    ASSERT_EQ(recording.finish(given, {}), "");
    EXPECT_GT(device().allocator().stats().allocated_bytes.current, before);
  }
  EXPECT_EQ(device().allocator().stats().allocated_bytes.current, before);
}

}  // namespace
}  // namespace dlprim
