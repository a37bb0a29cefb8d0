// SPDX-License-Identifier: MIT
// Copies between any two of: this device, another device, the host.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/copy.hpp>

#include <numeric>

#include "generated/functions/tensor.h"
#include "ops/iterator.hpp"
#include "ops/many_dims.hpp"
#include "runtime/device.hpp"
#include "runtime/host_allocator.hpp"
#include "runtime/small_floats.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

bool on_device(const at::Tensor& tensor) { return tensor.device().type() == device_type; }

// The same bytes in the same order: a plain copy of memory will do.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_non_overlapping_and_dense() &&
         (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous())) && b.is_non_overlapping_and_dense();
}

at::Tensor without_bits(const at::Tensor& tensor) {
  at::Tensor plain = tensor.is_conj() ? at::Tensor(tensor.conj()) : tensor;
  if (plain.is_neg()) plain = at::Tensor(plain._neg_view());
  return plain;
}

std::uintptr_t start(const at::Tensor& x) { return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()); }

// Whether the elements of each lie between those of the other, as x[::2] and x[1::2] do: all strides of both are
// multiples of a number of bytes, and what is left of the distance between the two is room for an element.
bool interleave(const at::Tensor& a, const at::Tensor& b) {
  std::uintptr_t step = 0;
  for (const at::Tensor* x : {&a, &b})
    for (int64_t d = 0; d < x->dim(); d++)
      if (x->size(d) > 1) step = std::gcd(step, std::uintptr_t(x->stride(d)) * x->itemsize());
  if (step == 0) return false;
  const std::uintptr_t behind = (start(b) - start(a)) % step, before = (start(a) - start(b)) % step;
  return start(a) <= start(b) ? behind >= a.itemsize() && step - behind >= b.itemsize()
                              : before >= b.itemsize() && step - before >= a.itemsize();
}

// Whether the stretches of memory that the two reach into have bytes in common.
bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  auto bytes = [](const at::Tensor& x) {
    return at::detail::computeStorageNbytes(x.sizes(), x.strides(), x.itemsize());
  };
  return start(a) < start(b) + bytes(b) && start(b) < start(a) + bytes(a);
}

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.scalar_type() == b.scalar_type() && a.strides() == b.strides();
}

void copy_elements(dlprim::Queue& queue, const at::Tensor& to, const at::Tensor& from) {
  if (to.scalar_type() != from.scalar_type() && (storage_only(to.scalar_type()) || storage_only(from.scalar_type())))
    return convert_small_floats(queue, to, from);
  if (C10_LIKELY(to.dim() <= dlprim::max_dims))
    return dlprim::copy(queue, view_of(to, "copy_"), view_of(from, "copy_"));
  at::TensorIteratorConfig config;
  config.add_output(to).add_const_input(from).check_all_same_dtype(false).set_check_mem_overlap(false);
  at::TensorIterator it = config.resize_outputs(false).build();
  in_parts(it, [&](at::TensorIteratorBase& part) {
    dlprim::copy(queue, operand_view(part, 0, "copy_"), operand_view(part, 1, "copy_"));
  });
}

// Whether the driver is to copy. NVIDIA's takes three times as long as a kernel for all but the largest copies, where
// both are as fast; those of CPUs copy much past the caches, where what follows then looks for it in vain.
bool driver_copies(const dlprim::Queue& queue, std::int64_t bytes) {
  constexpr std::int64_t smallest = 256 << 10, largest = 16 << 20;
  const dlprim::DeviceInfo& info = queue.device().info();
  return !info.gpu && !(info.cpu && bytes > smallest && bytes <= largest);
}

// What overlaps in part is copied as it was before.
void within_device(const at::Tensor& to, const at::Tensor& given) {
  if (same_memory(to, given)) return;
  dlprim::Queue& queue = current_queue(to.device());
  const at::Tensor from = share_memory(to, given) && !interleave(to, given) ? given.clone() : given;
  if (same_layout(to, from) && driver_copies(queue, std::int64_t(to.nbytes())))
    queue.copy(buffer_of(to), buffer_of(from), to.nbytes());
  else copy_elements(queue, to, from);
}

void host_to_device(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const at::Tensor source = same_layout(to, from) ? from : from.to(to.scalar_type()).contiguous();
  const at::Tensor target = same_layout(to, source) ? to : at::empty(to.sizes(), to.options());
  const bool pinned = non_blocking && is_pinned(source.const_data_ptr());
  dlprim::Queue& queue = current_queue(to.device());
  queue.write(buffer_of(target), source.const_data_ptr(), source.nbytes(), !pinned);
  if (pinned) record_pinned(source, current_stream(to.device().index()));
  if (!target.is_same(to)) within_device(to, target);
  if (!non_blocking && has_new_streams(to.device().index())) queue.record().wait();
}

void device_to_host(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const at::Tensor source = same_layout(to, from) ? from : from.to(to.scalar_type()).contiguous();
  const at::Tensor target = same_layout(to, source) ? to : at::empty(to.sizes(), to.options());
  const bool pinned = non_blocking && target.is_same(to) && is_pinned(to.const_data_ptr());
  dlprim::Queue& queue = current_queue(from.device());
  queue.read(target.mutable_data_ptr(), buffer_of(source), source.nbytes(), !pinned);
  if (pinned) record_pinned(to, current_stream(from.device().index()));
  if (!target.is_same(to)) to.copy_(target);
}

// Strided copies and conversions run on the devices, before and after the bytes are moved.
void between_devices(const at::Tensor& to, const at::Tensor& from) {
  const at::Tensor source = same_layout(to, from) ? from : from.to(to.scalar_type()).contiguous();
  const at::Tensor target = same_layout(to, source) ? to : at::empty(to.sizes(), to.options());
  current_queue(to.device())
      .copy_from(current_queue(from.device()), buffer_of(target), buffer_of(source), source.nbytes());
  if (!target.is_same(to)) within_device(to, target);
}

void copy_memory(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (on_device(to) && on_device(from) && to.device() == from.device()) return within_device(to, from);
  if (on_device(to) && from.is_cpu()) return host_to_device(to, from, non_blocking);
  if (to.is_cpu() && on_device(from)) return device_to_host(to, from, non_blocking);
  if (on_device(to) && on_device(from)) return between_devices(to, from);
  to.copy_(from.to(at::kCPU));  // another backend's device knows no memory of this one's
}

// Kernels know no complex numbers of 16-bit parts: the parts are copied.
bool copy_chalf(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const bool into = to.scalar_type() == at::kComplexHalf, out_of = from.scalar_type() == at::kComplexHalf;
  if (into == out_of && !into) return false;
  if (to.is_conj()) return copy_chalf(to.conj(), from.conj(), non_blocking);
  auto parts = [](const at::Tensor& x) {
    if (!x.is_conj()) return at::view_as_real(x);
    at::Tensor plain = at::view_as_real(x.conj()).clone();
    plain.select(-1, 1).neg_();
    return plain;
  };
  if (into && out_of) at::view_as_real(to).copy_(parts(from), non_blocking);
  else if (into) at::view_as_real(to).copy_(parts(from.to(at::kComplexFloat)), non_blocking);
  else to.copy_(at::view_as_complex(parts(from).to(at::kFloat)), non_blocking);
  return true;
}

}  // namespace

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (self.is_same(src)) return self;
  TORCH_CHECK(!self._is_zerotensor(), "ZeroTensors are immutable. Please materialize the tensor using `.clone()`, ",
              "if you want a mutable zero tensor.");
  const at::Tensor from = src.sizes() == self.sizes() ? src : at::Tensor(src.expand(self.sizes()));
  if (src._is_zerotensor()) return self.zero_();
  if (self.numel() == 0 || copy_chalf(self, from, non_blocking)) return self;
  const c10::DeviceGuard guard(on_device(self) ? self.device() : src.device());
  const bool conj = self.is_conj() != src.is_conj(), neg = self.is_neg() != src.is_neg();
  at::Tensor to = without_bits(self);
  copy_memory(to, without_bits(from), non_blocking);
  if (conj) to.conj_physical_();
  if (neg) to.neg_();
  return self;
}

at::Tensor _copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor target = dst;
  make_own(target);
  copy_(target, self, non_blocking);
  return dst;
}

at::Tensor _copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  return _copy_from(self, dst, false);
}

}  // namespace pytorch_ocl::ops
