// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/primitives/plan.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <cstdlib>

#include "check.hpp"

namespace dlprim {

namespace {

std::string shape_text(const TensorView& view) {
  std::string text = "(";
  for (int d = 0; d < view.dims; d++) text += (d ? ", " : "") + std::to_string(view.sizes[d]);
  return text + ")";
}

// Whether dimension a is to run slower than b: decided by the first operand whose strides tell.
bool slower(const Plan& plan, int a, int b) {
  for (int k = 0; k < plan.count(); k++) {
    const std::int64_t sa = std::llabs(plan.operands[k].strides[a]), sb = std::llabs(plan.operands[k].strides[b]);
    if (plan.operands[k].constant() || sa == 0 || sb == 0) continue;
    if (sa != sb) return sa > sb;
    if (plan.sizes[a] != plan.sizes[b]) return plan.sizes[a] > plan.sizes[b];
  }
  return false;
}

void swap_dims(Plan& plan, int a, int b) {
  std::swap(plan.sizes[a], plan.sizes[b]);
  for (int k = 0; k < plan.count(); k++) std::swap(plan.operands[k].strides[a], plan.operands[k].strides[b]);
}

void move_dim(Plan& plan, int from, int to) {
  plan.sizes[to] = plan.sizes[from];
  for (int k = 0; k < plan.count(); k++) plan.operands[k].strides[to] = plan.operands[k].strides[from];
}

// Dimension `slow` continues `fast` in every operand.
bool joins(const Plan& plan, int fast, int slow) {
  for (int k = 0; k < plan.count(); k++) {
    const Operand& x = plan.operands[k];
    if (!x.constant() && x.strides[slow] != x.strides[fast] * plan.sizes[fast]) return false;
  }
  return true;
}

}  // namespace

Plan& Plan::operator=(const Plan& other) noexcept {
  if (this == &other) return *this;
  dims = other.dims, outputs = other.outputs, inputs = other.inputs;
  std::copy_n(other.sizes, dims, sizes);
  for (int k = 0; k < count(); k++) {
    const Operand& from = other.operands[k];
    Operand& to = operands[k];
    to.data = from.data, to.dtype = from.dtype, to.value = from.value;
    std::copy_n(from.strides, dims, to.strides);
  }
  return *this;
}

std::int64_t Plan::numel() const noexcept {
  std::int64_t n = 1;
  for (int d = 0; d < dims; d++) n *= sizes[d];
  return n;
}

Operand& Plan::add(BufferRef data, DataType dtype, bool output) {
  if (count() == max_operands)
    throw ValidationError("[plan] expected at most " + std::to_string(max_operands) + " operands, got more");
  Operand& operand = operands[count()];
  operand.data = data, operand.dtype = dtype;
  (output ? outputs : inputs)++;
  return operand;
}

void Plan::add_constant(Scalar value, DataType dtype) {
  Operand& operand = add({}, dtype, false);
  operand.value = value;
  std::fill_n(operand.strides, dims, 0);
}

void Plan::coalesce() noexcept {
  int kept = 0;
  for (int d = 0; d < dims; d++)
    if (sizes[d] != 1) move_dim(*this, d, kept++);
  dims = kept;
  for (int d = 1; d < dims; d++)  // insertion keeps the given order where strides do not tell
    for (int e = d; e > 0 && slower(*this, e - 1, e); e--) swap_dims(*this, e - 1, e);
  kept = 0;
  for (int d = 1; d < dims; d++) {
    if (joins(*this, kept, d)) sizes[kept] *= sizes[d];
    else move_dim(*this, d, ++kept);
  }
  if (dims > 0) dims = kept + 1;
  if (dims == 0) {
    dims = 1, sizes[0] = 1;
    for (int k = 0; k < count(); k++) operands[k].strides[0] = 0;
  }
}

void Plan::split_elements(int words, int count) noexcept {
  std::copy_backward(sizes, sizes + dims, sizes + dims + 1);
  sizes[0] = words;
  for (int k = 0; k < this->count(); k++) {
    Operand& x = operands[k];
    const int factor = k < count ? words : 1;
    for (int d = dims; d > 0; d--) x.strides[d] = factor * x.strides[d - 1];
    x.strides[0] = k < count ? 1 : 0;
  }
  dims++;
}

bool Plan::fits_32bit() const noexcept {
  const std::int64_t limit = settings.index_limit;
  if (numel() > limit) return false;
  for (int k = 0; k < count(); k++) {
    if (operands[k].constant()) continue;
    std::int64_t reach = 1;
    for (int d = 0; d < dims; d++) reach += (sizes[d] - 1) * std::llabs(operands[k].strides[d]);
    if (reach > limit) return false;
  }
  return true;
}

Plan Plan::split() noexcept {
  int widest = dims - 1;
  std::int64_t farthest = -1;
  for (int d = 0; d < dims; d++)
    for (int k = 0; k < count(); k++) {
      const std::int64_t stride = operands[k].constant() ? 0 : std::llabs(operands[k].strides[d]);
      const std::int64_t reach = sizes[d] > 1 ? (sizes[d] - 1) * std::max<std::int64_t>(stride, 1) : -1;
      if (reach > farthest) farthest = reach, widest = d;
    }
  Plan rest = *this;
  const std::int64_t half = sizes[widest] / 2;
  sizes[widest] = half;
  rest.sizes[widest] -= half;
  for (int k = 0; k < count(); k++)
    rest.operands[k].data.offset += std::size_t(half * rest.operands[k].strides[widest]) * size_of(operands[k].dtype);
  return rest;
}

Plan make_plan(std::span<const TensorView> outputs, std::span<const TensorView> inputs, const char* op) {
  DLPRIM_EXPECT(!outputs.empty(), op, "at least one output, got none");
  const TensorView& shape = outputs[0];
  Plan plan;
  plan.dims = shape.dims;
  for (int d = 0; d < shape.dims; d++) plan.sizes[d] = shape.sizes[shape.dims - 1 - d];
  auto add = [&](const TensorView& view, bool output) {
    bool fits = output ? view.dims == shape.dims : view.dims <= shape.dims;
    for (int d = 0; fits && d < view.dims; d++) {
      const std::int64_t size = view.sizes[view.dims - 1 - d];
      fits = size == plan.sizes[d] || (size == 1 && !output);
    }
    DLPRIM_EXPECT(fits, op, "a shape that broadcasts to ", shape_text(shape), ", got ", shape_text(view));
    Operand& operand = plan.add(view.data, view.dtype, output);
    for (int d = 0; d < plan.dims; d++) {
      const bool present = d < view.dims && view.sizes[view.dims - 1 - d] != 1;
      operand.strides[d] = present ? view.strides[view.dims - 1 - d] : 0;
    }
  };
  for (const TensorView& view : outputs) add(view, true);
  for (const TensorView& view : inputs) add(view, false);
  if (plan.numel() > 0) plan.coalesce();
  return plan;
}

}  // namespace dlprim
