// SPDX-License-Identifier: MIT
#include "ops/reduce.hpp"

#include <ATen/TensorIterator.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/ReduceAllOps.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/norm_except_dim.h>
#include <ATen/ops/real.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var_mean.h>
#include <dlprim/primitives/reduce.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

#include "generated/functions/reduce.h"
#include "generated/structured/mean_out.h"
#include "generated/structured/sum_IntList_out.h"
#include "ops/dtypes.hpp"
#include "ops/reduce_dims.hpp"
#include "ops/registration.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

using dlprim::ReduceId;
using dlprim::TensorView;

std::vector<double> numbers(c10::ArrayRef<c10::Scalar> scalars) {
  std::vector<double> values;
  for (const c10::Scalar& scalar : scalars) values.push_back(scalar.toDouble());
  return values;
}

// Complex numbers have no order.
void check_order(ReduceId id, at::ScalarType type) {
  const bool ordered = id == ReduceId::max_values || id == ReduceId::min_values || id == ReduceId::extremes ||
                       id == ReduceId::argmax || id == ReduceId::argmin;
  if (ordered) check_dtype(type, ~served::complex_, dlprim::name(id));
}

// Operand of an iterator over a reduction: dims where the output does not move have size 1 in it.
TensorView operand(at::TensorIteratorBase& it, int index, const char* op) {
  const int64_t bytes = it.element_size(index);
  TensorView view;
  view.data = buffer_at(it.data_ptr(index), it.numel());
  view.dtype = data_type_of(it.dtype(index), op);
  view.dims = it.ndim();
  for (int d = 0; d < view.dims; d++) {
    const int64_t stride = it.strides(index)[d] / bytes;
    const bool reduced = index < it.noutputs() && stride == 0;
    view.sizes[view.dims - 1 - d] = reduced ? 1 : it.shape()[d];
    view.strides[view.dims - 1 - d] = stride;
  }
  return view;
}

// For more dims than kernels take: the reduced ones are copied behind the others. Results have the elements of these in
// order.
void reduce_rows(ReduceId id, c10::ArrayRef<at::Tensor> results, const at::Tensor& self,
                 const std::function<bool(int64_t)>& reduced, c10::ArrayRef<double> scalars) {
  std::vector<int64_t> order, behind;
  int64_t count = 1;
  for (int64_t d = 0; d < self.dim(); d++) (reduced(d) ? behind : order).push_back(d);
  for (const int64_t d : order) count *= self.size(d);
  order.insert(order.end(), behind.begin(), behind.end());
  const at::Tensor rows = self.permute(order).reshape({count, count ? self.numel() / count : 0});
  const TensorView input = view_of(rows, dlprim::name(id));
  std::vector<at::Tensor> made;
  std::vector<TensorView> outputs;
  for (const at::Tensor& result : results) {
    made.push_back(at::empty({count, 1}, result.options()));
    outputs.push_back(view_of(made.back(), dlprim::name(id)));
  }
  dlprim::reduce(current_queue(), id, {outputs, {&input, 1}}, {scalars.data(), scalars.size()});
  for (std::size_t i = 0; i < results.size(); i++) results[i].copy_(made[i].view(results[i].sizes()));
}

// For the real parts of a complex result: kernels convert between real dtypes alone.
at::Tensor real_like(const at::Tensor& result) {
  return at::empty(result.sizes(), result.options().dtype(at::toRealValueType(result.scalar_type())));
}

ReduceId norm_row(double p) {
  if (p == 0) return ReduceId::norm_0;
  if (p == 1) return ReduceId::norm_1;
  if (p == 2) return ReduceId::norm_2;
  if (std::isinf(p)) return p > 0 ? ReduceId::norm_inf : ReduceId::norm_minus_inf;
  return ReduceId::norm_p;
}

void norm(at::TensorIterator& it, const c10::Scalar& p) {
  if (it.numel() == 0) it.output().fill_(p.toDouble() < 0 ? INFINITY : 0);
  else run_reduce(it, norm_row(p.toDouble()), {p});
}

template <ReduceId id>
void extreme_of_dim(const at::Tensor& values, const at::Tensor& indices, const at::Tensor& self, int64_t dim, bool) {
  check_overlap(values, self), check_overlap(indices, self);
  reduce_dims(id, {indices, values}, self, at::IntArrayRef(dim));
}

template <ReduceId id>
void extreme_of_all(at::Tensor& result, const at::Tensor& self) {
  reduce_dims(id, {result}, self, std::nullopt);
}

void extremes_of_dim(const at::Tensor& self, int64_t dim, bool, at::Tensor& low, at::Tensor& high) {
  check_overlap(low, self), check_overlap(high, self);
  reduce_dims(ReduceId::extremes, {low, high}, self, at::IntArrayRef(dim));
}

void extremes_of_all(const at::Tensor& self, at::Tensor& low, at::Tensor& high) {
  reduce_dims(ReduceId::extremes, {low, high}, self, std::nullopt);
}

}  // namespace

void run_reduce(at::TensorIteratorBase& it, ReduceId id, c10::ArrayRef<c10::Scalar> scalars) {
  check_order(id, it.dtype(1));
  if (it.numel() == 0) return;
  const bool halves = it.dtype(1) == at::kComplexHalf;
  const bool widened = at::isComplexType(it.dtype(0)) && !at::isComplexType(it.dtype(1));
  if (C10_UNLIKELY(it.ndim() > dlprim::max_dims || halves || widened)) {
    const at::Tensor out = it.tensor(0), in = it.tensor(1);
    const auto reduced = [&](int64_t d) { return out.size(d) == 1 && in.size(d) != 1; };
    if (widened) {
      const at::Tensor real = real_like(out);
      reduce_rows(id, {real}, in, reduced, numbers(scalars));
      out.copy_(real);
      return;
    }
    if (!halves) return reduce_rows(id, {out}, in, reduced, numbers(scalars));
    const at::ScalarType type = out.is_complex() ? at::kComplexFloat : at::kFloat;
    const at::Tensor wide = at::empty(out.sizes(), out.options().dtype(type));
    reduce_rows(id, {wide}, in.to(at::kComplexFloat), reduced, numbers(scalars));
    out.copy_(wide);
    return;
  }
  const TensorView outputs[] = {operand(it, 0, dlprim::name(id))}, inputs[] = {operand(it, 1, dlprim::name(id))};
  dlprim::reduce(current_queue(), id, {outputs, inputs}, numbers(scalars));
}

void reduce_dims(ReduceId id, c10::ArrayRef<at::Tensor> results, const at::Tensor& self, at::OptionalIntArrayRef dims,
                 std::initializer_list<double> scalars) {
  check_order(id, self.scalar_type());
  if (self.scalar_type() == at::kComplexHalf || results[0].scalar_type() == at::kComplexHalf) {
    TORCH_CHECK_NOT_IMPLEMENTED(results.size() == 1, '"', dlprim::name(id), "\" not implemented for 'ComplexHalf'");
    const at::Tensor wide = at::empty(results[0].sizes(), results[0].options().dtype(at::kComplexFloat));
    reduce_dims(id, {wide}, self.to(at::kComplexFloat), dims, scalars);
    results[0].copy_(wide);
    return;
  }
  const auto widened = [&](const at::Tensor& result) { return result.is_complex() && !self.is_complex(); };
  if (std::any_of(results.begin(), results.end(), widened)) {
    std::vector<at::Tensor> made;
    for (const at::Tensor& result : results) made.push_back(widened(result) ? real_like(result) : result);
    reduce_dims(id, made, self, dims, scalars);
    for (std::size_t i = 0; i < results.size(); i++)
      if (widened(results[i])) results[i].copy_(made[i]);
    return;
  }
  const auto mask = at::native::make_dim_mask(dims, self.dim(), /*allow_empty_dims=*/false);
  if (C10_UNLIKELY(self.dim() > dlprim::max_dims))
    return reduce_rows(id, results, self, [&](int64_t d) { return mask[std::size_t(d)]; }, scalars);
  const TensorView input = view_of(self, dlprim::name(id));
  std::vector<TensorView> outputs;
  for (const at::Tensor& result : results) {
    TensorView view = view_of(result, dlprim::name(id));
    const bool kept = result.dim() == self.dim();
    TensorView full = view;
    full.dims = input.dims;
    for (int d = 0, from = 0; d < input.dims; d++) {
      const bool absent = mask[d] && !kept;
      full.sizes[d] = mask[d] ? 1 : view.sizes[from];
      full.strides[d] = absent ? 0 : view.strides[from];
      from += !absent;
    }
    outputs.push_back(full);
  }
  dlprim::reduce(current_queue(), id, {outputs, {&input, 1}}, {scalars.begin(), scalars.size()});
}

namespace {

// `self` as the numbers that PyTorch adds for a result of dtype `to`: those that `to` has. The kernel converts the sum
// alone, between real dtypes, which is the same but for fractions that become integers and numbers that become bools.
at::Tensor addends(const at::Tensor& self, at::ScalarType to) {
  const at::ScalarType from = self.scalar_type();
  const bool fractions = !at::isIntegralType(from, true) && at::isIntegralType(to, true);
  const bool bools = to == at::kBool && from != at::kBool;
  const bool complex = at::isComplexType(from) || at::isComplexType(to);
  const bool half = from == at::kComplexHalf && at::isComplexType(to);  // reduce_dims has its own way
  return fractions || bools || (complex && from != to && !half) ? self.to(to) : self;
}

}  // namespace

void structured_sum_IntList_out::impl(const at::Tensor& self, at::OptionalIntArrayRef dim, bool,
                                      std::optional<at::ScalarType>, const at::Tensor& out) {
  reduce_dims(ReduceId::sum, {out}, addends(self, out.scalar_type()), dim);
}

void structured_mean_out::impl(const at::Tensor& self, at::OptionalIntArrayRef dim, bool, std::optional<at::ScalarType>,
                               const at::Tensor& out) {
  const at::ScalarType to = out.scalar_type();
  TORCH_CHECK(!at::isIntegralType(to, true), "result type Float can't be cast to the desired output type ", to);
  reduce_dims(ReduceId::mean, {out}, addends(self, to), dim);
}

namespace ops {

namespace {

at::Tensor reduced(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, at::ScalarType type) {
  const auto mask = at::native::make_dim_mask(dims, self.dim(), false);
  return at::empty(at::native::shape_from_dim_mask(self, mask, keepdim), self.options().dtype(type));
}

// Variance, or deviation where `root`, and the mean where `mean` is given.
void moments(const char* op, bool root, const at::Tensor& self, at::OptionalIntArrayRef dims,
             const std::optional<at::Scalar>& correction, bool keepdim, at::Tensor& result, at::Tensor* mean) {
  const double shift = correction ? correction->toDouble() : 1.0;
  if (self.is_complex()) {
    auto [real, real_mean] = at::var_mean(at::real(self), dims, correction, keepdim);
    auto [imaginary, imaginary_mean] = at::var_mean(at::imag(self), dims, correction, keepdim);
    at::Tensor sum = real.add_(imaginary);
    result.copy_(root ? sum.sqrt_() : sum);
    if (mean) at::real(*mean).copy_(real_mean), at::imag(*mean).copy_(imaginary_mean);
    return;
  }
  const int64_t count = self.numel() / std::max<int64_t>(1, result.numel());
  if (result.numel() > 0 && double(count) - shift <= 0)
    TORCH_WARN(op, "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input"
                   " numel divided by output numel).");
  if (mean) reduce_dims(ReduceId::std_var, {result, *mean}, self, dims, {shift, double(root)});
  else reduce_dims(ReduceId::std_var, {result}, self, dims, {shift, double(root)});
}

void check_floating(const char* op, const at::Tensor& self) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || at::isComplexType(self.scalar_type()), op,
              " only support floating point and complex dtypes");
}

at::Tensor moments(const char* op, bool root, const at::Tensor& self, at::OptionalIntArrayRef dims,
                   const std::optional<at::Scalar>& correction, bool keepdim) {
  check_floating("std and var", self);
  at::Tensor result = reduced(self, dims, keepdim, c10::toRealValueType(self.scalar_type()));
  moments(op, root, self, dims, correction, keepdim, result, nullptr);
  return result;
}

at::Tensor& moments_out(const char* op, bool root, const at::Tensor& self, at::OptionalIntArrayRef dims,
                        const std::optional<at::Scalar>& correction, bool keepdim, at::Tensor& out) {
  check_floating("std and var", self);
  TORCH_CHECK(at::canCast(c10::toRealValueType(self.scalar_type()), out.scalar_type()), "result type ",
              c10::toRealValueType(self.scalar_type()), " can't be cast to the desired output type ",
              out.scalar_type());
  const auto mask = at::native::make_dim_mask(dims, self.dim(), false);
  at::native::resize_output(out, at::native::shape_from_dim_mask(self, mask, keepdim));
  moments(op, root, self, dims, correction, keepdim, out, nullptr);
  return out;
}

std::tuple<at::Tensor, at::Tensor> moments_mean(const char* op, bool root, const at::Tensor& self,
                                                at::OptionalIntArrayRef dims,
                                                const std::optional<at::Scalar>& correction, bool keepdim) {
  check_floating(op, self);
  at::Tensor result = reduced(self, dims, keepdim, c10::toRealValueType(self.scalar_type()));
  at::Tensor mean = reduced(self, dims, keepdim, self.scalar_type());
  moments(op, root, self, dims, correction, keepdim, result, &mean);
  return {result, mean};
}

}  // namespace

at::Tensor var_correction(const at::Tensor& self, at::OptionalIntArrayRef dim,
                          const std::optional<at::Scalar>& correction, bool keepdim) {
  return moments("var", false, self, dim, correction, keepdim);
}

at::Tensor std_correction(const at::Tensor& self, at::OptionalIntArrayRef dim,
                          const std::optional<at::Scalar>& correction, bool keepdim) {
  return moments("std", true, self, dim, correction, keepdim);
}

at::Tensor& var_correction_out(const at::Tensor& self, at::OptionalIntArrayRef dim,
                               const std::optional<at::Scalar>& correction, bool keepdim, at::Tensor& out) {
  return moments_out("var", false, self, dim, correction, keepdim, out);
}

at::Tensor& std_correction_out(const at::Tensor& self, at::OptionalIntArrayRef dim,
                               const std::optional<at::Scalar>& correction, bool keepdim, at::Tensor& out) {
  return moments_out("std", true, self, dim, correction, keepdim, out);
}

std::tuple<at::Tensor, at::Tensor> var_mean_correction(const at::Tensor& self, at::OptionalIntArrayRef dim,
                                                       const std::optional<at::Scalar>& correction, bool keepdim) {
  return moments_mean("var_mean", false, self, dim, correction, keepdim);
}

std::tuple<at::Tensor, at::Tensor> std_mean_correction(const at::Tensor& self, at::OptionalIntArrayRef dim,
                                                       const std::optional<at::Scalar>& correction, bool keepdim) {
  return moments_mean("std_mean", true, self, dim, correction, keepdim);
}

at::Tensor count_nonzero_dim_IntList(const at::Tensor& self, at::IntArrayRef dim) {
  at::Tensor result = reduced(self, dim, false, at::kLong);
  reduce_dims(ReduceId::nonzero_count, {result}, self, dim);
  return result;
}

at::Tensor trace(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return at::sum(self.diagonal());
}

// w = v * g / |v|, the norm taken over every dim but `dim`.
std::tuple<at::Tensor, at::Tensor> _weight_norm_interface(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  const at::Tensor norm = at::norm_except_dim(v.scalar_type() == g.scalar_type() ? v : v.to(g.scalar_type()), 2, dim);
  return {v * (g / norm).to(v.scalar_type()), norm};
}

std::tuple<at::Tensor, at::Tensor> _weight_norm_interface_backward(const at::Tensor& grad_w, const at::Tensor& saved_v,
                                                                   const at::Tensor& saved_g,
                                                                   const at::Tensor& saved_norms, int64_t dim) {
  const at::ScalarType type = saved_norms.scalar_type();
  const at::Tensor v = saved_v.to(type), grad = grad_w.to(type);
  std::vector<int64_t> others;
  for (int64_t d = 0; d < v.dim(); d++)
    if (d != dim) others.push_back(d);
  const at::Tensor dot = at::sum(grad * v, others, true);
  const at::Tensor grad_v = (saved_g / saved_norms) * (grad - v * (dot / (saved_norms * saved_norms)));
  return {grad_v.to(saved_v.scalar_type()), (dot / saved_norms).to(saved_g.scalar_type())};
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(norm_stub, &pytorch_ocl::norm)
REGISTER_PRIVATEUSE1_DISPATCH(max_stub, &pytorch_ocl::extreme_of_dim<dlprim::ReduceId::argmax>)
REGISTER_PRIVATEUSE1_DISPATCH(min_stub, &pytorch_ocl::extreme_of_dim<dlprim::ReduceId::argmin>)
REGISTER_PRIVATEUSE1_DISPATCH(max_all_stub, &pytorch_ocl::extreme_of_all<dlprim::ReduceId::max_values>)
REGISTER_PRIVATEUSE1_DISPATCH(min_all_stub, &pytorch_ocl::extreme_of_all<dlprim::ReduceId::min_values>)
REGISTER_PRIVATEUSE1_DISPATCH(aminmax_stub, &pytorch_ocl::extremes_of_dim)
REGISTER_PRIVATEUSE1_DISPATCH(aminmax_allreduce_stub, &pytorch_ocl::extremes_of_all)
}  // namespace at::native
