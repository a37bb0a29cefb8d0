// SPDX-License-Identifier: MIT
// Making tensors, reading one element, and what else needs no kernel of its own.
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/copy.hpp>

#include "generated/functions/tensor.h"
#include "runtime/allocator.hpp"
#include "runtime/device.hpp"
#include "runtime/scalar.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

constexpr c10::DispatchKeySet ocl_keys(c10::DispatchKey::PrivateUse1);

c10::Device resolve(std::optional<c10::Device> device) {
  return {device_type, resolve_device(device ? device->index() : c10::DeviceIndex(-1))};
}

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided,
                              "empty: expected the strided layout on ocl, got ", *layout);
}

at::Tensor& deterministic(at::Tensor& tensor) {
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() &&
                   at::globalContext().deterministicFillUninitializedMemory()))
    at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

}  // namespace

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<at::Device> device,
                               std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format) {
  check_options(layout, pin_memory);
  const c10::DeviceGuard guard(resolve(device));
  at::Tensor tensor = at::detail::empty_generic(size, &device_allocator(), ocl_keys, c10::dtype_or_default(dtype),
                                                memory_format);
  return deterministic(tensor);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const c10::DeviceGuard guard(resolve(device));
  at::Tensor tensor = at::detail::empty_strided_generic(size, stride, &device_allocator(), ocl_keys,
                                                        c10::dtype_or_default(dtype));
  return deterministic(tensor);
}

at::Scalar _local_scalar_dense(const at::Tensor& self) {
  at::Tensor value = at::empty({}, self.options().device(at::kCPU));
  current_queue().read(value.mutable_data_ptr(), buffer_of(self), self.element_size(), true);
  if (self.is_conj()) value = value.conj();
  if (self.is_neg()) value = value.neg();
  return at::_local_scalar_dense(value);
}

void record_stream(at::Tensor& self, at::Stream stream) {
  pytorch_ocl::record_stream(self.storage().data_ptr(), stream);
}

// A CPU tensor and an ocl tensor may take each other's place in a module: Module.to() then keeps its parameters.
bool _has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  auto dense = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && (tensor.is_cpu() || tensor.device().type() == device_type);
  };
  return self.key_set() == from.key_set() || (dense(self) && dense(from));
}

at::Tensor& fill__Scalar(at::Tensor& self, const at::Scalar& value) {
  if (self.numel() == 0) return self;
  dlprim::fill(current_queue(), view_of(self, "fill_"), to_scalar(value, self.scalar_type()));
  return self;
}

at::Tensor& fill__Tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  return value.is_cpu() ? self.fill_(value.item()) : self.copy_(value);
}

at::Tensor& zero_(at::Tensor& self) { return fill__Scalar(self, 0); }

}  // namespace pytorch_ocl::ops
