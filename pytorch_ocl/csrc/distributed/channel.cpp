// SPDX-License-Identifier: MIT
#include "channel.hpp"

namespace pytorch_ocl::distributed {

namespace {

// How long the end of a group waits for ranks that do not move on.
constexpr auto farewell = std::chrono::seconds(3);

}  // namespace

Channel::Channel(std::vector<SharedSegment> segments, int rank)
    : segments_(std::move(segments)), rank_(rank), ranks_(int(segments_.size())) {}

void Channel::abort(const std::string& reason) {
  close(std::make_exception_ptr(
      c10::DistBackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, reason)));
}

void Channel::close(std::exception_ptr error) noexcept {
  std::lock_guard guard(error_mutex_);
  if (!error_) error_ = std::move(error);
  closed_ = true;
  segments_[rank_].header().failed.reach(1);
}

std::exception_ptr Channel::error() const {
  if (!closed_) return nullptr;
  std::lock_guard guard(error_mutex_);
  return error_;
}

void Channel::check_open() const {
  if (const std::exception_ptr found = error()) std::rethrow_exception(found);
}

void Channel::check_rank(int rank, bool gone, std::chrono::steady_clock::duration waited,
                         std::chrono::milliseconds timeout) const {
  TORCH_CHECK_WITH(DistBackendError, !gone, "Connection closed by peer: rank ", rank, " of the group has ended");
  TORCH_CHECK_WITH(DistBackendError, !segments_[rank].header().failed.has_reached(1) || rank == rank_, "Rank ", rank,
                   " of the group has stopped with an error");
  TORCH_CHECK_WITH(DistBackendError, waited < timeout, "Timed out waiting ", timeout.count(), "ms for rank ", rank,
                   " of the group to take part in a collective");
  TORCH_CHECK_WITH(DistBackendError, !ending_ || waited < farewell, "The process group was destroyed while rank ", rank,
                   " had not taken part in a collective");
}

void Channel::refuse(const Signature& own, int rank, const Signature& other) const {
  TORCH_CHECK(false, "Ranks of a group called collectives that do not match: rank ", rank_, " (kind ", own.kind,
              ", dtype ", own.dtype, ", operation ", own.operation, ", root ", own.root, ", ", own.bytes,
              " bytes) and rank ", rank, " (kind ", other.kind, ", dtype ", other.dtype, ", operation ",
              other.operation, ", root ", other.root, ", ", other.bytes, " bytes)");
}

}  // namespace pytorch_ocl::distributed
