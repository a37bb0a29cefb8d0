// SPDX-License-Identifier: MIT
// What every operator needs: ATen tensors as dlprim sees them, and the queue of the current stream.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/impl/COWDeleter.h>
#include <dlprim/runtime/memory.hpp>

#include <optional>

namespace pytorch_ocl {

/// dlprim's name of an ATen dtype. Raises NotImplementedError naming `op` for dtypes dlprim does not know.
dlprim::DataType data_type_of(at::ScalarType type, const char* op);
inline dlprim::DataType data_type_of(const at::Tensor& tensor, const char* op) {
  return data_type_of(tensor.scalar_type(), op);
}

/// The memory of a tensor's first element; {} for tensors without memory. Raises RuntimeError for tensors of
/// other devices.
dlprim::BufferRef buffer_of(const at::Tensor& tensor);

/// The memory that the address of so many elements stands for. Raises RuntimeError if there are some and it stands for
/// none: their storage was freed (resized to 0), or they are zeros without memory (torch._efficientzerotensor).
dlprim::BufferRef buffer_at(const void* data, int64_t elements);

/// Gives what shares its memory with lazy clones (Tensor._lazy_clone) memory of its own. Expected of all that is written
/// before its memory is asked for: generated functions do so for what their schema says.
void materialize(const at::Tensor& tensor);
inline void make_own(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  if (tensor.storage().data_ptr().get_deleter() == &c10::impl::cow::cow_deleter) materialize(tensor);
}
inline void make_own(const std::optional<at::Tensor>& tensor) {
  if (tensor) make_own(*tensor);
}
inline void make_own(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) make_own(tensor);
}

/// A tensor as primitives take it: memory, dtype, sizes and strides. `op` names the operator in errors.
dlprim::TensorView view_of(const at::Tensor& tensor, const char* op = "operator");

/// Whether elements of equal indices have equal offsets, so that kernels may take both tensors as flat arrays.
bool same_layout(const at::Tensor& a, const at::Tensor& b);

/// Queue of the current stream of the current device.
dlprim::Queue& current_queue();
/// Queue of the current stream of a device (index -1: the current device).
dlprim::Queue& current_queue(c10::Device device);

}  // namespace pytorch_ocl
