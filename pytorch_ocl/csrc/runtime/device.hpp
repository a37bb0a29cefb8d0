// SPDX-License-Identifier: MIT
// The calling thread's current device and streams.
#pragma once
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <dlprim/runtime/host_memory.hpp>
#include <dlprim/runtime/queue.hpp>

#include "errors.hpp"

namespace pytorch_ocl {

inline constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;

/// Number of devices; 0 when OpenCL offers none. Never throws, and loads no driver into this process.
c10::DeviceIndex device_count() noexcept;
c10::DeviceIndex current_device();
/// Raises RuntimeError "ocl: invalid device ordinal ..." for an index that does not exist.
void set_device(c10::DeviceIndex index);
void set_device_unchecked(c10::DeviceIndex index) noexcept;
/// `index`, or the current device for -1; checked.
c10::DeviceIndex resolve_device(c10::DeviceIndex index);
/// The device, initialized. Raises RuntimeError in a process that was forked after OpenCL had been used.
dlprim::Device& device(c10::DeviceIndex index);
/// Whether a device has been used in this process.
bool initialized() noexcept;
/// Calls `visit` with every device that has been used in this process.
template <class Visit>
void for_each_used_device(Visit&& visit) {
  if (!initialized()) return;
  for (c10::DeviceIndex i = 0; i < device_count(); i++)
    if (dlprim::Device& each = dlprim::Device::get(i); each.initialized()) translated([&] { visit(each); });
}
/// True in a process forked after OpenCL had been used: contexts do not survive a fork.
bool in_bad_fork() noexcept;

c10::Stream current_stream(c10::DeviceIndex index);
/// Makes `stream` its device's current one; returns the former.
c10::Stream exchange_stream(c10::Stream stream);
dlprim::Queue& queue_of(c10::Stream stream);

/// Gives a program a stream beside the default one. Copies from the host, which need not have ended when they return
/// (dlprim::Queue::write), come before its work; later ones end first, so that no stream has to wait for them: as with CUDA.
c10::Stream new_stream(c10::DeviceIndex index);
/// Whether programs have had one.
bool has_new_streams(c10::DeviceIndex index) noexcept;

}  // namespace pytorch_ocl
