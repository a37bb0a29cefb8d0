// SPDX-License-Identifier: MIT
// Kernels that torch.compile generates, as operators that the generated programs call.
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/status.hpp>
#include <torch/library.h>

#include <deque>
#include <mutex>

#include "device.hpp"
#include "device_index.hpp"
#include "errors.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {

struct FusedKernel {
  std::unique_ptr<dlprim::Kernel> kernel;
  std::vector<std::string> messages;  // of what the kernel may report
};

// Kernels live as long as the process: Python holds their numbers.
struct FusedKernels {
  std::mutex mutex;
  std::deque<FusedKernel> all;
};

FusedKernels& fused_kernels() {
  static auto* instance = new FusedKernels;
  return *instance;
}

std::int64_t build(std::string source, std::string name, std::string options, std::vector<std::string> messages,
                   std::int64_t index) {
  return translated([&] {
    dlprim::Device& owner = device(device_index(index));
    auto text = dlprim::KernelSource::from_text(std::move(source), name);
    if (owner.info().int64_atomics) text.define("INT64_ATOMICS");
    text.option(options);
    FusedKernel built{owner.programs().build(text), std::move(messages)};
    FusedKernels& kernels = fused_kernels();
    std::lock_guard guard(kernels.mutex);
    kernels.all.push_back(std::move(built));
    return std::int64_t(kernels.all.size()) - 1;
  });
}

// A kernel takes the tensors, then, where it may report something, the queue's status, then a struct of 64-bit numbers:
// the given ones and the codes of its messages.
void run(std::int64_t number, at::TensorList tensors, at::IntArrayRef numbers, std::int64_t global,
         std::int64_t local) {
  FusedKernel* fused;
  {
    FusedKernels& kernels = fused_kernels();
    std::lock_guard guard(kernels.mutex);
    fused = &kernels.all.at(std::size_t(number));
  }
  translated([&] {
    dlprim::Queue& queue = current_queue(tensors.at(0).device());
    std::vector<dlprim::BufferRef> buffers;
    buffers.reserve(tensors.size() + 1);
    make_own(tensors);  // any may be written
    for (const at::Tensor& tensor : tensors)
      buffers.push_back(tensor.numel() ? buffer_of(tensor) : dlprim::BufferRef{});
    std::vector<std::int64_t> values(numbers.begin(), numbers.end());
    if (!fused->messages.empty()) {
      buffers.push_back(queue.status().buffer());
      for (const std::string& message : fused->messages) values.push_back(queue.status().arm(message.c_str()));
    }
    if (values.empty()) values.push_back(0);
    dlprim::launch(queue, *fused->kernel, dlprim::NDRange(std::size_t(global), std::size_t(local)),
                   std::span<const dlprim::BufferRef>(buffers), std::as_bytes(std::span<const std::int64_t>(values)));
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("build_fused(str source, str name, str options, str[] messages, int device) -> int", &build);
  m.def("run_fused(int kernel, Tensor[] tensors, int[] numbers, int global_size, int local_size) -> ()", &run);
}

}  // namespace pytorch_ocl
