// SPDX-License-Identifier: MIT
// Reading and writing at positions given by tensors: stubs of PyTorch's host code, and what CPU and CUDA do not share.
#include <ATen/MemoryOverlap.h>
#include <ATen/Context.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/ReductionType.h>
#include <ATen/native/TensorAdvancedIndexing.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <dlprim/primitives/index.hpp>
#include <dlprim/primitives/pointwise.hpp>

#include "generated/functions/index.h"
#include "generated/structured/index_add_out.h"
#include "generated/structured/index_reduce_out.h"
#include "ops/index.hpp"
#include "ops/iterator.hpp"
#include "runtime/scalar.hpp"
#include "runtime/tensor.hpp"

#include <limits>
#include <map>
#include <mutex>
#include <tuple>

namespace pytorch_ocl {

namespace {

using dlprim::Update;

at::Tensor at_least_1d(const at::Tensor& tensor) { return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor; }

// Sums and products of 16-bit floats are taken in float32 and rounded once.
bool needs_float(const at::Tensor& tensor, Update update) {
  return c10::isReducedFloatingType(tensor.scalar_type()) && (update == Update::add || update == Update::multiply);
}

// Runs `write` on a tensor it may update: self, or a float32 copy of it.
template <class Write>
void with_accumulator(const at::Tensor& self, Update update, Write write) {
  if (!needs_float(self, update)) return write(self);
  const at::Tensor wide = self.to(at::kFloat);
  write(wide);
  self.copy_(wide);
}

// With deterministic algorithms, floating sums and all assignments take place in the order of the values.
bool needs_order(const at::Tensor& self, Update update, const char* op) {
  if (C10_LIKELY(!at::globalContext().deterministicAlgorithms())) return false;
  if (update == Update::assign) return true;
  if (!self.is_floating_point() && !self.is_complex()) return false;
  if (update == Update::multiply) at::globalContext().alertNotDeterministic(op);
  return update == Update::add;
}

// `choose` picks from a tensor of self's shape the elements that `values` update.
template <class Choose>
void ordered_write(const at::Tensor& self, const at::Tensor& values, Update update, Choose choose) {
  const at::Tensor dense = self.contiguous();
  const at::Tensor all = at::arange(self.numel(), self.options().dtype(at::kLong)).view(self.sizes());
  const at::Tensor chosen = choose(all);
  const at::Tensor given = values.expand(chosen.sizes()).contiguous();
  const auto [rows, order] = chosen.reshape({-1}).sort(true, 0, false);
  if (given.numel() > 0)
    dlprim::ordered_write(current_queue(self.device()), view_of(dense), view_of(given), view_of(rows), view_of(order),
                          update);
  if (!dense.is_same(self)) self.copy_(dense);
}

dlprim::IndexOptions options_for(const char* op, int64_t dim, int64_t size, bool wrap = false) {
  dlprim::IndexOptions options;
  options.wrap = wrap, options.message = bounds_message(op, dim, size);
  return options;
}

Update update_of(at::native::ReductionType type) {
  using Type = at::native::ReductionType;
  switch (type) {
    case Type::MAX: return Update::maximum;
    case Type::MIN: return Update::minimum;
    case Type::PROD: return Update::multiply;
    default: return Update::add;  // means are divided by PyTorch's host code
  }
}

void scatter(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src, Update update,
             const char* op) {
  if (index.numel() == 0) return;
  const at::Tensor to = at_least_1d(self), at = at_least_1d(index);
  dim = at::maybe_wrap_dim(dim, to.dim());
  if (needs_order(self, update, op))
    return ordered_write(to, at_least_1d(src).as_strided(at.sizes(), at_least_1d(src).strides()), update,
                         [&](const at::Tensor& all) { return all.gather(dim, at.to(at::kLong)); });
  with_accumulator(to, update, [&](const at::Tensor& target) {
    dlprim::scatter(current_queue(self.device()), view_of(target, op), int(dim), view_of(at, op),
                    view_of(at_least_1d(src), op), update, options_for(op, dim, to.size(dim)));
  });
}

// A number as a tensor of index's shape.
at::Tensor spread(const at::Scalar& value, const at::Tensor& index, const at::Tensor& self) {
  return at::full({}, value, self.options()).expand(index.sizes());
}

void gather_kernel(const at::Tensor& result, const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  if (index.numel() == 0) return;
  const at::Tensor from = at_least_1d(self);
  dim = at::maybe_wrap_dim(dim, from.dim());
  dlprim::gather(current_queue(self.device()), view_of(at_least_1d(result), "gather"), view_of(from, "gather"),
                 int(dim), view_of(at_least_1d(index), "gather"), options_for("gather", dim, from.size(dim)));
}

void scatter_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src) {
  scatter(self, dim, index, src, Update::assign, "scatter");
}

void scatter_fill_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
  scatter(self, dim, index, spread(value, index, self), Update::assign, "scatter");
}

void scatter_add_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src) {
  scatter(self, dim, index, src, Update::add, "scatter_add");
}

void scatter_reduce_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                           const at::native::ReductionType& type) {
  scatter(self, dim, index, src, update_of(type), "scatter_reduce");
}

void scatter_scalar_reduce_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                                  const at::Scalar& value, const at::native::ReductionType& type) {
  scatter(self, dim, index, spread(value, index, self), update_of(type), "scatter");
}

// Index tensors are the operands from `first` on; all address the same tensor.
std::vector<dlprim::IndexedDim> indexed_dims(at::TensorIteratorBase& it, int first, at::IntArrayRef sizes,
                                             at::IntArrayRef byte_strides, int64_t element, const char* op) {
  std::vector<dlprim::IndexedDim> dims;
  for (int i = first; i < it.ntensors(); i++)
    dims.push_back({operand_view(it, i, op), sizes[std::size_t(i - first)],
                    byte_strides[std::size_t(i - first)] / element});
  return dims;
}

dlprim::IndexOptions wrapping(const char* op, at::IntArrayRef sizes) {
  return options_for(op, -1, sizes.size() == 1 ? sizes[0] : -1, true);
}

void index_kernel(at::TensorIteratorBase& it, at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (it.numel() == 0) return;
  const auto dims = indexed_dims(it, 2, sizes, strides, it.element_size(1), "index");
  dlprim::indexed_read(current_queue(it.device(0)), operand_view(it, 0, "index"), operand_view(it, 1, "index"), dims,
                       wrapping("index", sizes));
}

void index_put_kernel(at::TensorIterator& it, at::IntArrayRef sizes, at::IntArrayRef strides, bool accumulate) {
  if (it.numel() == 0) return;
  const auto dims = indexed_dims(it, 2, sizes, strides, it.element_size(0), "index_put_");
  dlprim::indexed_write(current_queue(it.device(0)), operand_view(it, 0, "index_put_"),
                        operand_view(it, 1, "index_put_"), dims, accumulate ? Update::add : Update::assign,
                        wrapping("index_put_", sizes));
}

// What PyTorch asks for when sums, or the winner among several values, are to be deterministic.
void index_put_with_sort_kernel(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                                const at::Tensor& values, bool accumulate, bool) {
  if (self.numel() == 0) return;
  ordered_write(self, values, accumulate ? Update::add : Update::assign,
                [&](const at::Tensor& all) { return at::index(all, indices); });
}

void index_copy_kernel(at::TensorIterator& it, int64_t dim, int64_t size, int64_t stride) {
  if (it.numel() == 0) return;
  const dlprim::IndexedDim dims[] = {{operand_view(it, 1, "index_copy_"), size, stride}};
  dlprim::indexed_write(current_queue(it.device(0)), operand_view(it, 0, "index_copy_"),
                        operand_view(it, 2, "index_copy_"), dims, Update::assign,
                        options_for("index_copy_", dim, size));
}

void index_fill_kernel(at::TensorIterator& it, int64_t dim, int64_t size, int64_t stride, const at::Scalar& value) {
  if (it.numel() == 0) return;
  const at::Tensor number = at::full({}, value, it.tensor(0).options());
  const dlprim::IndexedDim dims[] = {{operand_view(it, 1, "index_fill_"), size, stride}};
  dlprim::indexed_write(current_queue(it.device(0)), operand_view(it, 0, "index_fill_"), view_of(number, "index_fill_"),
                        dims, Update::assign, options_for("index_fill_", dim, size, true));
}

void take_kernel(at::TensorIterator& it, const at::TensorBase& input) {
  if (it.numel() == 0) return;
  at::assert_no_internal_overlap(it.tensor(0));
  const at::Tensor source = at::Tensor(input).contiguous();
  dlprim::TensorView out = operand_view(it, 0, "take"), from = out;
  from.data = buffer_of(source);
  from.strides.fill(0);
  const dlprim::IndexedDim dims[] = {{operand_view(it, 1, "take"), source.numel(), 1}};
  dlprim::indexed_read(current_queue(it.device(0)), out, from, dims,
                       options_for("take", -1, source.numel(), true));
}

void put_kernel(at::TensorIterator& it, const at::TensorBase& self, bool accumulate) {
  if (it.numel() == 0) return;
  if (accumulate && !c10::isIntegralType(self.scalar_type(), true)) at::globalContext().alertNotDeterministic("put_");
  const at::Tensor target = at::Tensor(self), dense = target.contiguous();
  const Update update = accumulate ? Update::add : Update::assign;
  with_accumulator(dense, update, [&](const at::Tensor& sum) {
    const dlprim::TensorView values = operand_view(it, 0, "put_");
    dlprim::TensorView to = values;
    to.data = buffer_of(sum), to.dtype = data_type_of(sum, "put_");
    to.strides.fill(0);
    const dlprim::IndexedDim dims[] = {{operand_view(it, 1, "put_"), sum.numel(), 1}};
    dlprim::indexed_write(current_queue(sum.device()), to, values, dims, update,
                          options_for("put_", -1, sum.numel(), true));
  });
  if (!dense.is_same(target)) target.copy_(dense);
}

// Writes `source` into the slices of `self` that `index` names.
void update_slices(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                   Update update, const char* op) {
  if (index.numel() == 0 || source.numel() == 0) return;
  if (needs_order(self, update, op))
    return ordered_write(at_least_1d(self), at_least_1d(source), update,
                         [&](const at::Tensor& all) { return all.index_select(dim, at_least_1d(index)); });
  with_accumulator(at_least_1d(self), update, [&](const at::Tensor& target) {
    dlprim::index_update(current_queue(self.device()), view_of(target, op), int(dim), view_of(at_least_1d(index), op),
                         view_of(at_least_1d(source), op), update, options_for(op, dim, target.size(dim)));
  });
}

at::Scalar start_of(c10::string_view reduce, at::ScalarType type) {
  if (reduce == "prod") return 1;
  if (reduce == "mean") return 0;
  const bool largest = reduce == "amin";
  if (c10::isFloatingType(type)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return largest ? infinity : -infinity;
  }
  if (type == at::kBool) return largest;
  switch (type) {
    case at::kByte: return largest ? 255 : 0;
    case at::kChar: return largest ? 127 : -128;
    case at::kShort: return largest ? 32767 : -32768;
    case at::kInt: return int64_t(largest ? std::numeric_limits<int>::max() : std::numeric_limits<int>::min());
    default: return largest ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
  }
}

}  // namespace

const char* bounds_message(const char* op, int64_t dim, int64_t size) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string_view, int64_t, int64_t>, std::string> messages;
  constexpr std::size_t most = 4096;
  std::lock_guard guard(mutex);
  const auto found = messages.find({op, dim, size});
  if (found != messages.end()) return found->second.c_str();
  if (messages.size() >= most) return "index %lld is out of bounds";
  std::string text = std::string(op) + "(): index %lld is out of bounds";
  if (size >= 0) text += " for dimension ";
  if (size >= 0 && dim >= 0) text += std::to_string(dim) + " ";
  if (size >= 0) text += "with size " + std::to_string(size);
  return messages.emplace(std::tuple(op, dim, size), std::move(text)).first->second.c_str();
}

void structured_index_add_out::impl(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                                    const at::Tensor& source, const at::Scalar& alpha, const at::Tensor& out) {
  if (!out.is_same(self)) out.copy_(self);
  const bool plain = alpha.isIntegral(true) && alpha.toLong() == 1;
  update_slices(out, dim, index, plain ? source : source.mul(alpha), Update::add, "index_add_");
}

void structured_index_reduce_out::impl(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                                       const at::Tensor& source, c10::string_view reduce, bool include_self,
                                       const at::Tensor& out) {
  const bool known = reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin";
  TORCH_CHECK(known, "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got ", reduce, ".");
  if (!out.is_same(self)) out.copy_(self);
  if (index.numel() == 0) return;
  if (!include_self) at::Tensor(out).index_fill_(dim, index.to(at::kLong), start_of(reduce, out.scalar_type()));
  const Update update = reduce == "prod"   ? Update::multiply
                        : reduce == "mean" ? Update::add
                        : reduce == "amax" ? Update::maximum
                                           : Update::minimum;
  update_slices(out, dim, index, source, update, "index_reduce_");
  if (reduce != "mean") return;
  at::Tensor count = include_self ? at::ones(out.sizes(), out.options()) : at::zeros(out.sizes(), out.options());
  update_slices(count, dim, index, at::ones(source.sizes(), source.options()), Update::add, "index_reduce_");
  count.masked_fill_(count.eq(0), 1);
  if (out.is_floating_point() || out.is_complex()) at::Tensor(out).div_(count);
  else at::Tensor(out).div_(count, "floor");
}

namespace ops {

at::Tensor& index_select_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, at::Tensor& out) {
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "index_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(self.dim() > 0 || index.numel() == 1,
              "index_select(): Index to scalar can have only 1 value, got ", index.numel(), " value(s)");
  std::vector<int64_t> sizes = self.sizes().vec();
  if (self.dim() > 0) sizes[std::size_t(dim)] = index.numel();
  out.resize_(sizes);
  if (out.numel() == 0) return out;
  const at::Tensor from = at_least_1d(self);
  dlprim::index_select(current_queue(self.device()), view_of(at_least_1d(out), "index_select"),
                       view_of(from, "index_select"), int(dim), view_of(at_least_1d(index), "index_select"),
                       options_for("index_select", dim, from.size(dim)));
  return out;
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  at::Tensor out = at::empty({0}, self.options());
  return index_select_out(self, dim, index, out);
}

at::Tensor& masked_fill__Tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0,
              "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
              " dimension(s).");
  if (value.is_cpu()) return masked_fill__Scalar(self, mask, value.item());
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  TORCH_CHECK(self.is_complex() || !value.is_complex(), "value cannot be converted to type ", self.dtype().name(),
              " without overflow");
  if (self.numel() == 0) return self;
  const at::Tensor converted = value.to(self.scalar_type());
  const dlprim::TensorView to = view_of(self, "masked_fill_");
  dlprim::pointwise_operation(
      current_queue(self.device()),
      {view_of(mask.expand(self.sizes()), "masked_fill_"), view_of(converted, "masked_fill_"), to}, {to}, {},
      self.is_complex() ? "y0 = x0.x != 0 ? x1 : x2;" : "y0 = x0 != 0 ? x1 : x2;", to.dtype);
  return self;
}

at::Tensor& masked_fill__Scalar(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  return masked_fill__Tensor(self, mask, at::full({}, value, self.options()));
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(gather_stub, &pytorch_ocl::gather_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_stub, &pytorch_ocl::scatter_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_fill_stub, &pytorch_ocl::scatter_fill_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_add_stub, &pytorch_ocl::scatter_add_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_reduce_stub, &pytorch_ocl::scatter_reduce_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_reduce_two_stub, &pytorch_ocl::scatter_reduce_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_scalar_reduce_stub, &pytorch_ocl::scatter_scalar_reduce_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_stub, &pytorch_ocl::index_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_put_stub, &pytorch_ocl::index_put_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_put_with_sort_stub, &pytorch_ocl::index_put_with_sort_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_copy_stub, &pytorch_ocl::index_copy_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_fill_stub, &pytorch_ocl::index_fill_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(take_stub, &pytorch_ocl::take_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(put_stub, &pytorch_ocl::put_kernel)

}  // namespace at::native
