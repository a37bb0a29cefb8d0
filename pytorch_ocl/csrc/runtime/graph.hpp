// SPDX-License-Identifier: MIT
// Work of a stream that is captured once and replayed: torch.ocl.OCLGraph, torch.accelerator.Graph.
#pragma once
#include <c10/core/Allocator.h>
#include <dlprim/runtime/capture.hpp>

#include <map>
#include <memory>
#include <string>

#include "generator.hpp"

namespace pytorch_ocl {

/// A capture in which random numbers may be drawn: each replay draws others, as the work itself would.
class GraphCapture final : public dlprim::Capture {
 public:
  using Capture::Capture;
  /// What kernels are given for a state, until replay() knows it. Hold the generator's mutex.
  PhiloxState draw(OclGenerator& generator, std::uint64_t counters);
  bool draws() const noexcept { return !draws_.empty(); }
  void replay();

 private:
  struct Draw {
    c10::intrusive_ptr<OclGenerator> generator;
    std::uint64_t offset;  // from where the generator is when a replay begins
  };
  std::mutex draws_mutex_;
  std::vector<Draw> draws_;
  std::map<OclGenerator*, std::uint64_t> counters_;  // that a replay takes
};

/// As c10's graphs: captured once, replayed as often as wished, captured again after reset(). Raises RuntimeError where
/// something is called out of turn.
class OclGraph {
 public:
  explicit OclGraph(bool keep_graph) : keep_graph_(keep_graph) {}
  /// Of the current stream. Memory that a graph takes is never shared: `pool` is only what pool() tells then.
  void capture_begin(c10::MempoolId_t pool);
  void capture_end();
  void instantiate();
  /// In the current stream's order.
  void replay();
  void reset();
  c10::MempoolId_t pool() const;
  void enable_debug_mode() { debug_ = true; }
  /// Writes the captured commands in Graphviz' language.
  void debug_dump(const std::string& path) const;

 private:
  const GraphCapture& captured(const char* call) const;

  bool keep_graph_, captured_ = false, debug_ = false;
  c10::MempoolId_t pool_{0, 0};
  std::unique_ptr<GraphCapture> capture_;
};

/// Another number each time.
c10::MempoolId_t new_graph_pool();

}  // namespace pytorch_ocl
