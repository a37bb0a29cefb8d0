// SPDX-License-Identifier: MIT
#pragma once
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <vector>

#include "shared_segment.hpp"

namespace pytorch_ocl::distributed {

/// What suits all ranks of a group, which call it together: the least of what they propose, bytes. Where one has no say,
/// 0, that is its own proposal. Raises DistBackendError where ranks do not come in time.
std::int64_t agreed_piece(c10d::Store& store, int rank, int size, std::int64_t proposal,
                          std::chrono::milliseconds timeout);

/// Whether all ranks give the same text, which is not empty. Raises DistBackendError where ranks do not come in time.
bool are_alike(c10d::Store& store, int rank, int size, const std::string& trait, std::chrono::milliseconds timeout);

/// Whether all ranks say yes; one that says no does not wait for the others. Raises DistBackendError where ranks do not
/// come in time.
bool all_agree(c10d::Store& store, int rank, int size, bool yes, std::chrono::milliseconds timeout);

/// The segments of all ranks of a group, by rank, this rank's own among them, where all ranks can reach all of them;
/// otherwise none, on every rank alike, and `reason` says why on the first. Every rank calls it with the same `bytes`.
/// Raises DistBackendError where ranks do not come in time.
std::vector<SharedSegment> share_segments(c10d::Store& store, int rank, int size, std::size_t bytes,
                                          std::chrono::milliseconds timeout, std::string& reason);

}  // namespace pytorch_ocl::distributed
