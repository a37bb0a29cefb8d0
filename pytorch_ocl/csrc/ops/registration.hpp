// SPDX-License-Identifier: MIT
// What generated registrations include.
#pragma once

#include <ATen/DeviceGuard.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_copy_from.h>
#include <ATen/ops/_copy_from_and_resize.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>

#include "runtime/errors.hpp"
#include "runtime/tensor.hpp"

/// Closes a generated function: what dlprim throws becomes the PyTorch error that says the same.
#define OCL_TRANSLATE_ERRORS               \
  catch (const dlprim::Error&) {           \
    pytorch_ocl::rethrow_as_torch_error(); \
  }

/// Opens a function that registers kernels of aten's operators at a dispatch key, `add("name.overload", &kernel);` each,
/// when the library is loaded. Once in a namespace.
#define OCL_REGISTER(key)                                                                                \
  static void register_kernels(const pytorch_ocl::KernelRegistry& add);                                  \
  static const pytorch_ocl::KernelRegistry registry(c10::DispatchKey::key, __FILE__, &register_kernels); \
  static void register_kernels(const pytorch_ocl::KernelRegistry& add)

namespace pytorch_ocl {

/// As TORCH_LIBRARY_IMPL for functions that are generated from their operators' schemas, at two thirds of its time to
/// compile: the boxed form is shared by all functions of one type, and no schema is inferred from the type to be
/// compared. Kernels stay registered until the process ends.
class KernelRegistry {
 public:
  KernelRegistry(c10::DispatchKey key, const char* file, void (*register_kernels)(const KernelRegistry&))
      : key_(key), file_(file) {
    register_kernels(*this);
  }

  template <class Result, class... Arguments>
  void operator()(const char* name, Result (*kernel)(Arguments...)) const {
    add(name, c10::KernelFunction::makeFromUnboxedRuntimeFunction(kernel),
        c10::impl::CppSignature::make<Result(Arguments...)>());
  }

 private:
  void add(const char* name, c10::KernelFunction kernel, c10::impl::CppSignature signature) const;

  c10::DispatchKey key_;
  const char* file_;
};

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
