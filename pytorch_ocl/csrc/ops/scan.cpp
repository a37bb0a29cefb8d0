// SPDX-License-Identifier: MIT
#include <dlprim/primitives/scan.hpp>

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>

#include "generated/functions/scan.h"
#include "ops/dtypes.hpp"
#include "ops/many_dims.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

using dlprim::ScanId;

at::Tensor dense(const at::Tensor& out) {
  return out.is_contiguous() ? out : at::empty_like(out, at::MemoryFormat::Contiguous);
}

void scan(ScanId id, const char* op, const at::Tensor& self, const at::Tensor& out, int64_t dim) {
  check_dtype(out, served::integers_ | served::floating_ | served::complex_, op);
  at::assert_no_partial_overlap(out, self);
  const at::Tensor x = self.to(out.scalar_type()).contiguous(), y = dense(out);
  dim = at::maybe_wrap_dim(dim, self.dim());
  dlprim::scan(current_queue(), id, view_of(around(y, dim), op), view_of(around(x, dim), op), around_dim(x, dim));
  if (!y.is_same(out)) out.copy_(y);
}

void scan_extreme(ScanId id, const char* op, const at::Tensor& self, const at::Tensor& values,
                  const at::Tensor& indices, int64_t dim) {
  const at::Tensor x = self.contiguous(), y = dense(values), where = dense(indices);
  dim = at::maybe_wrap_dim(dim, self.dim());
  dlprim::scan(current_queue(), id, view_of(around(y, dim), op), view_of(around(x, dim), op), around_dim(x, dim),
               view_of(around(where, dim), op));
  if (!y.is_same(values)) values.copy_(y);
  if (!where.is_same(indices)) indices.copy_(where);
}

void cumsum(const at::Tensor& result, const at::Tensor& self, int64_t dim) {
  scan(ScanId::sum, "cumsum", self, result, dim);
}

void cumprod(const at::Tensor& result, const at::Tensor& self, int64_t dim) {
  scan(ScanId::prod, "cumprod", self, result, dim);
}

}  // namespace

namespace ops {

at::Tensor& _logcumsumexp_out(const at::Tensor& self, int64_t dim, at::Tensor& out) {
  at::native::resize_output(out, self.sizes());
  scan(ScanId::logsumexp, "logcumsumexp", self, out, dim);
  return out;
}

at::Tensor _logcumsumexp(const at::Tensor& self, int64_t dim) {
  at::Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  return _logcumsumexp_out(self, dim, out);
}

void _cummax_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  scan_extreme(ScanId::max, "cummax", self, values, indices, dim);
}

void _cummin_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  scan_extreme(ScanId::min, "cummin", self, values, indices, dim);
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(cumsum_stub, &pytorch_ocl::cumsum)
REGISTER_PRIVATEUSE1_DISPATCH(cumprod_stub, &pytorch_ocl::cumprod)
}  // namespace at::native
