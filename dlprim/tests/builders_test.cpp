// SPDX-License-Identifier: MIT
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/launch.hpp>

#include <deque>
#include <thread>

#include "builders.hpp"
#include "compilers.hpp"
#include "testing.hpp"

namespace dlprim {
namespace {

using namespace testing;

KernelSource fill_source(int value, const char* body = "x[at / 4 + get_global_id(0)] = VALUE;") {
  KernelSource source =
      KernelSource::from_text(std::string("__kernel void fill(__global int *x, ulong at) { ") + body + " }", "fill");
  source.define("VALUE", value);
  return source;
}

// Kernels are not released: drivers may be gone when static objects are destroyed.
Kernel& begin(KernelSource source) {
  auto* kernel = new Kernel(device(), std::move(source));
  Builders::instance().add(*kernel);
  return *kernel;
}

TEST(Builders, LaunchesWaitForTheirKernels) {
  constexpr int count = 6;
  std::deque<DeviceVector<int>> filled;
  for (int i = 0; i < count; i++) {
    filled.emplace_back(100);
    launch(queue(), begin(fill_source(i + 1000)), NDRange(100), filled.back().data());
  }
  for (int i = 0; i < count; i++) EXPECT_EQ(filled[std::size_t(i)].read(), std::vector<int>(100, i + 1000));
}

TEST(Builders, AKernelThatDoesNotBuildIsAnErrorEachTime) {
  Kernel& kernel = begin(fill_source(1, "undeclared = 1;"));
  EXPECT_THROW(kernel.max_work_group(), BuildError);
  DeviceVector<int> x(std::vector<int>(8, 5));
  for (int i = 0; i < 2; i++)
    EXPECT_THROW(
        {
          launch(queue(), kernel, NDRange(8), x.data());
          queue().finish();
        },
        BuildError);
  EXPECT_EQ(x.read(), std::vector<int>(8, 5));
}

TEST(Builders, WhoHasAnotherWayWaits) {
  EXPECT_FALSE(BuildNow::wanted());
  {
    const BuildNow outer, inner;
    EXPECT_TRUE(BuildNow::wanted());
    EXPECT_THROW(device().programs().begin(fill_source(2, "undeclared = 2;")), BuildError);
    std::thread([] { EXPECT_FALSE(BuildNow::wanted()); }).join();
  }
  EXPECT_FALSE(BuildNow::wanted());
  EXPECT_THROW(device().programs().begin(fill_source(3, "undeclared = 3;").build_now()), BuildError);
}

TEST(Builders, WorkGroupsAreNoLargerThanAllowed) {
  Kernel& kernel = begin(fill_source(4));
  EXPECT_EQ(kernel.work_group(1), 1U);
  EXPECT_LE(kernel.work_group(256), device().info().max_work_group);
  EXPECT_LE(kernel.work_group(256), kernel.max_work_group());
  EXPECT_EQ(kernel.work_group(1 << 30), kernel.max_work_group());
}

#ifndef _WIN32
// DLPRIM_COMPILERS for a scope.
class Processes {
 public:
  explicit Processes(const char* count) {
    if (const char* value = environment::raw("DLPRIM_COMPILERS")) before_ = value;
    set(count);
  }
  ~Processes() { set(before_.c_str()); }
  Processes(const Processes&) = delete;

 private:
  static void set(const char* value) {
    setenv("DLPRIM_COMPILERS", value, 1);
    environment::reread();
  }
  std::string before_;
};

TEST(Compilers, AnotherProcessCompilesWhileThisOneDoes) {
  const Processes one("1");
  Compilers compilers(device());
  const Compilers::Turn here(compilers);
  std::string binary;
  for (int round = 0; round < 2; round++) {
    Compilers::Turn there(compilers);
    binary = there.elsewhere("-w", "", "__kernel void f(__global int *x) { x[0] = 7; }\n");
    ASSERT_FALSE(binary.empty());
  }
  compilers.close_idle();
  cl_int code = CL_SUCCESS;
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t size = binary.size();
  const cl_device_id id = device().id();
  const cl::Program program(clCreateProgramWithBinary(device().context()(), 1, &id, &size, &bytes, nullptr, &code));
  EXPECT_EQ(code, CL_SUCCESS);
  EXPECT_EQ(clBuildProgram(program(), 1, &id, "-w", nullptr, nullptr), CL_SUCCESS);
}

// What this process compiles makes its driver keep others waiting with what they have built.
TEST(Compilers, ThisProcessLeavesAllToOthersOnceTheyAnswer) {
  const Processes one("1");
  Compilers compilers(device());
  auto compile = [&](Compilers::Turn& turn) {
    return turn.elsewhere("-w", "", "__kernel void f(__global int *x) { x[0] = 7; }\n");
  };
  {
    Compilers::Turn first(compilers), second(compilers);
    EXPECT_EQ(compile(first), "");
    EXPECT_NE(compile(second), "");
  }
  for (int i = 0; i < 2; i++) {
    Compilers::Turn later(compilers);
    EXPECT_NE(compile(later), "");
  }
  compilers.close_idle();
  Compilers::Turn again(compilers);
  EXPECT_EQ(compile(again), "");
}

TEST(Compilers, WhatTheOtherProcessCannotBuildComesBack) {
  const Processes one("1");
  Compilers compilers(device());
  auto here = std::make_unique<Compilers::Turn>(compilers);
  Compilers::Turn there(compilers);
  std::thread soon([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    here.reset();
  });
  EXPECT_EQ(there.elsewhere("-w", "", "no OpenCL C"), "");  // and this process may compile now, once it has the turn
  soon.join();
  Compilers::Turn next(compilers);  // the other process serves on
  EXPECT_FALSE(next.elsewhere("-w", "", "__kernel void f(__global int *x) { x[0] = 7; }\n").empty());
}

TEST(Compilers, NoneCanBeWanted) {
  const Processes none("0");
  Compilers compilers(device());
  Compilers::Turn turn(compilers);
  EXPECT_EQ(turn.elsewhere("-w", "", "__kernel void f(__global int *x) { x[0] = 7; }\n"), "");
}
#endif

}  // namespace
}  // namespace dlprim
