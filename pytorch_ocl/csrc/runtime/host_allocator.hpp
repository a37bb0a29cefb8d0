// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>

namespace pytorch_ocl {

/// Allocator of pinned host memory, which the current device reads and writes without blocking.
at::HostAllocator& host_allocator();

/// Whether an address lies in pinned memory.
bool is_pinned(const void* address);

/// Keeps a pinned tensor's memory from being reused before the work enqueued on `stream` has run.
void record_pinned(const at::Tensor& tensor, c10::Stream stream);

}  // namespace pytorch_ocl
