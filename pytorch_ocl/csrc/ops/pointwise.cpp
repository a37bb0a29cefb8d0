// SPDX-License-Identifier: MIT
#include "ops/pointwise.hpp"

#include <ATen/ops/_local_scalar_dense.h>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/pointwise_types.hpp>

#include "ops/iterator.hpp"
#include "ops/many_dims.hpp"
#include "runtime/scalar.hpp"
#include "runtime/small_floats.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

struct CommonType : at::TensorIteratorBase {
  // Of an iterator that promotes nothing: undefined, or the first input's type.
  static at::ScalarType of(const at::TensorIteratorBase& it) { return it.*(&CommonType::common_dtype_); }
};

at::ScalarType compute_type_of(const at::TensorIteratorBase& it) {
  const at::ScalarType common = CommonType::of(it), last = it.dtype(it.ntensors() - 1);
  // A condition or mask as first input (where) does not decide the type.
  return common == at::ScalarType::Undefined || common == at::kBool ? last : common;
}

// Operators that round a number of the host to the common dtype first, as PyTorch's other devices do.
bool rounds_numbers(dlprim::PointwiseId id) {
  using enum dlprim::PointwiseId;
  return id == remainder || id == fmod || id == nextafter || id == hypot || id == atan2;
}

void add_operand(dlprim::Plan& plan, at::TensorIteratorBase& it, int index, const char* op,
                 std::optional<at::ScalarType> rounded = {}) {
  const bool output = index < it.noutputs();
  const dlprim::DataType dtype = data_type_of(it.dtype(index), op);
  if (!output && it.is_cpu_scalar(index)) {
    const at::Tensor number = rounded ? it.tensor(index).to(*rounded) : it.tensor(index);
    plan.add_constant(to_scalar(at::_local_scalar_dense(number), it.dtype(index)), dtype);
    return;
  }
  dlprim::Operand& operand = plan.add(buffer_at(it.data_ptr(index), it.numel()), dtype, output);
  const auto strides = it.strides(index);
  const auto size = int64_t(dlprim::size_of(dtype));
  for (int d = 0; d < it.ndim(); d++) operand.strides[d] = strides[d] / size;
}

// Operators that compute with small floats, as far as PyTorch has them: by way of float32.
bool by_way_of_float(dlprim::PointwiseId id) {
  using enum dlprim::PointwiseId;
  return id == eq || id == ne || id == mul || id == abs;
}

C10_NOINLINE void run_on_small_floats(at::TensorIteratorBase& it, dlprim::PointwiseId id, at::ScalarType compute) {
  dlprim::Queue& queue = current_queue(it.device(0));
  std::vector<dlprim::TensorView> views;
  std::vector<dlprim::Workspace> memory;
  std::vector<at::Tensor> numbers;  // factors from the host
  for (int i = 0; i < it.ntensors(); i++) {
    if (i >= it.noutputs() && it.is_cpu_scalar(i)) {
      numbers.push_back(it.tensor(i).to(compute).to(at::kFloat).to(it.device(0)));
      views.push_back(view_of(numbers.back(), "copy_"));
      continue;
    }
    views.push_back(operand_view(it, i, "copy_"));
    const auto kind = small_float(it.dtype(i));
    if (!kind) continue;
    const dlprim::TensorView bytes = views.back();
    memory.emplace_back(queue, std::size_t(it.numel()) * sizeof(float));
    views.back() = dlprim::TensorView(memory.back().data(), dlprim::DataType::float32, bytes.shape());
    if (i >= it.noutputs()) dlprim::convert(queue, views.back(), {}, bytes, kind);
  }
  const auto outputs = std::size_t(it.noutputs());
  dlprim::pointwise(queue, id, std::span(views).first(outputs), std::span(views).subspan(outputs));
  if (const auto kind = small_float(it.dtype(0)))
    dlprim::convert(queue, operand_view(it, 0, "copy_"), kind, views[0], {});
}

// Numbers of two float16 in an operand of an iterator, and room for them as complex64.
struct Widened {
  dlprim::TensorView narrow, wide;  // the parts
  dlprim::Workspace memory;

  Widened(at::TensorIteratorBase& it, int index, const char* op) : narrow(operand_view(it, index, "copy_")) {
    TORCH_CHECK(narrow.dims < dlprim::max_dims, op, ": expected at most ", dlprim::max_dims - 1,
                " dims of ComplexHalf, got ", narrow.dims);
    for (int d = 0; d < narrow.dims; d++) narrow.strides[std::size_t(d)] *= 2;
    narrow.sizes[std::size_t(narrow.dims)] = 2, narrow.strides[std::size_t(narrow.dims)] = 1, narrow.dims++;
    narrow.dtype = dlprim::DataType::float16;
    memory = dlprim::Workspace(current_queue(it.device(0)), std::size_t(it.numel()) * 2 * sizeof(float));
    wide = dlprim::TensorView(memory.data(), dlprim::DataType::float32, narrow.shape());
  }
};

// Whether an operand has numbers of two float16; they are computed with in `compute`, which may be a wider type.
bool has_complex_halves(at::TensorIteratorBase& it, at::ScalarType compute) {
  if (it.dtype(0) == at::kComplexHalf) return true;
  if (!c10::isComplexType(compute)) return false;
  for (int i = 0; i < it.ntensors(); i++)
    if (it.dtype(i) == at::kComplexHalf) return true;
  return compute == at::kComplexHalf;
}

// Every operator that complex64 has: by way of that. Those that make complex numbers of real ones compute in float32.
C10_NOINLINE void run_on_complex_halves(at::TensorIteratorBase& it, dlprim::PointwiseId id, at::ScalarType wide,
                                        c10::ArrayRef<c10::Scalar> scalars) {
  using dlprim::DataType;
  const char* op = dlprim::pointwise_row(id).name;
  dlprim::Queue& queue = current_queue(it.device(0));
  std::vector<Widened> results, read;
  dlprim::Plan plan;
  plan.dims = it.ndim();
  for (int d = 0; d < it.ndim(); d++) plan.sizes[d] = it.shape()[d];
  for (int i = 0; i < it.ntensors(); i++) {
    const bool output = i < it.noutputs();
    if (it.dtype(i) != at::kComplexHalf) {
      add_operand(plan, it, i, op);
    } else if (!output && it.is_cpu_scalar(i)) {
      plan.add_constant(to_scalar(at::_local_scalar_dense(it.tensor(i)), at::kComplexFloat), DataType::complex64);
    } else {
      const Widened& widened = (output ? results : read).emplace_back(it, i, op);
      if (!output) dlprim::copy(queue, widened.wide, widened.narrow);
      dlprim::Operand& operand = plan.add(widened.memory.data(), DataType::complex64, output);
      for (int64_t d = 0, stride = 1; d < it.ndim(); stride *= it.shape()[d++]) operand.strides[d] = stride;
    }
  }
  plan.coalesce();
  std::array<dlprim::Scalar, 8> values;
  TORCH_INTERNAL_ASSERT(scalars.size() <= values.size());
  for (std::size_t i = 0; i < scalars.size(); i++) values[i] = to_scalar(scalars[i], wide);
  dlprim::pointwise(queue, id, plan, data_type_of(wide, op), std::span(values.data(), scalars.size()));
  for (const Widened& widened : results) dlprim::copy(queue, widened.narrow, widened.wide);
}

}  // namespace

void run_pointwise(at::TensorIteratorBase& it, dlprim::PointwiseId id, c10::ArrayRef<c10::Scalar> scalars) {
  const char* op = dlprim::pointwise_row(id).name;
  const at::ScalarType compute = compute_type_of(it);
  if (C10_UNLIKELY(small_float(compute) && by_way_of_float(id)))
    return it.numel() == 0 ? void() : run_on_small_floats(it, id, compute);
  if (C10_UNLIKELY(has_complex_halves(it, compute) && !moves_elements(op))) {
    const at::ScalarType wide = compute == at::kComplexHalf ? at::kComplexFloat
                                : compute == at::kHalf      ? at::kFloat
                                                            : compute;
    if (dlprim::serves(id, data_type_of(wide, op)))
      return it.numel() == 0 ? void() : run_on_complex_halves(it, id, wide, scalars);
  }
  const dlprim::DataType computed = data_type_of(compute, op);
  TORCH_CHECK_NOT_IMPLEMENTED(dlprim::serves(id, computed), '"', op, "\" not implemented for '", compute, "'");
  if (it.numel() == 0) return;
  if (C10_UNLIKELY(it.ndim() > dlprim::max_dims))
    return in_parts(it, [&](at::TensorIteratorBase& part) { run_pointwise(part, id, scalars); });
  dlprim::Plan plan;
  plan.dims = it.ndim();
  for (int d = 0; d < it.ndim(); d++) plan.sizes[d] = it.shape()[d];
  const bool rounds = at::isReducedFloatingType(compute) && rounds_numbers(id);
  for (int i = 0; i < it.ntensors(); i++) add_operand(plan, it, i, op, rounds ? std::optional(compute) : std::nullopt);
  plan.coalesce();
  std::array<dlprim::Scalar, 8> values;
  TORCH_INTERNAL_ASSERT(scalars.size() <= values.size());
  for (std::size_t i = 0; i < scalars.size(); i++) values[i] = to_scalar(scalars[i], compute);
  dlprim::pointwise(current_queue(it.device(0)), id, plan, computed, std::span(values.data(), scalars.size()));
}

}  // namespace pytorch_ocl
