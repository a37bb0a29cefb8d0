// SPDX-License-Identifier: MIT
// Devices, streams and events as PyTorch asks for them.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "allocator.hpp"
#include "backward.hpp"
#include "device.hpp"
#include "errors.hpp"
#include "recorded_as.hpp"

namespace pytorch_ocl {

namespace {

dlprim::Event& event_of(void* event) { return *static_cast<dlprim::Event*>(event); }

c10::Stream stream(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(device_type, index), id);
}

class OclGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  static constexpr c10::DeviceType static_type = device_type;

  c10::DeviceType type() const override { return device_type; }
  c10::Device getDevice() const override { return {device_type, current_device()}; }
  void setDevice(c10::Device device) const override {
    if (device.index() >= 0) set_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) set_device_unchecked(device.index());
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device former = getDevice();
    setDevice(device);
    return former;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return backward::hides_devices ? 0 : device_count(); }

  c10::DeviceCapability getDeviceCapability(c10::Device where) const override {
    c10::DeviceCapability capability;
    if (!device(where.index()).info().fp64) {
      capability.capability_data.supported_scalar_types.has_Double = 0;
      capability.capability_data.supported_scalar_types.has_ComplexDouble = 0;
    }
    return capability;
  }

  c10::Stream getStream(c10::Device device) const override {
    start_backward_threads();
    return current_stream(device.index());
  }
  c10::Stream getDefaultStream(c10::Device where) const override { return stream(resolve_device(where.index()), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device where, bool) const override { return getNewStream(where, 0); }
  c10::Stream getNewStream(c10::Device where, int) const override { return new_stream(resolve_device(where.index())); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return queue_of(stream).get(); }
  bool queryStream(const c10::Stream& stream) const override {
    return translated([&] { return queue_of(stream).idle(); });
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    translated([&] { queue_of(stream).finish(); });
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    translated([&] { device(index).synchronize(); });
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (!*event) *event = new dlprim::Event;
    if (const dlprim::Event* other = RecordedAs::current()) event_of(*event) = *other;
    else translated([&] { event_of(*event) = queue_of(stream).record(); });
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) translated([&] { queue_of(stream).wait(event_of(event)); });
  }
  bool queryEvent(void* event) const override {
    return !event || translated([&] { return event_of(event).reached(); });
  }
  void synchronizeEvent(void* event) const override {
    if (event) translated([&] { event_of(event).wait(); });
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<dlprim::Event*>(event);
  }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    TORCH_CHECK(first && second, "Both events must be recorded before calculating elapsed time.");
    return translated([&] {
      const auto start = event_of(first).nanoseconds(), end = event_of(second).nanoseconds();
      return (double(end) - double(start)) * 1e-6;
    });
  }

  void recordDataPtrOnStream(const c10::DataPtr& ptr, const c10::Stream& stream) const override {
    record_stream(ptr, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, OclGuard)

}  // namespace

}  // namespace pytorch_ocl
