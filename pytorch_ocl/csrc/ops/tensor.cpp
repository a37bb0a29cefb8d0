// SPDX-License-Identifier: MIT
// Making tensors, reading one element, and what else needs no kernel of its own.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_lazy_clone_native.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/copy.hpp>

#include <mutex>

#include "generated/functions/tensor.h"
#include "ops/iterator.hpp"
#include "ops/many_dims.hpp"
#include "runtime/allocator.hpp"
#include "runtime/device.hpp"
#include "runtime/scalar.hpp"
#include "runtime/small_floats.hpp"
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
  at::Tensor tensor =
      at::detail::empty_generic(size, &device_allocator(), ocl_keys, c10::dtype_or_default(dtype), memory_format);
  return deterministic(tensor);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const c10::DeviceGuard guard(resolve(device));
  at::Tensor tensor =
      at::detail::empty_strided_generic(size, stride, &device_allocator(), ocl_keys, c10::dtype_or_default(dtype));
  return deterministic(tensor);
}

namespace {

// Makes the storage large enough for the tensor as it is now; keeps what it holds.
void grow_storage(const at::Tensor& self) {
  const auto* impl = self.unsafeGetTensorImpl();
  if (impl->numel() == 0) return;
  const std::size_t bytes = at::detail::computeStorageNbytes(impl->sizes(), impl->strides(), impl->itemsize(),
                                                             std::size_t(impl->storage_offset()));
  if (bytes > self.storage().nbytes()) at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
}

}  // namespace

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
  const std::size_t before = self.storage().nbytes();
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    for (const int64_t extent : size)
      TORCH_CHECK(extent >= 0, "Trying to create tensor with negative dimension ", extent, ": ", size);
    impl->set_sizes_contiguous(size);
  }
  if (memory_format) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "Unsupported memory format ", *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  grow_storage(self);
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() &&
                   at::globalContext().deterministicFillUninitializedMemory()))
    at::native::fill_resize_deterministic_(self, int64_t(before));
  return self;
}

at::Tensor& set__source_Storage_storage_offset(at::Tensor& self, at::Storage source, int64_t storage_offset,
                                               at::IntArrayRef size, at::IntArrayRef stride) {
  TORCH_CHECK(source.device() == self.device(), "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", source.device(), "\".");
  TORCH_CHECK(storage_offset >= 0, "Tensor: invalid storage offset ", storage_offset);
  TORCH_CHECK(stride.empty() || stride.size() == size.size(), "mismatch in length of strides and shape");
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(storage_offset);
  if (stride.empty() && !size.empty()) impl->set_sizes_contiguous(size);
  else impl->set_sizes_and_strides(size, stride);
  grow_storage(self);
  return self;
}

at::Scalar _local_scalar_dense(const at::Tensor& self) {
  at::Tensor value = at::empty({}, self.options().device(at::kCPU));
  current_queue().read(value.mutable_data_ptr(), buffer_of(self), self.element_size(), true);
  if (self.is_conj()) value = value.conj();
  if (self.is_neg()) value = value.neg();
  return at::_local_scalar_dense(value);
}

at::Tensor _lazy_clone(const at::Tensor& self) {
  static std::mutex mutex;  // of two threads that clone the same tensor
  std::lock_guard guard(mutex);
  make_simple(*self.storage().unsafeGetStorageImpl());
  return at::native::_lazy_clone(self);
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
  if (storage_only(self.scalar_type())) {
    const at::Tensor number = at::empty({}, self.options().device(at::kCPU)).fill_(value);
    const at::ScalarType bits = self.element_size() == 1 ? at::kByte : at::kInt;
    self.view(bits).fill_(number.view(bits).item());
    return self;
  }
  check_fits(value, self.scalar_type());
  if (self.numel() == 0) return self;
  const dlprim::Scalar number = to_scalar(value, self.scalar_type());
  if (C10_LIKELY(self.dim() <= dlprim::max_dims)) {
    dlprim::fill(current_queue(), view_of(self, "fill_"), number);
    return self;
  }
  at::TensorIteratorConfig config;
  config.add_output(self).check_all_same_dtype(false).set_check_mem_overlap(false).resize_outputs(false);
  at::TensorIterator it = config.build();
  in_parts(
      it, [&](at::TensorIteratorBase& part) { dlprim::fill(current_queue(), operand_view(part, 0, "fill_"), number); });
  return self;
}

at::Tensor& fill__Tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  return value.is_cpu() ? self.fill_(value.item()) : self.copy_(value);
}

// All zeros without memory, as autograd uses them.
at::Tensor _efficientzerotensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                                std::optional<at::Device> device, std::optional<bool>) {
  at::native::ZeroTensorAllocator allocator(resolve(device));
  return at::detail::empty_generic(size, &allocator, ocl_keys.add(c10::DispatchKey::ZeroTensor),
                                   c10::dtype_or_default(dtype), std::nullopt);
}

at::Tensor& zero_(at::Tensor& self) {
  if (holds_no_numbers(self.scalar_type())) {
    self.view(self.itemsize() == 1 ? at::kByte : at::kShort).zero_();
    return self;
  }
  return fill__Scalar(self, 0);
}

}  // namespace pytorch_ocl::ops
