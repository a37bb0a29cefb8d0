// SPDX-License-Identifier: MIT
#pragma once
#include <c10/core/Device.h>
#include <dlprim/runtime/peer_memory.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <vector>

namespace pytorch_ocl::distributed {

/// A piece of every rank's memory that the devices of all ranks read and write.
class Windows {
 public:
  /// Windows of `bytes` on the devices that ranks name; null, on every rank alike, where one has none, does not want any
  /// or does not reach all. Every rank of the group calls it. Raises DistBackendError where ranks do not come in time.
  static std::unique_ptr<Windows> share(c10d::Store& store, int rank, int size, c10::DeviceIndex where,
                                        std::size_t bytes, bool wanted, std::chrono::milliseconds timeout);

  /// The ranks' windows as buffers of a device of this process, not to outlive this object. Raises RuntimeError where it
  /// does not reach them.
  std::vector<cl::Buffer> buffers(c10::DeviceIndex device);

 private:
  explicit Windows(std::vector<dlprim::PeerMemory> memories) : memories_(std::move(memories)) {}
  std::vector<dlprim::PeerMemory> memories_;
};

}  // namespace pytorch_ocl::distributed
