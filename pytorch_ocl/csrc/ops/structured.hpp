// SPDX-License-Identifier: MIT
// What generated functions of structured operators run: a kernel (PyTorch's meta function, and an `impl`) with the way
// in which it gets the outputs that the meta function asks for.
#pragma once

#include <ATen/DeviceGuard.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#if __has_include(<ATen/NamedTensorUtils.h>)
#include <ATen/NamedTensorUtils.h>
#endif

#include <array>
#include <optional>
#include <type_traits>

#include "ops/registration.hpp"

namespace pytorch_ocl {

/// Gives an out= tensor the sizes of a result, and where it had others also the strides or the memory format asked for.
/// Raises RuntimeError if its dtype or device is another.
void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                const at::TensorOptions& options);

/// Raises RuntimeError if an in-place operator's result would have other sizes, another dtype or device than `self`.
void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
                   const at::TensorOptions& options);

/// Makes the device of the outputs the current one. Raises if they are on several.
class OutputGuard {
 public:
  void enter(c10::Device device) {
    if (!guard_.current_device()) return guard_.reset_device(device);
    TORCH_INTERNAL_ASSERT(*guard_.current_device() == device, "structured kernels don't support multi-device outputs");
  }

 private:
  c10::OptionalDeviceGuard guard_;
};

inline void name_dimensions(const at::Tensor& /*output*/) {}
#if __has_include(<ATen/NamedTensorUtils.h>)
inline void name_dimensions(const at::Tensor& output, at::DimnameList names) {
  if (!names.empty()) at::namedinference::propagate_names(output, names);
}
#endif

using SetOutput = decltype(&at::impl::MetaBase::set_output_raw_strided);

/// The part that outputs from the caller and new ones share. `Signature` is there to find out `Names`: before torch
/// 2.13, an output comes with names of its dimensions.
template <class Kernel, class Signature = SetOutput>
class StructuredKernel;

template <class Kernel, class... Names>
class StructuredKernel<Kernel, void (at::impl::MetaBase::*)(int64_t, at::IntArrayRef, at::IntArrayRef,
                                                            at::TensorOptions, Names...)> : public Kernel {
 public:
  /// An output whose strides must be those given.
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                          Names... names) final {
    set(i, sizes, strides, options, true, names...);
  }
  /// An output for which strides are a proposal.
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                              Names... names) final {
    set(i, sizes, strides, options, false, names...);
  }

 protected:
  /// Makes output `i` or checks the one there is; gives the tensor that the caller will see.
  virtual const at::Tensor& prepare(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                                    const at::TensorOptions& options, bool exact) = 0;

 private:
  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options, bool exact,
           Names... names) {
    guard_.enter(options.device());
    const at::Tensor& output = prepare(i, sizes, strides, options, exact);
    name_dimensions(output, names...);
    // An iterator takes the output from maybe_get_output.
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Kernel>)
      Kernel::set_output_raw_strided(i, sizes, strides, options, names...);
  }

  OutputGuard guard_;
};

/// Returns new tensors.
template <class Kernel, std::size_t count>
class FunctionalKernel final : public StructuredKernel<Kernel> {
 public:
  const at::Tensor& maybe_get_output(int64_t i) override { return outputs_[std::size_t(i)]; }
  std::array<at::Tensor, count> outputs_;

 protected:
  const at::Tensor& prepare(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options,
                            bool /*exact*/) override {
    return outputs_[std::size_t(i)] =
               strides.empty() ? new_output(sizes, options) : new_strided_output(sizes, strides, options);
  }
};

/// Writes the caller's tensors, after `check` of each. Where one must have other strides, a tensor of the right ones
/// takes its place until copy_back.
template <class Kernel, std::size_t count, auto check>
class WritingKernel final : public StructuredKernel<Kernel> {
 public:
  template <class... Tensors>
  explicit WritingKernel(Tensors&... outputs) : outputs_{&outputs...} {}
  const at::Tensor& maybe_get_output(int64_t i) override {
    return proxies_[std::size_t(i)].defined() ? proxies_[std::size_t(i)] : *outputs_[std::size_t(i)];
  }
  /// After `impl`.
  void copy_back() {
    for (std::size_t i = 0; i < count; i++)
      if (proxies_[i].defined()) outputs_[i]->copy_(proxies_[i]);
  }

 protected:
  const at::Tensor& prepare(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options,
                            bool exact) override {
    const at::Tensor& output = *outputs_[std::size_t(i)];
    check(output, sizes, strides, options);
    if (exact && output.strides() != strides) proxies_[std::size_t(i)] = new_strided_output(sizes, strides, options);
    return output;
  }

 private:
  std::array<const at::Tensor*, count> outputs_;
  std::array<at::Tensor, count> proxies_;
};

template <class Kernel, std::size_t count>
using OutKernel = WritingKernel<Kernel, count, resize_out>;
template <class Kernel, std::size_t count>
using InplaceKernel = WritingKernel<Kernel, count, check_inplace>;

}  // namespace pytorch_ocl
