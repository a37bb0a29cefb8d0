// SPDX-License-Identifier: MIT
// Tensors made from positions: ranges, triangles, identity, flip and roll.
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/range.hpp>

#include "generated/functions/range.h"
#include "generated/structured/tril_out.h"
#include "generated/structured/triu_out.h"
#include "ops/iterator.hpp"
#include "ops/many_dims.hpp"
#include "runtime/scalar.hpp"
#include "runtime/tensor.hpp"

#include <algorithm>
#include <set>

namespace pytorch_ocl {

namespace {

// Calls `write` with a contiguous tensor of out's shape, dtype and contents to come; they end up in out.
template <class Write>
void into_dense(const at::Tensor& out, Write write) {
  if (out.numel() == 0) return;
  if (out.is_contiguous()) return write(out);
  const at::Tensor dense = at::empty(out.sizes(), out.options());
  write(dense);
  out.copy_(dense);
}

void triangle(const at::Tensor& self, int64_t diagonal, bool lower, const at::Tensor& out) {
  into_dense(out, [&](const at::Tensor& dense) {
    auto matrices = [](const at::Tensor& x) { return x.dim() <= dlprim::max_dims ? x : x.flatten(0, -3); };
    dlprim::triangle(current_queue(out.device()), view_of(matrices(dense), "tril"),
                     view_of(matrices(self.contiguous()), "tril"), diagonal, lower);
  });
}

void sequence(const at::Tensor& out, const at::Scalar& start, const at::Scalar& step) {
  into_dense(out, [&](const at::Tensor& dense) {
    const at::ScalarType type = out.scalar_type();
    dlprim::sequence(current_queue(out.device()), view_of(dense, "arange"), to_scalar(start, type),
                     to_scalar(step, type));
  });
}

void resize_for(at::Tensor& out, int64_t count, const char* op) {
  if (out.numel() == count) return;
  if (out.numel() > 0)
    TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
               " which does not match the computed number of elements ", count, " of ", op,
               ". The out tensor will be resized to (", count, ",).");
  out.resize_({count});
}

// Both parts lie on a line of their own; powers follow from them.
at::Tensor& fill_complex(at::Tensor& out, c10::complex<double> start, c10::complex<double> end,
                         std::optional<double> base, const char* op) {
  const at::Tensor line = at::empty(out.sizes(), out.options()), parts = at::view_as_real(line);
  const double first[] = {start.real(), start.imag()}, last[] = {end.real(), end.imag()};
  for (int part = 0; part < 2; part++)
    into_dense(parts.select(-1, part), [&](const at::Tensor& dense) {
      dlprim::spaced(current_queue(out.device()), view_of(dense, op), first[part], last[part], {});
    });
  return out.copy_(base ? at::pow(*base, line) : line);
}

at::Tensor& fill_spaced(at::Tensor& out, const at::Scalar& start, const at::Scalar& end, int64_t steps,
                        std::optional<double> base, const char* op) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
  if (out.is_complex()) return fill_complex(out, start.toComplexDouble(), end.toComplexDouble(), base, op);
  const bool whole = c10::isIntegralType(out.scalar_type(), false);
  const double first = whole ? double(start.to<int64_t>()) : start.toDouble();
  const double last = whole ? double(end.to<int64_t>()) : end.toDouble();
  into_dense(out, [&](const at::Tensor& dense) {
    dlprim::spaced(current_queue(out.device()), view_of(dense, op), first, last, base);
  });
  return out;
}

at::Tensor triangle_indices(int64_t rows, int64_t columns, int64_t offset, bool lower,
                            std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                            std::optional<at::Device> device, std::optional<bool> pin_memory) {
  at::native::check_args(rows, columns, layout);
  const at::ScalarType type = dtype.value_or(at::kLong);
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kLong || type == at::kInt, '"', lower ? "tril_indices" : "triu_indices",
                              "\" not implemented for '", type, "'");
  offset = std::clamp(offset, -rows, columns);  // what lies further away selects the same, and would overflow
  const int64_t below = at::native::get_tril_size(rows, columns, lower ? offset : offset - 1);
  const int64_t count = lower ? below : rows * columns - below;
  const c10::OptionalDeviceGuard guard(device);
  at::Tensor out =
      at::empty({2, count}, c10::TensorOptions().dtype(type).device(device).layout(layout).pinned_memory(pin_memory));
  if (count > 0)
    dlprim::triangle_indices(current_queue(out.device()), view_of(out, "tril_indices"), rows, columns, offset, lower);
  return out;
}

// TensorIterator gives the source negative strides along the flipped dims.
void flip_kernel(at::TensorIterator& it, bool) {
  if (it.numel() == 0) return;
  in_parts(it, [](at::TensorIteratorBase& part) {
    dlprim::copy(current_queue(part.device(0)), operand_view(part, 0, "flip"), operand_view(part, 1, "flip"));
  });
}

// Rolls along dims[0 ..] by copying the two parts of each dimension to their positions.
void roll_into(const at::Tensor& to, const at::Tensor& from, at::IntArrayRef shifts, at::IntArrayRef dims) {
  if (to.numel() == 0) return;
  if (dims.empty()) {
    to.copy_(from);
    return;
  }
  const int64_t dim = dims[0], size = from.size(dim), shift = ((shifts[0] % size) + size) % size;
  const auto rest = shifts.slice(1), rest_dims = dims.slice(1);
  roll_into(to.narrow(dim, shift, size - shift), from.narrow(dim, 0, size - shift), rest, rest_dims);
  roll_into(to.narrow(dim, 0, shift), from.narrow(dim, size - shift, shift), rest, rest_dims);
}

}  // namespace

void structured_tril_out::impl(const at::Tensor& self, int64_t diagonal, const at::Tensor& out) {
  triangle(self, diagonal, true, out);
}

void structured_triu_out::impl(const at::Tensor& self, int64_t diagonal, const at::Tensor& out) {
  triangle(self, diagonal, false, out);
}

namespace ops {

at::Tensor& arange_start_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  TORCH_CHECK(!out.is_complex(), "arange: complex numbers have no order");
  at::native::arange_check_bounds(start, end, step);
  TORCH_CHECK_VALUE(!c10::isIntegralType(out.scalar_type(), false) || step.to<int64_t>() != 0, "step must be nonzero");
  const bool whole = c10::isIntegralType(out.scalar_type(), false) && start.isIntegral(false) &&
                     end.isIntegral(false) && step.isIntegral(false);
  const int64_t count = whole ? at::native::compute_arange_size<int64_t>(start, end, step)
                              : at::native::compute_arange_size<double>(start, end, step);
  resize_for(out, count, "arange");
  sequence(out, start, step);
  return out;
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const double first = start.toDouble(), last = end.toDouble(), by = step.toDouble();
  TORCH_CHECK(by > 0 || by < 0, "step must be nonzero");
  TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "unsupported range: ", first, " -> ", last);
  TORCH_CHECK((by > 0 && last >= first) || (by < 0 && last <= first),
              "upper bound and lower bound inconsistent with step sign");
  resize_for(out, int64_t((last - first) / by + 1), "range");
  sequence(out, start, step);
  return out;
}

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out) {
  return fill_spaced(out, start, end, steps, {}, "linspace");
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, at::Tensor& out) {
  return fill_spaced(out, start, end, steps, base, "logspace");
}

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize_({n, m});
  out.zero_();
  out.diagonal().fill_(1);
  return out;
}

at::Tensor& eye_out(int64_t n, at::Tensor& out) { return eye_m_out(n, n, out); }

at::Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        std::optional<bool> pin_memory) {
  return triangle_indices(row, col, offset, true, dtype, layout, device, pin_memory);
}

at::Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        std::optional<bool> pin_memory) {
  return triangle_indices(row, col, offset, false, dtype, layout, device, pin_memory);
}

at::Tensor roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    const int64_t first[] = {0};
    return roll(self.reshape({self.numel()}), shifts, first).view(self.sizes());
  }
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  std::vector<int64_t> wrapped;
  for (const int64_t dim : dims) wrapped.push_back(at::maybe_wrap_dim(dim, self.dim()));
  at::Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  if (self.numel() == 0) return out;
  // Shifts of one dimension given twice add up, which parts copied side by side would not do.
  const bool distinct = std::set<int64_t>(wrapped.begin(), wrapped.end()).size() == wrapped.size();
  if (distinct) {
    roll_into(out, self, shifts, wrapped);
    return out;
  }
  return roll(roll(self, shifts.slice(0, 1), dims.slice(0, 1)), shifts.slice(1), dims.slice(1));
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(flip_stub, &pytorch_ocl::flip_kernel)
}
