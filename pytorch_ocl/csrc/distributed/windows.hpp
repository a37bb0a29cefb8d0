// SPDX-License-Identifier: MIT
#pragma once
#include <c10/core/Device.h>
#include <dlprim/primitives/peer_exchange.hpp>
#include <dlprim/runtime/peer_memory.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <vector>

namespace pytorch_ocl::distributed {

/// A queue for exchanges of a process group. CPUs run few kernels at once: there all groups have the same one, and their
/// exchanges must come in one order on all ranks.
dlprim::Queue& queue_for_exchanges(dlprim::Device& device);

/// A piece of every rank's memory that the devices of all ranks read and write.
class Windows {
 public:
  /// Windows on the devices that ranks name; null, on every rank alike, where one has none, does not want any or does not
  /// reach all, or ranks share a device. Every rank of the group calls it; one exchange between them has been run then.
  /// Raises DistBackendError where ranks do not come in time.
  static std::unique_ptr<Windows> share(c10d::Store& store, int rank, int size, c10::DeviceIndex where, bool wanted,
                                        std::chrono::milliseconds timeout);

  /// By which a device of this process, on which `rank` runs, exchanges; not to outlive this object. Raises RuntimeError
  /// where the device does not reach all windows.
  dlprim::PeerExchange peers(c10::DeviceIndex device, int rank);

 private:
  explicit Windows(std::vector<dlprim::PeerMemory> memories) : memories_(std::move(memories)) {}
  std::vector<dlprim::PeerMemory> memories_;
};

}  // namespace pytorch_ocl::distributed
