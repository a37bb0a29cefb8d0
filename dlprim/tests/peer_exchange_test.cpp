// SPDX-License-Identifier: MIT
#include <dlprim/primitives/peer_exchange.hpp>

#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "testing.hpp"

using namespace dlprim;
using namespace dlprim::testing;

namespace {

// Ranks of one device, each with a queue of its own; their kernels run at once.
class Ranks {
 public:
  explicit Ranks(int count) {
    std::vector<cl::Buffer> windows;
    const bool cpu = device().info().cpu;
    for (int rank = 0; rank < count; rank++) {
      if (cpu) hosts_.emplace_back(PeerExchange::window_bytes(count) / sizeof(Line));
      cl_int code = CL_SUCCESS;
      windows.emplace_back(clCreateBuffer(device().context()(), CL_MEM_READ_WRITE | (cpu ? CL_MEM_USE_HOST_PTR : 0),
                                          PeerExchange::window_bytes(count), cpu ? hosts_.back().data() : nullptr,
                                          &code));
      EXPECT_EQ(code, CL_SUCCESS);
      PeerExchange::clear(queue(), {windows.back()(), 0});
    }
    for (int rank = 0; rank < count; rank++)
      each.emplace_back(windows, rank, cpu ? reinterpret_cast<std::byte*>(hosts_[std::size_t(rank)].data()) : nullptr);
  }
  Queue& queue_of(int rank) { return device().queue(1 + rank); }
  Queue& spare() { return device().queue(1 + std::int64_t(each.size())); }
  void begin() { queue().finish(); }  // what the tests wrote is there
  void finish() {
    for (std::size_t rank = 0; rank < each.size(); rank++) queue_of(int(rank)).flush();
    for (std::size_t rank = 0; rank < each.size(); rank++) queue_of(int(rank)).finish();
  }
  std::vector<PeerExchange> each;

 private:
  struct alignas(4096) Line {
    std::array<std::byte, 4096> bytes;
  };
  std::vector<std::vector<Line>> hosts_;
};

// Other drivers of CPUs may run one kernel after the other.
bool runs_two_kernels_at_once() {
  const DeviceInfo& info = device().info();
  return PeerExchange::runs_on(info) && (!info.cpu || (info.vendor == Vendor::intel && info.compute_units > 1));
}

std::vector<std::uint8_t> numbers(std::size_t count, int seed) {
  std::vector<std::uint8_t> values(count);
  for (std::size_t i = 0; i < count; i++) values[i] = std::uint8_t(i * 7 + i / 256 + std::size_t(seed) * 31);
  return values;
}

}  // namespace

TEST(PeerExchange, SwapsParts) {
  if (!runs_two_kernels_at_once()) return;
  Ranks ranks(2);
  std::uint32_t number = 0;
  // From one byte to several chunks of all groups, and what vectors do not divide.
  for (const std::size_t part : {1u, 30u, 4096u, 70000u, 1000003u, 5u << 20}) {
    const DeviceVector<std::uint8_t> a(numbers(2 * part, 1)), b(numbers(2 * part, 2));
    const DeviceVector<std::uint8_t> to_a(2 * part), to_b(2 * part);
    ranks.begin();
    ranks.each[0].run(ranks.queue_of(0), {a.data(), part, part}, {to_a.data(), part, part}, 3, true, number, {});
    ranks.each[1].run(ranks.queue_of(1), {b.data(), part, part}, {to_b.data(), part, part}, 3, true, number, {});
    number++;
    ranks.finish();
    std::vector<std::uint8_t> first = numbers(2 * part, 1), second = numbers(2 * part, 2);
    std::swap_ranges(first.begin() + std::ptrdiff_t(part), first.end(), second.begin());
    EXPECT_EQ(to_a.read(), first);
    EXPECT_EQ(to_b.read(), second);
  }
}

TEST(PeerExchange, SendsFromOneAndEndsWhereTheTotalDoes) {
  if (!runs_two_kernels_at_once()) return;
  Ranks ranks(2);
  const std::vector<std::uint8_t> given = numbers(300000, 5);
  const DeviceVector<std::uint8_t> from(given), to(std::vector<std::uint8_t>(400000, 9));
  ranks.begin();
  ranks.each[0].run(ranks.queue_of(0), {to.data()}, {to.data(), 0, 400000, 250000}, 2, false, 0, {});
  ranks.each[1].run(ranks.queue_of(1), {from.data(), 0, 400000, 300000}, {from.data()}, 2, false, 0, {});
  ranks.finish();
  std::vector<std::uint8_t> expected(400000, 9);
  std::copy_n(given.begin(), 250000, expected.begin());
  EXPECT_EQ(to.read(), expected);
}

// Into another tensor and in place, from one number to several chunks of all groups.
TEST(PeerExchange, Reduces) {
  if (!runs_two_kernels_at_once()) return;
  Ranks ranks(2);
  std::uint32_t number = 0;
  for (const std::size_t count : {1u, 7u, 64u, 20001u, 300000u, 1u << 20}) {
    std::vector<float> a(count), b(count), sum(count), greatest(count);
    for (std::size_t i = 0; i < count; i++) {
      a[i] = float(i % 1000) * 0.25f - 50.0f, b[i] = float(i % 77) * 3.0f;
      sum[i] = (a[i] + b[i]) / 2.0f, greatest[i] = std::max(a[i], b[i]);
    }
    const std::uint64_t bytes = count * sizeof(float);
    const DeviceVector<float> first(a), second(b), largest(count), other(count);
    ranks.begin();
    const auto reduce = [&](int rank, const DeviceVector<float>& from, const DeviceVector<float>& to,
                            PeerOperation operation, std::uint32_t call) {
      ranks.each[std::size_t(rank)].reduce(ranks.queue_of(rank), {from.data(), 0, bytes}, {to.data(), 0, bytes},
                                           DataType::float32, operation, call, {});
    };
    reduce(0, first, largest, PeerOperation::maximum, number), reduce(1, second, other, PeerOperation::maximum, number);
    number++;
    ranks.finish();
    reduce(0, first, first, PeerOperation::average, number), reduce(1, second, second, PeerOperation::average, number);
    number++;
    ranks.finish();
    EXPECT_EQ(largest.read(), greatest);
    EXPECT_EQ(other.read(), greatest);
    EXPECT_EQ(first.read(), sum);
    EXPECT_EQ(second.read(), sum);
  }
}

TEST(PeerExchange, RefusesReductionsThatTypesDoNotHave) {
  if (!runs_two_kernels_at_once()) return;
  Ranks ranks(2);
  const DeviceVector<std::uint8_t> a(numbers(64, 1));
  const auto reduce = [&](DataType type, PeerOperation operation) {
    ranks.each[0].reduce(ranks.queue_of(0), {a.data(), 0, 32}, {a.data(), 0, 32}, type, operation, 0, {});
  };
  EXPECT_THROW(reduce(DataType::int32, PeerOperation::average), ValidationError);
  EXPECT_THROW(reduce(DataType::complex64, PeerOperation::product), ValidationError);
}

TEST(PeerExchange, WaitsForOthersUntilAborted) {
  if (!runs_two_kernels_at_once()) return;
  Ranks ranks(2);
  const DeviceVector<std::uint8_t> a(numbers(64, 1));
  ranks.begin();
  ranks.each[0].run(ranks.queue_of(0), {a.data(), 32, 32}, {a.data(), 32, 32}, 3, false, 0, {});
  const Event end = ranks.queue_of(0).record();
  ranks.queue_of(0).flush();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(end.reached());
  EXPECT_FALSE(ranks.each[0].mismatch(ranks.spare()));
  ranks.each[0].abort(ranks.spare());
  ranks.finish();
  EXPECT_TRUE(end.reached());
}

// CPUs may have one thread for kernels while the host does not wait for them.
TEST(PeerExchange, WaitsUntilAbortedWhereCallsDiffer) {
  if (!runs_two_kernels_at_once() || device().info().cpu) return;
  Ranks ranks(2);
  const DeviceVector<std::uint8_t> a(numbers(64, 1)), b(numbers(64, 2));
  ranks.begin();
  ranks.each[0].run(ranks.queue_of(0), {a.data(), 32, 32}, {a.data(), 32, 32}, 3, false, 7, {1, 2, 3});
  ranks.each[1].run(ranks.queue_of(1), {b.data(), 32, 32}, {b.data(), 32, 32}, 3, false, 7, {1, 2, 4});
  const Event end = ranks.queue_of(0).record();
  ranks.queue_of(0).flush(), ranks.queue_of(1).flush();
  std::optional<PeerExchange::Mismatch> found;
  for (int i = 0; i < 1000 && !found; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    found = ranks.each[0].mismatch(ranks.spare());
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->call, (PeerCall{1, 2, 4}));
  EXPECT_FALSE(end.reached());
  for (PeerExchange& rank : ranks.each) rank.abort(ranks.spare());
  ranks.finish();
  EXPECT_TRUE(end.reached());
}
