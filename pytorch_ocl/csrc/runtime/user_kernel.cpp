// SPDX-License-Identifier: MIT
// torch.ocl.compile_kernel and the profiler, as operators that Python calls.
#include <dlprim/runtime/custom_kernel.hpp>
#include <dlprim/runtime/profile.hpp>
#include <torch/library.h>

#include <mutex>

#include "device.hpp"
#include "device_index.hpp"
#include "errors.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {

// Kernels live as long as the process: Python holds their numbers.
struct Kernels {
  std::mutex mutex;
  std::vector<std::unique_ptr<dlprim::CustomKernel>> all;
};

Kernels& kernels() {
  static auto* instance = new Kernels;
  return *instance;
}

std::int64_t compile(std::string source, std::string name, std::string options, std::int64_t index) {
  return translated([&] {
    dlprim::Device& owner = device(device_index(index));
    auto kernel = std::make_unique<dlprim::CustomKernel>(owner, std::move(source), name, options);
    std::lock_guard guard(kernels().mutex);
    kernels().all.push_back(std::move(kernel));
    return std::int64_t(kernels().all.size()) - 1;
  });
}

// `kinds` tells for each argument from which list it comes: 0 tensors, 1 integers, 2 reals.
void run(std::int64_t number, at::TensorList tensors, at::IntArrayRef kinds, at::IntArrayRef integers,
         at::ArrayRef<double> reals, at::IntArrayRef global, at::IntArrayRef local, std::int64_t index) {
  std::vector<dlprim::CustomKernel::Argument> arguments;
  make_own(tensors);  // any may be written
  std::size_t next[3] = {};
  for (const std::int64_t kind : kinds) {
    const std::size_t at = next[kind]++;
    if (kind == 1) arguments.emplace_back(integers[at]);
    else if (kind == 2) arguments.emplace_back(reals[at]);
    else if (tensors[at].numel() == 0) arguments.emplace_back(dlprim::BufferRef{});
    else arguments.emplace_back(buffer_of(tensors[at]));
  }
  translated([&] {
    dlprim::CustomKernel* kernel;
    {
      std::lock_guard guard(kernels().mutex);
      kernel = kernels().all.at(std::size_t(number)).get();
    }
    kernel->run(queue_of(current_stream(device_index(index))), arguments, std::span(global.data(), global.size()),
                std::span(local.data(), local.size()));
  });
}

// Names, and per command: device, queue, start, end, bytes.
std::tuple<std::vector<std::string>, std::vector<std::int64_t>> profile_stop(std::int64_t first) {
  std::vector<std::string> names;
  std::vector<std::int64_t> numbers;
  for (const auto& command : translated([&] { return dlprim::Profiler::stop(std::size_t(first)); })) {
    names.push_back(command.name);
    for (const std::int64_t value : {std::int64_t(command.device), command.queue, std::int64_t(command.start),
                                     std::int64_t(command.end), std::int64_t(command.bytes)})
      numbers.push_back(value);
  }
  return {names, numbers};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("compile_kernel(str source, str name, str options, int device) -> int", &compile);
  m.def("run_kernel(int kernel, Tensor[] tensors, int[] kinds, int[] integers, float[] reals, "
        "int[] global_size, int[] local_size, int device) -> ()",
        &run);
  m.def("profile_start() -> int", [] { return std::int64_t(dlprim::Profiler::start()); });
  m.def("profile_stop(int first) -> (str[], int[])", &profile_stop);
}

}  // namespace pytorch_ocl
