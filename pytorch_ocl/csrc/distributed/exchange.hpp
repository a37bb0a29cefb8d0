// SPDX-License-Identifier: MIT
// Which bytes each piece of a collective moves between devices and the ranks' segments.
#pragma once
#include "host_reduce.hpp"
#include "shared_segment.hpp"
#include "staging.hpp"

namespace pytorch_ocl::distributed {

/// Elements that ranks' shares are multiples of, so that they begin where vectors do.
inline constexpr std::size_t share_unit = 64;

inline std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

/// The memory of a tensor, kept from being given back to the driver. Programs may free the tensor's storage once a
/// stream waits for the collective (FSDP does): what reuses it then runs later.
struct Memory {
  Memory() = default;
  /// Raises RuntimeError where the tensor has no memory.
  explicit Memory(const at::Tensor& tensor);

  dlprim::BufferRef where{};

 private:
  cl::Buffer kept_{};
};

/// A collective on one flat tensor of each rank, as shared memory runs it.
struct Exchange {
  enum class Kind : std::int32_t {
    all_reduce,  ///< all ranks get all inputs reduced
    reduce_scatter,  ///< rank r gets part r of the inputs reduced
    all_gather,  ///< all ranks get all inputs, one behind the other
    all_to_all,  ///< rank r gets part r of all inputs, one behind the other
    broadcast,  ///< all ranks get the root's input
  };
  Kind kind;
  at::Tensor input, output;  ///< contiguous; of broadcast, the same
  Operation operation = Operation::SUM;
  int root = 0;
  Images after{};  ///< what `output` is copied to in the end
  bool on_devices = false;  ///< of reductions between two: each device combines what the other rank sent with its own
  Memory from{}, to{};  ///< of `input` and `output`, once resolve() was called

  /// To be called before the caller goes on; where output is written to, it shares memory with no lazy clone then.
  void resolve();
  bool reduces() const noexcept { return kind == Kind::all_reduce || kind == Kind::reduce_scatter; }
  Signature signature() const;
};

/// Where a rank's segment holds what: in each slot the inputs of a piece, and what the rank has reduced of it.
struct Layout {
  std::size_t inputs = 0, results = 0;  ///< bytes of a slot

  static Layout of(std::size_t piece_bytes, int ranks);
  std::size_t input(std::size_t slot) const noexcept { return slot * (inputs + results); }
  std::size_t result(std::size_t slot) const noexcept { return input(slot) + inputs; }
  std::size_t bytes() const noexcept { return input(SharedHeader::slots); }
};

/// Bytes that move between a device's tensor and a slot.
struct Move {
  int rank;  ///< whose segment
  bool result;  ///< from its results rather than its inputs
  std::size_t in_slot, in_tensor, bytes;
};

/// An exchange cut into pieces, as one rank sees it.
class Plan {
 public:
  Plan(const Exchange& exchange, const Layout& layout, int rank, int ranks);

  std::uint32_t pieces() const noexcept { return std::uint32_t((count_ + step_ - 1) / step_); }
  /// Elements of a piece.
  struct Extent {
    std::size_t begin, count;
  };
  Extent extent(std::uint32_t piece) const noexcept;
  /// From the input to this rank's slot.
  std::vector<Move> sent(std::uint32_t piece) const;
  /// From slots to the output.
  std::vector<Move> received(std::uint32_t piece) const;
  /// What this rank reduces: elements of every rank's inputs.
  struct Share {
    std::size_t in_slot, count;  ///< bytes, elements
  };
  Share share(std::uint32_t piece) const;
  /// With `on_devices`: from the other rank's slot to memory that holds a piece, and the first element of this rank's
  /// input that it is added to in the first piece.
  std::vector<Move> other(std::uint32_t piece) const;
  std::size_t own_begin() const noexcept { return kind_ == Exchange::Kind::reduce_scatter ? rank() * count_ : 0; }

 private:
  Extent share_of(int rank, std::size_t count) const noexcept;
  std::size_t rank() const noexcept { return std::size_t(rank_); }
  // Whether an input has a part for each rank.
  bool scatters() const noexcept {
    return kind_ == Exchange::Kind::reduce_scatter || kind_ == Exchange::Kind::all_to_all;
  }

  Exchange::Kind kind_;
  int root_, rank_, ranks_;
  bool on_devices_;
  std::size_t item_, count_, step_;
};

}  // namespace pytorch_ocl::distributed
