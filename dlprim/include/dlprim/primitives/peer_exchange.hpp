// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/dtype.hpp>
#include <dlprim/runtime/queue.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace dlprim {

/// Parts of a tensor, one for each rank. Part r begins at byte r * stride, or all are the same one where that is 0. A part
/// has `part` bytes, or less where `total` ends before.
struct PeerParts {
  BufferRef data;
  std::uint64_t stride = 0, part = 0, total = UINT64_MAX;
};

/// What is done with the numbers of all ranks. Of bool, sum and maximum are "or", the others "and"; average is of floats,
/// and of complex numbers there is a sum alone.
enum class PeerOperation : std::uint8_t { sum, average, product, minimum, maximum };

/// What ranks take part in, in words of the caller's; all give the same.
using PeerCall = std::array<std::uint64_t, 3>;

/// Exchanges between the devices of several ranks, mostly processes, by kernels that write to each other's memory
/// (PeerMemory) and wait for each other there: no host takes part in them. All ranks make the same calls in the same order.
///
/// A kernel ends when all ranks have run theirs, or when abort() is called. It keeps a few compute units busy until then.
/// Devices that run several ranks would have to run their kernels at once.
class PeerExchange {
 public:
  static constexpr int most_ranks = 8;

  /// Whether a device has what such kernels need: GPUs of NVIDIA from compute capability 7.0, and CPUs.
  static bool runs_on(const DeviceInfo& device) noexcept;
  /// What each rank's memory must have.
  static std::size_t window_bytes(int ranks) noexcept;
  /// To be called once for each window, by its owner, before any rank's first call.
  static void clear(Queue& queue, BufferRef window);

  /// `windows`: every rank's, 2 to most_ranks, as buffers of the device that will run the kernels. `host`: the own one
  /// where it is memory of the host, which is then not accessed by commands: a CPU's threads may all be waiting.
  PeerExchange(std::vector<cl::Buffer> windows, int rank, std::byte* host);

  /// Sends part p of `from` to each rank p, which receives from rank r, of those whose bit of `senders` is set, part r of
  /// its `to`. With `own`, this rank's part is copied as well. `number` counts a rank's calls. Where ranks' `call`
  /// differs, kernels wait until abort(). Throws DeviceError.
  void run(Queue& queue, const PeerParts& from, const PeerParts& to, std::uint32_t senders, bool own,
           std::uint32_t number, const PeerCall& call);

  /// Sends part p of `from` to each rank p; `to` gets this rank's part and what the others sent, reduced in their order and
  /// rounded once, floats of 16 bits from float32. `to` has one part, which may be this rank's of `from`. As run() else.
  /// Throws Error for what has no such operation.
  void reduce(Queue& queue, const PeerParts& from, const PeerParts& to, DataType type, PeerOperation operation,
              std::uint32_t number, const PeerCall& call);

  /// Ends all kernels of this rank that wait now or will; `queue` is one in which none of them is.
  void abort(Queue& queue);
  /// A rank that takes part in something else than this one, which waits, and in what.
  struct Mismatch {
    int rank;
    PeerCall call;
  };
  std::optional<Mismatch> mismatch(Queue& queue);

 private:
  struct Kind;
  void launch(Queue& queue, const Kind& kind, const PeerParts& from, const PeerParts& to, std::uint32_t senders,
              bool own, std::uint32_t number, const PeerCall& call);
  void read(Queue& queue, void* to, std::size_t offset, std::size_t bytes) const;

  std::vector<cl::Buffer> windows_;
  int rank_;
  std::byte* host_;
};

}  // namespace dlprim
