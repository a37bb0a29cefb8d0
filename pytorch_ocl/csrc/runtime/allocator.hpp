// SPDX-License-Identifier: MIT
#pragma once
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

namespace pytorch_ocl {

/// PyTorch's face of dlprim's caching allocators, one a device.
c10::DeviceAllocator& device_allocator();

/// Memory of `ptr` is used by work of `stream`, too.
void record_stream(const c10::DataPtr& ptr, c10::Stream stream);

}  // namespace pytorch_ocl
