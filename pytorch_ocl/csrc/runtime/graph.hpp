// SPDX-License-Identifier: MIT
// Work of a stream that is captured once and replayed: torch.ocl.OCLGraph, torch.accelerator.Graph.
#pragma once
#include <c10/core/Allocator.h>

#include <memory>
#include <string>

#include "graph_capture.hpp"

namespace pytorch_ocl {

/// As c10's graphs: captured once, replayed as often as wished, captured again after reset(). Raises RuntimeError where
/// something is called out of turn.
class OclGraph {
 public:
  explicit OclGraph(bool keep_graph) : keep_graph_(keep_graph) {}
  /// Of the current stream. Graphs of one `pool` ({0, 0}: one of its own) share what memory they take: they must be
  /// replayed in the order in which they were captured, and not at the same time.
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
