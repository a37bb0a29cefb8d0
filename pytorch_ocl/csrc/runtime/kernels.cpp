// SPDX-License-Identifier: MIT
// Kernels of the user's own, and the profiler of all kernels, for the Python package.
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/profile.hpp>
#include <torch/library.h>

#include <mutex>

#include "device.hpp"
#include "errors.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {

// Kernels live as long as the process: handles are never reused.
class UserKernels {
 public:
  std::int64_t add(std::unique_ptr<dlprim::Kernel> kernel) {
    std::lock_guard guard(mutex_);
    kernels_.push_back(std::move(kernel));
    return std::int64_t(kernels_.size()) - 1;
  }
  dlprim::Kernel& get(std::int64_t handle) {
    std::lock_guard guard(mutex_);
    TORCH_CHECK(handle >= 0 && handle < std::int64_t(kernels_.size()), "no compiled kernel has the number ", handle);
    return *kernels_[std::size_t(handle)];
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<dlprim::Kernel>> kernels_;
};

UserKernels& user_kernels() {
  static auto* kernels = new UserKernels;
  return *kernels;
}

std::int64_t compile_kernel(std::string source, std::string name, std::int64_t index) {
  return translated([&] {
    dlprim::Device& where = device(c10::DeviceIndex(index));
    return user_kernels().add(where.programs().build(
        dlprim::KernelSource::from_text("#include \"lib/types.clh\"\n" + std::move(source), std::move(name))));
  });
}

dlprim::NDRange range_of(at::IntArrayRef global, at::IntArrayRef local) {
  TORCH_CHECK_VALUE(!global.empty() && global.size() <= 3, "global_size: expected 1 to 3 sizes, got ", global.size());
  TORCH_CHECK_VALUE(local.empty() || local.size() == global.size(), "local_size: expected ", global.size(),
                    " sizes as global_size has, got ", local.size());
  dlprim::NDRange range(0);
  range.dims = int(global.size());
  for (std::size_t d = 0; d < global.size(); d++) {
    TORCH_CHECK_VALUE(global[d] >= 0 && (local.empty() || local[d] > 0), "kernel sizes must be positive");
    range.global[d] = std::size_t(global[d]);
    if (!local.empty()) range.local[d] = std::size_t(local[d]);
  }
  return range;
}

template <class T>
cl_uint set_value(dlprim::Kernel& kernel, cl_uint index, T value) {
  return dlprim::detail::set_argument(kernel, index, &value, sizeof value);
}

// `kinds` has a letter an argument: t takes the next tensor; i, l, f, d the next number as int, long, float, double.
void launch_kernel(std::int64_t handle, std::string kinds, at::TensorList tensors, c10::ArrayRef<at::Scalar> numbers,
                   at::IntArrayRef global, at::IntArrayRef local) {
  dlprim::Kernel& kernel = user_kernels().get(handle);
  const auto index = c10::DeviceIndex(kernel.device().index());
  for (const at::Tensor& tensor : tensors)
    TORCH_CHECK(tensor.device() == c10::Device(device_type, index), kernel.name(), ": expected tensors on ocl:",
                int(index), ", got one on ", tensor.device());
  const dlprim::NDRange range = range_of(global, local);
  if (range.global[0] == 0 || range.global[1] == 0 || range.global[2] == 0) return;
  translated([&] {
    std::lock_guard guard(kernel.lock());
    cl_uint argument = 0;
    std::size_t tensor = 0, number = 0;
    for (const char kind : kinds) switch (kind) {
        case 't': argument = dlprim::detail::set_argument(kernel, argument, buffer_of(tensors[tensor++])); break;
        case 'i': argument = set_value(kernel, argument, numbers[number++].toInt()); break;
        case 'l': argument = set_value(kernel, argument, numbers[number++].toLong()); break;
        case 'f': argument = set_value(kernel, argument, numbers[number++].toFloat()); break;
        default: argument = set_value(kernel, argument, numbers[number++].toDouble());
      }
    dlprim::detail::enqueue(queue_of(current_stream(index)), kernel, range, {});
  });
}

// Names of the recorded commands, and for each four numbers: device, start, end (nanoseconds of its clock), bytes.
std::tuple<std::vector<std::string>, std::vector<std::int64_t>> profiler_stop() {
  return translated([] {
    std::vector<std::string> names;
    std::vector<std::int64_t> numbers;
    for (const dlprim::ProfiledCommand& command : dlprim::Profiler::stop()) {
      names.push_back(command.name);
      for (const std::uint64_t number : {std::uint64_t(command.device), command.start, command.end, command.bytes})
        numbers.push_back(std::int64_t(number));
    }
    return std::tuple(std::move(names), std::move(numbers));
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("compile_kernel(str source, str name, int device) -> int", &compile_kernel);
  m.def("launch_kernel(int kernel, str kinds, Tensor[] tensors, Scalar[] numbers, int[] global_size, int[] local_size)"
        " -> ()",
        &launch_kernel);
  m.def("profiler_start() -> ()", [] { dlprim::Profiler::start(); });
  m.def("profiler_stop() -> (str[], int[])", &profiler_stop);
}

}  // namespace pytorch_ocl
