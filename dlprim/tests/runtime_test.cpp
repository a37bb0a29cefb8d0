// SPDX-License-Identifier: MIT
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/profile.hpp>
#include <dlprim/runtime/static_local_memory.hpp>
#include <dlprim/runtime/status.hpp>

#include <chrono>
#include <thread>

#include "device_list.hpp"
#include "driver_defects.hpp"
#include "floats.hpp"
#include "simulate.hpp"
#include "testing.hpp"

namespace dlprim {
namespace {

using testing::device;
using testing::DeviceVector;
using testing::queue;

const char* const add_source = R"(
#include "lib/types.clh"
__kernel void add(GLOBAL(float, x), float value, GLOBAL(int, status), int code) {
  __global float *p = POINTER(float, x);
  const int i = get_global_id(0);
  p[i] += value;
  if (p[i] > 1e6f) REPORT(POINTER(int, status), code, i);
}
)";

Kernel& add_kernel() {
  // Not released at exit: the driver may be gone by then.
  static Kernel* kernel = device().programs().build(KernelSource::from_text(add_source, "add")).release();
  return *kernel;
}

void add(Queue& on, BufferRef data, std::size_t size, float value) {
  QueueStatus& status = on.status();
  launch(on, add_kernel(), NDRange(size), data, value, status.buffer(), status.arm("add: element %lld too large"));
}

TEST(Device, IsFoundByIndexPairAndName) {
  Device& first = Device::get(0);
  EXPECT_EQ(&Device::find("0"), &first);
  EXPECT_EQ(&Device::find(first.info().id), &first);
  EXPECT_EQ(&Device::find(first.info().name), &first);
  EXPECT_THROW(Device::find("no such device"), ValidationError);
  EXPECT_THROW(Device::find(""), ValidationError);
  EXPECT_THROW(Device::get(-1), ValidationError);
  EXPECT_THROW(Device::get(Device::count()), ValidationError);
}

TEST(Device, VisibleDevicesRestrictAndOrder) {
  std::string reason;
  const auto all = list_devices(nullptr, reason);
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(list_devices("no such device", reason).empty());
  EXPECT_NE(reason.find("no such device"), std::string::npos);
  std::string reversed;
  for (std::size_t i = all.size(); i-- > 0;) reversed += std::to_string(i) + " ,";
  const auto chosen = list_devices(reversed.c_str(), reason);
  ASSERT_EQ(chosen.size(), all.size());
  for (std::size_t i = 0; i < all.size(); i++) EXPECT_EQ(chosen[i].id, all[all.size() - 1 - i].id);
}

TEST(Device, SimulatedLimitsOnlyGetLower) {
  DeviceInfo info;
  info.max_work_group = 1024, info.local_memory = 32768, info.fp64 = true, info.cpu = true;
  simulate(info, "work_group=64,local_memory=65536,fp64=0,fp16=1,gpu=1,warp=16");
  EXPECT_EQ(info.max_work_group, 64u);
  EXPECT_EQ(info.local_memory, 32768u);
  EXPECT_FALSE(info.fp64 || info.fp16 || info.cpu);
  EXPECT_TRUE(info.gpu && info.warp == 16);
  for (const char* wrong : {"work_group", "work_group=", "work_group=a", "no_such_limit=1", "=1", "fp64=0,,warp=1"})
    EXPECT_THROW(simulate(info, wrong), ValidationError) << wrong;
}

TEST(Device, OthersThanLittleEndianOf64BitsAreRefused) {
  EXPECT_EQ(refusal(true, 64), nullptr);
  EXPECT_NE(std::string(refusal(false, 64)).find("big-endian"), std::string::npos);
  EXPECT_NE(std::string(refusal(true, 32)).find("64 bits"), std::string::npos);
}

TEST(Device, KnownDefectsBelongToDrivers) {
  DeviceInfo info;
  info.platform = "rusticl", info.driver = "22.3.6";
  ASSERT_NE(driver_defect(info, "*"), nullptr);
  EXPECT_NE(driver_defect(info, "*")->reason.find("install a newer one"), std::string::npos);
  info.driver = "24.0.1";
  EXPECT_EQ(driver_defect(info, "*"), nullptr);
  info.driver = "22.3.6", info.platform = "another";
  EXPECT_EQ(driver_defect(info, "random_each.cl:generate_each"), nullptr);
}

TEST(Device, DefectsAreLinesOfFourFields) {
  const auto all =
      driver_defects_in("# platform\tno\tline\tof it\n\nA B\t1.2\tscan.cl:\tsums, wrong\nC\t\t*\tall of it");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].platform + '|' + all[0].driver + '|' + all[0].kernels + '|' + all[0].reason,
            "A B|1.2|scan.cl:|sums, wrong");
  EXPECT_EQ(all[1].driver, "");
  for (const char* wrong : {"A", "A\t1\t*", "A\t1\t\treason", "\t1\t*\treason"})
    EXPECT_THROW(driver_defects_in(wrong), ValidationError) << wrong;
}

TEST(Queue, HalvesWorkGroupsThatAreTooLarge) {
  QueueStatus& status = queue().status();
  DeviceVector<float> x(std::vector<float>(1 << 20, 1));
  launch(queue(), add_kernel(), NDRange(1 << 20, 1 << 20), x.data(), 1.0f, status.buffer(), status.arm("too large"));
  for (float value : x.read()) ASSERT_EQ(value, 2);
}

TEST(Queue, RunsInOrderAndAcrossQueues) {
  DeviceVector<float> x(std::vector<float>(1000, 1));
  add(queue(), x.data(), 1000, 2);
  Queue& other = device().pooled_queue();
  other.wait(queue().record());
  add(other, x.data(), 1000, 4);
  other.finish();
  EXPECT_TRUE(other.idle());
  for (float value : x.read()) ASSERT_EQ(value, 7);
}

TEST(Queue, EventsMeasureTime) {
  DeviceVector<float> x(std::vector<float>(1 << 20, 1));
  const Event before = queue().record();
  for (int i = 0; i < 10; i++) add(queue(), x.data(), 1 << 20, 1);
  const Event after = queue().record();
  EXPECT_GT(after.nanoseconds(), before.nanoseconds());
  EXPECT_TRUE(after.reached());
  EXPECT_THROW(Event().nanoseconds(), ValidationError);
}

TEST(Queue, CopiesAndFills) {
  DeviceVector<float> from(testing::random_floats(999)), to(999);
  queue().copy(to.data(), from.data(), 999 * sizeof(float));
  EXPECT_EQ(to.read(), from.read());
  const float pattern = 3;
  queue().fill({to.data().memory, to.data().offset + 4}, &pattern, sizeof pattern, 8);
  const auto values = to.read();
  EXPECT_EQ(values[1], 3);
  EXPECT_EQ(values[2], 3);
  EXPECT_EQ(values[3], from.read()[3]);
}

// Work that takes long is not handed over without end: who waits for it, or interrupts the program, waits briefly.
TEST(Queue, TheHostDoesNotRunAheadWithoutEnd) {
  static Kernel* slow = device()
                            .programs()
                            .build(KernelSource::from_text(R"(
__kernel void slow(__global float *x, ulong at, int rounds) {
  float value = x[0];
  for (int i = 0; i < rounds; i++) value = value * 0.999f + 0.5f;
  x[0] = value;
})",
                                                           "slow"))
                            .release();  // the driver may be gone at exit
  DeviceVector<float> x(std::vector<float>{1});
  Queue own(device(), 1000);  // one that no other test has used
  cl_int rounds = 1000;
  for (double seconds = 0; seconds < 0.01;
       rounds *= 2) {  // a launch of more than 10 ms, whatever else the machine does
    seconds = 1;
    for (int i = 0; i < 3; i++) {
      const auto start = std::chrono::steady_clock::now();
      launch(own, *slow, NDRange(1), x.data(), rounds);
      own.finish();
      seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  for (int i = 0; i < 500; i++) {
    launch(own, *slow, NDRange(1), x.data(), rounds);
    EXPECT_LE(own.in_flight(), 300);  // not ASSERT: the memory is given back when the work is done
  }
  EXPECT_LE(own.in_flight(), 260);
  own.finish();
  EXPECT_EQ(own.in_flight(), 0);
}

TEST(Queue, ShortWorkIsBoundedByItsNumber) {
  DeviceVector<float> x(std::vector<float>(100, 1));
  for (int i = 0; i < 5000; i++) {
    add(queue(), x.data(), 100, 1);
    ASSERT_LE(queue().in_flight(), Backlog::most + Backlog::most / 8);
  }
  for (float value : x.read()) ASSERT_EQ(value, 5001);
}

TEST(Queue, ThreadsShareTheBound) {
  std::vector<std::thread> threads;
  DeviceVector<float> x(std::vector<float>(100, 0));
  for (int t = 0; t < 8; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; i++) add(queue(), x.data(), 100, 1);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_LE(queue().in_flight(), Backlog::most + Backlog::most / 8);
  for (float value : x.read()) ASSERT_EQ(value, 8000);
}

TEST(Status, BelongsToItsQueue) {
  DeviceVector<float> x(std::vector<float>{2e6f}), y(std::vector<float>{1});
  Queue& other = device().queue(3);
  add(queue(), x.data(), 1, 0);
  add(other, y.data(), 1, 0);
  EXPECT_NO_THROW(other.finish()) << "raised what another queue's kernel reported";
  EXPECT_THROW(queue().finish(), IndexError);
  EXPECT_NO_THROW(queue().finish());
}

TEST(Status, IsRaisedOnceAtTheNextSynchronization) {
  DeviceVector<float> x(std::vector<float>{1, 2e6f, 3});
  add(queue(), x.data(), 3, 0);
  try {
    queue().finish();
    FAIL() << "nothing was raised";
  } catch (const IndexError& error) {
    EXPECT_STREQ(error.what(), "add: element 1 too large");
  }
  EXPECT_NO_THROW(queue().finish());
  add(queue(), x.data(), 1, 0);
  EXPECT_NO_THROW(queue().finish());
}

TEST(Program, ReportsWhatTheCompilerSays) {
  try {
    device().programs().build(KernelSource::from_text("__kernel void f() { undeclared = 1; }", "f"));
    FAIL() << "built";
  } catch (const BuildError& error) {
    EXPECT_NE(error.log.find("undeclared"), std::string::npos);
  }
  EXPECT_THROW(device().programs().build(KernelSource("no_such_file.cl", "f")), Error);
  EXPECT_THROW(device().programs().build(KernelSource::from_text("__kernel void f() {}", "g")), DeviceError);
}

// Programs built with other options are others, also in the cache.
TEST(Program, TakesFurtherOptions) {
  const char* set = environment::text("DLPRIM_BUILD_OPTIONS");
  const std::string before = set ? set : "";
  DeviceVector<int> data(std::vector<int>(4, 0));
  for (const int number : {3, 5}) {
    const testing::Variable options("DLPRIM_BUILD_OPTIONS", number == 3 ? "-DNUMBER=3" : "-cl-opt-disable -DNUMBER=5");
    const auto kernel = device().programs().build(KernelSource::from_text(
        "__kernel void number(__global int *x, ulong at) { x[at / 4 + get_global_id(0)] = NUMBER; }", "number"));
    launch(queue(), *kernel, NDRange(4), data.data());
    EXPECT_EQ(data.read(), std::vector<int>(4, number));
  }
  static const testing::Variable again("DLPRIM_BUILD_OPTIONS", before.c_str());  // for the tests that follow
}

// More kernels than are kept: those not used for long are dropped, and are there again when they are launched.
TEST(Program, KernelsBeyondTheLimitAreDroppedAndLoadedAgain) {
  const testing::Variable limit("DLPRIM_PROGRAM_LIMIT", "8");
  DeviceVector<int> data(std::vector<int>(4, 0));
  std::vector<std::unique_ptr<Kernel>> kernels;
  const auto run = [&](std::size_t i) {
    launch(queue(), *kernels[i], NDRange(4), data.data());
    EXPECT_EQ(data.read(), std::vector<int>(4, int(i)));
  };
  for (std::size_t i = 0; i < 20; i++) {
    kernels.push_back(device().programs().build(
        KernelSource::from_text(
            "__kernel void number(__global int *x, ulong at) { x[at / 4 + get_global_id(0)] = NUMBER; }", "number")
            .define("NUMBER", std::int64_t(i))));
    run(i);
    run(0);  // used all the time
    EXPECT_LE(Kernel::loaded(), 8u);
  }
  for (std::size_t i = 0; i < 20; i++) run(i);
  std::vector<std::thread> threads;  // launches while others are dropped
  const Workspace scratch(queue(), 64);
  for (unsigned t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 40; i++) launch(queue(), *kernels[(i * (t + 1)) % 20], NDRange(4), scratch.data());
    });
  for (auto& thread : threads) thread.join();
  queue().finish();
  EXPECT_LE(Kernel::loaded(), 8u + 4u);  // those being launched stay
}

TEST(Profiler, RecordsKernelsAndCopies) {
  DeviceVector<float> x(std::vector<float>(100, 1));
  EXPECT_FALSE(Profiler::enabled());
  const auto first = Profiler::start();
  add(queue(), x.data(), 100, 1);
  x.read();
  const auto commands = Profiler::stop(first);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].name, "add");
  EXPECT_EQ(commands[1].bytes, 400u);
  EXPECT_GE(commands[1].start, commands[0].start);
  EXPECT_GE(commands[0].end, commands[0].start);
}

TEST(Program, SeveralThreadsLaunchOneKernel) {
  DeviceVector<float> x(std::vector<float>(64, 0));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; i++) add(queue(), x.data(), 64, 1);
    });
  for (auto& thread : threads) thread.join();
  for (float value : x.read()) ASSERT_EQ(value, 400);
}

// A kernel whose own array takes all of it, each word written and read.
TEST(Runtime, ArraysTakeTheLocalMemoryThatIsSaid) {
  const std::size_t bytes = static_local_memory(device());
  EXPECT_GE(bytes, device().info().local_memory);
  KernelSource source = KernelSource::from_text(R"(
#include "lib/types.clh"
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void fill(GLOBAL(uint, out)) {
  __local uint words[WORDS];
  for (uint i = get_local_id(0); i < WORDS; i += 64) words[i] = 3 * i + get_group_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  uint wrong = 0;
  for (uint i = get_local_id(0); i < WORDS; i += 64) wrong += words[WORDS - 1 - i] != 3 * (WORDS - 1 - i) + get_group_id(0);
  POINTER(uint, out)[get_global_id(0)] = wrong;
}
)",
                                                "fill");
  source.define("WORDS", std::int64_t(bytes / 4));
  const std::unique_ptr<Kernel> kernel = device().programs().build(source);
  DeviceVector<unsigned> wrong(std::vector<unsigned>(64 * 300, 1));
  launch(queue(), *kernel, NDRange(64 * 300, 64), wrong.data());
  EXPECT_EQ(wrong.read(), std::vector<unsigned>(64 * 300, 0));
}

}  // namespace
}  // namespace dlprim
