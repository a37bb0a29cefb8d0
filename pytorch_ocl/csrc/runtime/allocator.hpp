// SPDX-License-Identifier: MIT
#pragma once
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>

namespace pytorch_ocl {

/// PyTorch's face of dlprim's caching allocators, one a device.
c10::DeviceAllocator& device_allocator();

/// Makes the context of a storage's memory its address, as PyTorch expects of storages that are cloned lazily. Memory that
/// is not this allocator's stays as it is.
void make_simple(c10::StorageImpl& storage);

/// Memory of `ptr` is used by work of `stream`, too.
void record_stream(const c10::DataPtr& ptr, c10::Stream stream);

}  // namespace pytorch_ocl
