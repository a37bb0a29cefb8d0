// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/capture.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "generator.hpp"

namespace pytorch_ocl {

/// Where a generator is at the beginning of a replay, or any time for one that was seeded within the graph.
struct ReplayStart {
  PhiloxState state{};
  bool known = false;  // a replay has begun
  bool fixed = false;  // every replay has the same
};

/// A capture in which random numbers are drawn: each replay draws those that the work itself would. Within it, states of
/// generators stand for what they will be, and may be set back, in other captures and behind replays, too.
class GraphCapture final : public dlprim::Capture {
 public:
  explicit GraphCapture(dlprim::Queue& queue, std::shared_ptr<dlprim::MemoryPool> pool);
  ~GraphCapture() override;

  // Hold the generator's mutex.
  /// What kernels are given for a state, until replay() knows it.
  PhiloxState draw(OclGenerator& generator, std::uint64_t counters);
  PhiloxState state(OclGenerator& generator);
  /// Throws dlprim::Error for one of a graph that is gone.
  void set_state(OclGenerator& generator, PhiloxState state);

  /// What kernels are given for `drawn`, of another graph or of this.
  PhiloxState draw_again(PhiloxState drawn);
  /// What draw() or state() of any capture gave, as of its last replay; others as they are. Throws dlprim::Error where
  /// there was none.
  static PhiloxState last(PhiloxState drawn);

  bool draws() const noexcept { return !generators_.empty() || !draws_.empty(); }
  void replay(dlprim::Queue& in);

 private:
  using Start = std::shared_ptr<ReplayStart>;
  struct Position {
    Start start;
    std::uint64_t offset = 0;
  };
  struct Generator {
    c10::intrusive_ptr<OclGenerator> generator;
    Start own;
    Position now;  // after what was captured so far
  };
  Generator& entry(OclGenerator& generator);
  PhiloxState drawn_from(const Position& position);

  std::mutex draws_mutex_;
  std::vector<Position> draws_;  // in the order of their placeholders
  std::map<OclGenerator*, Generator> generators_;
  std::vector<std::uint64_t> names_;  // of positions that others may ask for
};

/// The capture of a device's current stream, held for short; none of devices that were not used yet.
class CurrentGraph {
 public:
  explicit CurrentGraph(c10::Device device);
  explicit operator bool() const noexcept { return graph_; }
  GraphCapture* operator->() const noexcept { return graph_; }

 private:
  std::optional<dlprim::CapturePin> pin_;
  GraphCapture* graph_ = nullptr;
};

}  // namespace pytorch_ocl
