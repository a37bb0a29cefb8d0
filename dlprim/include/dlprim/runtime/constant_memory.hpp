// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>
#include <dlprim/tensor_view.hpp>

#include <memory>

namespace dlprim {

/// Device memory that is filled when it is made and read by kernels of any queue, for tables of numbers. It is no part of
/// what Allocator counts, and making it does not wait for the device. Throws OutOfMemoryError.
class ConstantMemory {
 public:
  ConstantMemory(Device& device, const void* content, std::size_t bytes);
  BufferRef data() const noexcept { return {buffer_(), 0}; }

 private:
  cl::Buffer buffer_;
};

}  // namespace dlprim
