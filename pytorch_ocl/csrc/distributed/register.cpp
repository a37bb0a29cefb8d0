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

/// Has `group` use Gloo through host memory for ocl tensors; `holder` is a group whose backend for them is Gloo itself.
void attach(const GroupPtr& group, const GroupPtr& holder) {
  auto backend = c10::make_intrusive<GlooBackend>(holder->getBackend(device_type), group->getStore());
  backend->setGroupUid(group->getGroupName());
  backend->setGroupDesc(group->getGroupDesc());
  group->setBackend(device_type, c10d::ProcessGroup::BackendType::CUSTOM, std::move(backend));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("use_gloo(__torch__.torch.classes.c10d.ProcessGroup group, "
        "__torch__.torch.classes.c10d.ProcessGroup holder) -> ()", &attach);
}

}  // namespace pytorch_ocl::distributed
