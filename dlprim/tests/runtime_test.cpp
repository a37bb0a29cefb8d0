// SPDX-License-Identifier: MIT
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/profile.hpp>
#include <dlprim/runtime/status.hpp>

#include <thread>

#include "device_list.hpp"
#include "driver_defects.hpp"
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
  DeviceStatus& status = device().status();
  launch(on, add_kernel(), NDRange(size), data, value, status.buffer(), status.arm(on, "add: element %lld too large"));
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
  EXPECT_NE(driver_defect(info, ""), nullptr);
  info.driver = "24.0.1";
  EXPECT_EQ(driver_defect(info, ""), nullptr);
  info.driver = "22.3.6", info.platform = "another";
  EXPECT_EQ(driver_defect(info, "random_each.cl:generate_each"), nullptr);
}

TEST(Queue, HalvesWorkGroupsThatAreTooLarge) {
  DeviceStatus& status = device().status();
  DeviceVector<float> x(std::vector<float>(1 << 20, 1));
  launch(queue(), add_kernel(), NDRange(1 << 20, 1 << 20), x.data(), 1.0f, status.buffer(),
         status.arm(queue(), "too large"));
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

}  // namespace
}  // namespace dlprim
