// SPDX-License-Identifier: MIT
#include "fallback.hpp"

#include <dlprim/runtime/environment.hpp>

#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <mutex>
#include <set>

#include "device.hpp"

namespace pytorch_ocl {

namespace {

std::mutex mutex;
std::map<std::string, std::int64_t> counts;

bool is_forbidden() {
  const char* mode = dlprim::environment::text("PYTORCH_OCL_FALLBACK");
  return mode && std::string_view(mode) == "error";
}

// Counts the use; true the first time in the process.
bool count(const std::string& name) {
  static std::set<std::string> seen;
  std::lock_guard guard(mutex);
  counts[name]++;
  return seen.insert(name).second;
}

// Tensors with elements must share a device, as for an operator with a kernel; CPU scalars may join in.
void check_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  constexpr const char* mixed = "Expected all tensors to be on the same device, but found at least two devices, ";
  std::optional<c10::Device> common, host;
  auto visit = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (tensor.is_cpu() && tensor.dim() > 0) host = tensor.device();
    if (tensor.device().type() != device_type) return;
    TORCH_CHECK(!common || *common == tensor.device(), mixed, *common, " and ", tensor.device(), "! (",
                op.operator_name(), ")");
    common = tensor.device();
  };
  for (const c10::IValue& value : torch::jit::last(stack, op.schema().arguments().size())) {
    if (value.isTensor()) visit(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  }
  TORCH_CHECK(!common || !host, mixed, common.value_or(c10::Device(device_type)), " and cpu! (", op.operator_name(),
              ")");
}

}  // namespace

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string name = c10::toString(op.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(!is_forbidden(), "The operator '", name, "' is not implemented for ocl, and ",
                              "PYTORCH_OCL_FALLBACK=error forbids to run it on the CPU.");
  check_devices(op, *stack);
  if (count(name))
    TORCH_WARN("The operator '", name, "' is not implemented for ocl and will fall back to run on the CPU. ",
               "This is slow: the tensors travel to the host and back.");
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

std::map<std::string, std::int64_t> fallback_counts() {
  std::lock_guard guard(mutex);
  return counts;
}

void reset_fallback_counts() {
  std::lock_guard guard(mutex);
  counts.clear();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }

}  // namespace pytorch_ocl
