// SPDX-License-Identifier: MIT
// Copies between a device's tensors and memory that ranks share.
#pragma once
#include <dlprim/runtime/registered_memory.hpp>

#include <deque>

#include "exchange.hpp"

namespace pytorch_ocl::distributed {

/// How devices read and write shared memory.
enum class HostAccess {
  measured,  ///< whichever of the others is faster
  direct,  ///< the driver copies from and to it; it is made known to the driver where that is possible
  staged,  ///< through pinned memory, which threads of the host copy from and to it
};

/// One direction of a device's copies, used by one thread. Pieces end in the order in which they were begun.
class Lane {
 public:
  /// Measuring overwrites the first slot of this rank's segment.
  Lane(c10::Stream stream, const std::vector<SharedSegment>& segments, int rank, const Layout& layout,
       HostAccess access, bool to_host);
  ~Lane();
  Lane(const Lane&) = delete;

  /// Begins the copies of a piece; `done` runs in a later call once they have ended, wait_for_all() at the latest.
  void begin(const Memory& tensor, const std::vector<Move>& moves, std::size_t slot, std::function<void()> done);
  /// Ends the oldest pieces until less than two are under way.
  void wait_for_room();
  void wait_for_all();
  c10::Stream stream() const noexcept { return stream_; }

 private:
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  struct Pending {
    dlprim::Event event;
    std::vector<Copy> copies{};  // within the host, once the event has been reached
    std::function<void()> done;
  };
  void end_oldest();
  std::size_t offset(const Move& move, std::size_t slot) const;
  bool register_segments();
  bool is_fast(int rank) const;

  c10::Stream stream_;
  const std::vector<SharedSegment>& segments_;
  const Layout& layout_;
  bool to_host_, direct_ = true;
  std::vector<dlprim::RegisteredMemory> registered_;
  std::vector<at::Tensor> pinned_;  // where not direct: as many as pieces may be under way
  std::size_t next_ = 0;
  std::deque<Pending> pending_;
};

}  // namespace pytorch_ocl::distributed
