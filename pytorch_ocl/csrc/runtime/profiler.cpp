// SPDX-License-Identifier: MIT
// torch.profiler: kernels and copies as rows and traces (Kineto), and events around operators for the
// profiler without Kineto.
#include <dlprim/runtime/profile.hpp>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>

#include "device.hpp"
#include "errors.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

std::int64_t host_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

const dlprim::Event& event_of(const ProfilerVoidEventStub* stub) {
  TORCH_CHECK(stub && *stub, "profiler: expected a recorded event");
  return *static_cast<const dlprim::Event*>(stub->get());
}

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* index, ProfilerVoidEventStub* event, std::int64_t* cpu_ns) const override {
    if (index) *index = current_device();
    *event = translated([] { return std::make_shared<dlprim::Event>(current_queue().mark_enqueued()); });
    if (cpu_ns) *cpu_ns = host_nanoseconds();
  }
  float elapsed(const ProfilerVoidEventStub* first, const ProfilerVoidEventStub* second) const override {
    return translated(
        [&] { return float(double(event_of(second).nanoseconds()) - double(event_of(first).nanoseconds())) * 1e-3f; });
  }
  // OpenCL has nothing that shows marks and ranges.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return device_count() > 0; }
  void onEachDevice(std::function<void(int)> visit) const override {
    const c10::DeviceIndex former = current_device();
    for (c10::DeviceIndex i = 0; i < device_count(); i++) {
      set_device(i);
      visit(i);
    }
    set_device(former);
  }
  void synchronize() const override {
    for_each_used_device([](dlprim::Device& device) { device.synchronize(); });
  }
};

[[maybe_unused]] const bool registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(new Stubs);
  return true;
}();

}  // namespace

}  // namespace pytorch_ocl
