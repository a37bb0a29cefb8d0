// SPDX-License-Identifier: MIT
// What generated registrations include.
#pragma once

#include <ATen/DeviceGuard.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_copy_from.h>
#include <ATen/ops/_copy_from_and_resize.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "runtime/errors.hpp"
#include "runtime/tensor.hpp"

/// Closes a generated function: what dlprim throws becomes the PyTorch error that says the same.
#define OCL_TRANSLATE_ERRORS               \
  catch (const dlprim::Error&) {           \
    pytorch_ocl::rethrow_as_torch_error(); \
  }

namespace pytorch_ocl {

inline void check_read(const at::Tensor& written, const at::Tensor& read) {
  if (read.defined()) at::assert_no_partial_overlap(written, read);
}
inline void check_read(const at::Tensor& written, const std::optional<at::Tensor>& read) {
  if (read) check_read(written, *read);
}

/// Raises RuntimeError, as PyTorch's iterators do, if elements of `written` share memory, or it shares a part of its
/// memory with a tensor (or optional tensor) that is read. The very same memory is allowed.
template <class... Read>
void check_overlap(const at::Tensor& written, const Read&... read) {
  at::assert_no_internal_overlap(written);
  (check_read(written, read), ...);
}

/// Allocates an output of a structured operator. The caller guards the device.
inline at::Tensor new_output(at::IntArrayRef sizes, const at::TensorOptions& options) {
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_generic(sizes, c10::GetAllocator(c10::DeviceType::PrivateUse1), keys,
                                   c10::typeMetaToScalarType(options.dtype()), options.memory_format_opt());
}

/// As new_output, with the strides asked for.
inline at::Tensor new_strided_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  c10::Allocator* allocator = c10::GetAllocator(c10::DeviceType::PrivateUse1);
  return at::detail::empty_strided_generic(sizes, strides, allocator, keys, c10::typeMetaToScalarType(options.dtype()));
}

}  // namespace pytorch_ocl
