// SPDX-License-Identifier: MIT
// Elements chosen by a mask.
#include <ATen/MemoryOverlap.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <dlprim/primitives/compact.hpp>
#include <dlprim/primitives/index.hpp>

#include "generated/functions/compact.h"
#include "ops/many_dims.hpp"
#include "runtime/tensor.hpp"

#include <mutex>
#include <set>

namespace pytorch_ocl::ops {

namespace {

// Coordinates in `self` of the marked elements, in the rows of `out`. More dims than kernels take are told from the
// positions in memory.
void coordinates(dlprim::Compaction& compaction, const at::Tensor& self, const at::Tensor& out, int64_t count,
                 const char* op) {
  if (C10_LIKELY(self.dim() <= dlprim::max_dims)) return compaction.coordinates(view_of(out, op), count);
  at::Tensor positions = at::full({out.size(0), 1}, -1, out.options());
  compaction.coordinates(view_of(positions, op), count);
  positions = positions.select(1, 0).narrow(0, 0, std::min(count, out.size(0)));
  for (int64_t d = self.dim() - 1; d >= 0; d--) {
    out.select(1, d).narrow(0, 0, positions.size(0)).copy_(positions.remainder(self.size(d)));
    positions = positions.div(self.size(d), "floor");
  }
}

// What is not zero, in a dtype that kernels know. -0 is zero, which bytes do not tell.
at::Tensor marks_of(const at::Tensor& self) {
  return self.scalar_type() == at::kComplexHalf ? self.ne(0) : self.contiguous();
}

}  // namespace

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero: Expected out tensor to have scalar type Long but got ",
              out.scalar_type());
  const at::Tensor mask = marks_of(self);
  dlprim::Compaction compaction(current_queue(self.device()), view_of(flattened(mask), "nonzero"));
  const int64_t count = compaction.count();
  at::native::resize_output(out, {count, self.dim()});
  if (out.numel() > 0) coordinates(compaction, self, out, count, "nonzero");
  return out;
}

at::Tensor nonzero(const at::Tensor& self) {
  const at::Tensor mask = marks_of(self);
  dlprim::Compaction compaction(current_queue(self.device()), view_of(flattened(mask), "nonzero"));
  const int64_t count = compaction.count();
  // Column by column, since indexing takes the columns apart.
  const at::Tensor out = at::empty({self.dim(), count}, self.options().dtype(at::kLong)).t();
  if (out.numel() > 0) coordinates(compaction, self, out, count, "nonzero");
  return out;
}

at::Tensor& nonzero_static_out(const at::Tensor& self, int64_t size, int64_t fill_value, at::Tensor& out) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero_static: Expected out tensor to have scalar type ", at::kLong,
              " but got ", out.scalar_type());
  out.resize_({size, self.dim()}).fill_(fill_value);
  if (out.numel() == 0 || self.numel() == 0) return out;
  const at::Tensor mask = self.contiguous();
  dlprim::Compaction compaction(current_queue(self.device()), view_of(mask, "nonzero_static"));
  compaction.coordinates(view_of(out, "nonzero_static"), size);
  return out;
}

at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return nonzero_static_out(self, size, fill_value, out);
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const auto [wide_mask, wide_self] = at::expand_outplace(mask, self);
  const at::Tensor marks = wide_mask->contiguous(), source = wide_self->contiguous();
  dlprim::Compaction compaction(current_queue(self.device()), view_of(flattened(marks), "masked_select"));
  at::native::resize_output(out, {compaction.count()});
  if (out.numel() == 0) return out;
  const at::Tensor dense = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  compaction.select(view_of(dense, "masked_select"), view_of(flattened(source), "masked_select"));
  if (!dense.is_same(out)) out.copy_(dense);
  return out;
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  at::Tensor out = at::empty({0}, self.options());
  return masked_select_out(self, mask, out);
}

at::Tensor& masked_scatter_(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter_: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
              source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  if (self.numel() == 0) return self;
  const at::Tensor marks = mask.expand(self.sizes()).contiguous(), dense = self.contiguous();
  const at::Tensor values = source.contiguous();
  dlprim::Compaction compaction(current_queue(self.device()), view_of(flattened(marks), "masked_scatter_"));
  compaction.scatter(view_of(flattened(dense), "masked_scatter_"), view_of(flattened(values), "masked_scatter_"));
  if (!dense.is_same(self)) self.copy_(dense);
  return self;
}

// A read at index 0 where the assertion holds and at 1, out of range, where it fails.
void _assert_async_msg(const at::Tensor& self, c10::string_view assert_msg) {
  TORCH_CHECK(self.numel() == 1, "Expected a single element, got ", self.numel());
  static std::mutex mutex;
  static std::set<std::string> messages;
  const char* message;
  {
    std::lock_guard guard(mutex);
    message = messages.emplace(assert_msg).first->c_str();
  }
  const at::Tensor index = self.reshape({1}).eq(0).to(at::kLong), out = at::empty({1}, index.options());
  dlprim::IndexOptions options;
  options.message = message;
  dlprim::gather(current_queue(self.device()), view_of(out), view_of(index), 0, view_of(index), options);
}

void _assert_async(const at::Tensor& self) {
  _assert_async_msg(self, "Expected Tensor with single nonzero value, but got zero");
}

}  // namespace pytorch_ocl::ops
