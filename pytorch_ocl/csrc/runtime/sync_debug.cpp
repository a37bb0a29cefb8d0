// SPDX-License-Identifier: MIT
// torch.ocl.set_sync_debug_mode: tells where a program waits for the device.
#include <c10/util/Exception.h>
#include <dlprim/runtime/queue.hpp>
#include <torch/library.h>

#include <atomic>

namespace pytorch_ocl {

namespace {

enum class Mode : std::int64_t { silent, warn, error };
std::atomic<Mode> mode{Mode::silent};

void report(const char* what) {
  TORCH_CHECK(mode != Mode::error, "called a synchronizing ocl operation: ", what);
  TORCH_WARN("called a synchronizing ocl operation: ", what);
}

void set_mode(std::int64_t wanted) {
  TORCH_CHECK(wanted >= 0 && wanted <= 2, "set_sync_debug_mode: expected 0 (default), 1 (warn) or 2 (error), got ",
              wanted);
  mode = Mode(wanted);
  dlprim::Queue::on_blocking(wanted ? &report : nullptr);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("set_sync_debug_mode(int mode) -> ()", &set_mode);
  m.def("sync_debug_mode() -> int", [] { return std::int64_t(mode.load()); });
}

}  // namespace pytorch_ocl
