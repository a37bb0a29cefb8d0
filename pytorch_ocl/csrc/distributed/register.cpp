// SPDX-License-Identifier: MIT
// How a process group gets its backend for ocl devices: it is handed over as PyTorch's own operators take it, so that
// no Python C API is needed.
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include "backend.hpp"
#include "runtime/device.hpp"

namespace pytorch_ocl::distributed {

namespace {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

SharedOptions options_of(const std::string& way, std::int64_t piece_bytes, std::int64_t least_bytes) {
  SharedOptions options;
  options.enabled = way != "off";
  if (way == "direct" || way == "staged" || way == "host") options.windows = false;
  if (way == "direct") options.access = HostAccess::direct;
  else if (way == "staged") options.access = HostAccess::staged;
  else if (way == "windows") options.windows = true;
  else
    TORCH_CHECK(way == "off" || way == "measured" || way == "host",
                "expected off, measured, windows, host, direct or staged, but got ", way);
  if (piece_bytes > 0) options.piece_bytes = piece_bytes;
  if (least_bytes >= 0) options.least_bytes = least_bytes;
  return options;
}

/// Has `group` use Gloo through host memory for ocl tensors; `holder` is a group whose backend for them is Gloo itself.
/// `way` says how shared memory is used; `piece_bytes` 0, `least_bytes` -1 and no `holds_streams` stand for the defaults.
void attach(const GroupPtr& group, const GroupPtr& holder, const std::string& way, std::int64_t piece_bytes,
            std::int64_t least_bytes, std::optional<bool> holds_streams) {
  SharedOptions options = options_of(way, piece_bytes, least_bytes);
  options.holds_streams = holds_streams;
  auto backend = c10::make_intrusive<GlooBackend>(holder->getBackend(device_type), group->getStore(), options);
  backend->setGroupUid(group->getGroupName());
  backend->setGroupDesc(group->getGroupDesc());
  group->setBackend(device_type, c10d::ProcessGroup::BackendType::CUSTOM, std::move(backend));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("use_gloo(__torch__.torch.classes.c10d.ProcessGroup group, "
        "__torch__.torch.classes.c10d.ProcessGroup holder, str way, int piece_bytes, int least_bytes, "
        "bool? holds_streams) -> ()",
        &attach);
  m.def("sent_messages() -> int[]", [] {
    const auto counts = Mail::counts();
    return std::vector<std::int64_t>(counts.begin(), counts.end());
  });
  m.def("halt_collectives(int milliseconds) -> ()",
        [](std::int64_t limit) { Worker::halt_all(std::chrono::milliseconds(limit)); });
}

}  // namespace pytorch_ocl::distributed
