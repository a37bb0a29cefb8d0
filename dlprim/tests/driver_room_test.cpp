// SPDX-License-Identifier: MIT
#include "driver_room.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "testing.hpp"

using namespace dlprim;
using namespace dlprim::testing;
using namespace std::chrono_literals;

// A queue that waits for what another thread's command will end.
TEST(DriverRoom, HoldsUpWhoHandsOverTooMuchAndNobodyElse) {
  cl_int code = CL_SUCCESS;
  const cl::Event begin(clCreateUserEvent(device().context()(), &code));
  ASSERT_EQ(code, CL_SUCCESS);
  const cl_command_queue held = device().queue(2).get();
  const cl_event wait_for = begin();
  ASSERT_EQ(clEnqueueBarrierWithWaitList(held, 1, &wait_for, nullptr), CL_SUCCESS);
  DriverRoom room;
  constexpr int count = 3000;
  std::atomic<int> handed{0};
  std::thread other([&] {
    for (; handed < count; handed++) {
      if (clEnqueueMarkerWithWaitList(held, 0, nullptr, nullptr) != CL_SUCCESS) break;
      room.enqueued(held);
    }
  });
  while (handed < 700) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(handed, 980);
  const DeviceVector<float> data(std::vector<float>{1, 2});
  EXPECT_EQ(data.read(), (std::vector<float>{1, 2}));
  EXPECT_EQ(clSetUserEventStatus(begin(), CL_COMPLETE), CL_SUCCESS);
  other.join();
  EXPECT_EQ(handed, count);
  EXPECT_EQ(clFinish(held), CL_SUCCESS);
}
