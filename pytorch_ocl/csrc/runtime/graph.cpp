// SPDX-License-Identifier: MIT
#include "graph.hpp"

#if __has_include(<ATen/core/GraphImplInterface.h>)  // since PyTorch 2.12
#include <ATen/core/GraphImplInterface.h>
#endif
#include <torch/custom_class.h>
#include <torch/library.h>

#include <fstream>
#include <map>
#include <mutex>

#include "device.hpp"
#include "device_index.hpp"
#include "errors.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {

// Memory of graphs that share it, as long as one of them lives.
std::shared_ptr<dlprim::MemoryPool> memory_of(c10::MempoolId_t pool, dlprim::Queue& queue) {
  static auto* mutex = new std::mutex;
  static auto* pools = new std::map<std::pair<int, c10::MempoolId_t>, std::weak_ptr<dlprim::MemoryPool>>;
  std::lock_guard guard(*mutex);
  std::erase_if(*pools, [](const auto& entry) { return entry.second.expired(); });
  auto& known = (*pools)[{queue.device().index(), pool}];
  std::shared_ptr<dlprim::MemoryPool> shared = known.lock();
  if (!shared) known = shared = std::make_shared<dlprim::MemoryPool>(queue);
  return shared;
}

}  // namespace

c10::MempoolId_t new_graph_pool() {
  static std::atomic<c10::CaptureId_t> made{0};
  return {0, ++made};
}

void OclGraph::capture_begin(c10::MempoolId_t pool) {
  TORCH_CHECK(!capture_, "This graph instance already owns a captured graph. To capture a new graph, create a new "
                         "instance or call reset().");
  pool_ = pool == c10::MempoolId_t{0, 0} ? new_graph_pool() : pool;
  translated([&] {
    dlprim::Queue& queue = current_queue(c10::Device(device_type, current_device()));
    capture_ = std::make_unique<GraphCapture>(queue, memory_of(pool_, queue));
  });
}

void OclGraph::capture_end() {
  TORCH_CHECK(capture_ && !captured_, "Called capture_end() without a preceding capture_begin().");
  translated([&] {
    try {
      if (&current_queue(c10::Device(device_type, current_device())) != &capture_->queue())
        throw dlprim::Error("Capture must end on the same stream it began on.");
      capture_->finish();
    } catch (...) {
      capture_.reset();
      throw;
    }
  });
  captured_ = true;
  if (capture_->commands().size() == 0)
    TORCH_WARN("The OCL Graph is empty. This usually means that the graph was attempted to be captured on wrong device "
               "or stream.");
}

const GraphCapture& OclGraph::captured(const char* call) const {
  TORCH_CHECK(captured_, "Called ", call, "() without a preceding successful capture.");
  return *capture_;
}

void OclGraph::instantiate() {
  captured("instantiate");
  TORCH_CHECK(keep_graph_, "instantiate() is intended to be called by the user only when keep_graph=True");
}

void OclGraph::replay() {
  captured("replay");
  translated([&] {
    const c10::Device device(device_type, c10::DeviceIndex(capture_->queue().device().index()));
    capture_->replay(current_queue(device));
  });
}

void OclGraph::reset() {
  capture_.reset();
  captured_ = false;
}

c10::MempoolId_t OclGraph::pool() const {
  captured("pool");
  return pool_;
}

void OclGraph::debug_dump(const std::string& path) const {
  const dlprim::CommandList& commands = captured("debug_dump").commands();
  TORCH_CHECK(debug_, "debug_dump() needs enable_debug_mode() before the capture.");
  std::ofstream file(path);
  file << "digraph ocl {\n";
  for (std::size_t i = 0; i < commands.size(); i++) {
    file << "  " << i << " [label=\"" << commands.name(i) << "\"];\n";
    if (i > 0) file << "  " << i - 1 << " -> " << i << ";\n";
  }
  file << "}\n";
  TORCH_CHECK(file.flush(), "debug_dump(): cannot write ", path);
}

#if __has_include(<ATen/core/GraphImplInterface.h>)
class OclGraphImpl final : public at::GraphImplInterface {
 public:
  explicit OclGraphImpl(const at::GraphImplArgs& args) : graph_(args.keep_graph) {}
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override { graph_.capture_begin(pool); }
  void capture_end() override { graph_.capture_end(); }
  void instantiate() override { graph_.instantiate(); }
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  c10::MempoolId_t pool() const override { return graph_.pool(); }
  void enable_debug_mode() override { graph_.enable_debug_mode(); }
  void debug_dump(const std::string& path) override { graph_.debug_dump(path); }

 private:
  OclGraph graph_;
};
#endif

namespace {

struct GraphHolder : torch::CustomClassHolder {
  OclGraph graph;
  explicit GraphHolder(bool keep_graph) : graph(keep_graph) {}
};

using Holder = c10::intrusive_ptr<GraphHolder>;
using Pool = std::tuple<std::int64_t, std::int64_t>;

Pool pool_pair(c10::MempoolId_t pool) { return {std::int64_t(pool.first), std::int64_t(pool.second)}; }

bool is_capturing(std::int64_t index) {
  if (!initialized()) return false;
  const c10::Device device(device_type, resolve_device(device_index(index)));
  return current_queue(device).capture() != nullptr;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.class_<GraphHolder>("Graph")
      .def(torch::init<bool>())
      .def("capture_begin",
           [](const Holder& self, std::int64_t first, std::int64_t second) {
             self->graph.capture_begin({c10::CaptureId_t(first), c10::CaptureId_t(second)});
           })
      .def("capture_end", [](const Holder& self) { self->graph.capture_end(); })
      .def("instantiate", [](const Holder& self) { self->graph.instantiate(); })
      .def("replay", [](const Holder& self) { self->graph.replay(); })
      .def("reset", [](const Holder& self) { self->graph.reset(); })
      .def("pool", [](const Holder& self) { return pool_pair(self->graph.pool()); })
      .def("enable_debug_mode", [](const Holder& self) { self->graph.enable_debug_mode(); })
      .def("debug_dump", [](const Holder& self, std::string path) { self->graph.debug_dump(path); });
  m.def("new_graph_pool() -> (int, int)", [] { return pool_pair(new_graph_pool()); });
  m.def("is_capturing(int device) -> bool", &is_capturing);
}

}  // namespace pytorch_ocl

#if __has_include(<ATen/core/GraphImplInterface.h>)
namespace at {
REGISTER_GRAPH_IMPL(OCL, pytorch_ocl::OclGraphImpl)
}  // namespace at
#endif
