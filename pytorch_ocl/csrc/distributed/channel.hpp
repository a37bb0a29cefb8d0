// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "exchange.hpp"

namespace pytorch_ocl::distributed {

/// Runs exchanges of a group's ranks on one host in the order in which they are given, on every rank the same. A rank that
/// dies, is aborted or does not come in time ends all exchanges, these and later ones, with DistBackendError.
class Channel {
 public:
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;

  /// Starts one that reads its input after `ready`; `work` gets a part's end.
  virtual void start(Exchange exchange, ProgressPtr work, dlprim::Event ready, const Streams& streams,
                     std::chrono::milliseconds timeout) = 0;
  /// Whether exchanges of a device have been started before. The first of them may wait for the device's queues.
  virtual bool serves(c10::DeviceIndex device) const noexcept = 0;
  /// Ends everything under way with an error; may be called from any thread.
  void abort(const std::string& reason);
  /// Throws what has ended all exchanges, where something has.
  void check_open() const;

 protected:
  Channel(std::vector<SharedSegment> segments, int rank);
  /// Ends everything with an error, the first of which counts.
  virtual void close(std::exception_ptr error) noexcept;
  /// What has ended all exchanges, or null.
  std::exception_ptr error() const;
  /// Throws where a rank that this one has waited for will not come. `gone`: its process had ended before it was seen not
  /// to have come.
  void check_rank(int rank, bool gone, std::chrono::steady_clock::duration waited,
                  std::chrono::milliseconds timeout) const;
  [[noreturn]] void refuse(const Signature& own, int rank, const Signature& other) const;

  std::vector<SharedSegment> segments_;
  const int rank_, ranks_;
  std::atomic<bool> closed_{false}, ending_{false};

 private:
  mutable std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace pytorch_ocl::distributed
