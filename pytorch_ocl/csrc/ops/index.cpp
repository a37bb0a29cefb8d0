// SPDX-License-Identifier: MIT
// Reading and writing at positions given by tensors: stubs of PyTorch's host code, and what CPU and CUDA do not share.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/ReductionType.h>
#include <ATen/native/TensorAdvancedIndexing.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/_index_put_impl_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <dlprim/primitives/index.hpp>
#include <dlprim/primitives/pointwise.hpp>

#include "generated/functions/index.h"
#include "generated/structured/index_add_out.h"
#include "generated/structured/index_reduce_out.h"
#include "ops/index.hpp"
#include "ops/iterator.hpp"
#include "ops/many_dims.hpp"
#include "runtime/scalar.hpp"
#include "runtime/small_floats.hpp"
#include "runtime/tensor.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>

namespace pytorch_ocl {

namespace {

using dlprim::Update;

at::Tensor at_least_1d(const at::Tensor& tensor) { return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor; }

bool needs_float(const at::Tensor& tensor, Update update) {
  return c10::isReducedFloatingType(tensor.scalar_type()) && (update == Update::add || update == Update::multiply);
}

// With deterministic algorithms, floating sums and products and all assignments take place in the order of the values.
bool needs_order(const at::Tensor& self, Update update) {
  if (C10_LIKELY(!at::globalContext().deterministicAlgorithms())) return false;
  const bool rounds = self.is_floating_point() || self.is_complex();
  return update == Update::assign || (rounds && (update == Update::add || update == Update::multiply));
}

dlprim::IndexOptions options_for(const char* op, int64_t dim, int64_t size, bool wrap = false) {
  dlprim::IndexOptions options;
  options.wrap = wrap, options.message = bounds_message(op, dim, size);
  return options;
}

// An iterator over the shape of `index`, along `dim` of which the addressed tensor stands still, in parts of as many
// dims as kernels take. run(part) gets it with the operands `first`, `second` and the index.
template <class Run>
void along_in_parts(const at::Tensor& first, const at::Tensor& second, const at::Tensor& index, const Run& run) {
  at::TensorIteratorConfig config;
  config.add_output(first).add_const_input(second).add_const_input(index);
  config.check_all_same_dtype(false).set_check_mem_overlap(false).resize_outputs(false);
  at::TensorIterator it = config.build();
  if (it.numel() > 0) in_parts(it, run);
}

// `tensor` as an index of the given sizes addresses it along `dim`.
at::Tensor addressed(const at::Tensor& tensor, int64_t dim, at::IntArrayRef sizes) {
  std::vector<int64_t> strides = tensor.strides().vec();
  strides[std::size_t(dim)] = 0;
  return tensor.as_strided(sizes, strides);
}

void gather_in_parts(const at::Tensor& result, const at::Tensor& self, int64_t dim, const at::Tensor& index,
                     const char* op) {
  const int64_t size = self.size(dim), stride = self.stride(dim);
  along_in_parts(result, addressed(self, dim, index.sizes()), index, [&](at::TensorIteratorBase& part) {
    const dlprim::IndexedDim dims[] = {{operand_view(part, 2, op), size, stride}};
    dlprim::indexed_read(current_queue(self.device()), operand_view(part, 0, op), operand_view(part, 1, op), dims,
                         options_for(op, dim, size));
  });
}

void scatter_in_parts(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                      Update update, const dlprim::IndexOptions& options, const char* op) {
  const int64_t size = self.size(dim), stride = self.stride(dim);
  const at::Tensor values = src.as_strided(index.sizes(), src.strides());
  along_in_parts(addressed(self, dim, index.sizes()), values, index, [&](at::TensorIteratorBase& part) {
    const dlprim::IndexedDim dims[] = {{operand_view(part, 2, op), size, stride}};
    dlprim::indexed_write(current_queue(self.device()), operand_view(part, 0, op), operand_view(part, 1, op), dims,
                          update, options);
  });
}

// A one-dimensional index as one of `sizes` that varies along `dim` only.
at::Tensor expand_along(const at::Tensor& index, int64_t dim, at::IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size());
  strides[std::size_t(dim)] = index.stride(0);
  return index.as_strided(sizes, strides);
}

// Runs `write` on a tensor it may update: self, or a float32 copy of it, in which 16-bit floats are summed and
// multiplied, to be rounded once. Updates in order round once by themselves.
template <class Write>
void with_accumulator(const at::Tensor& self, Update update, dlprim::IndexOptions options, Write write) {
  options.ordered = needs_order(self, update);
  if (options.ordered || !needs_float(self, update)) return write(self, options);
  const at::Tensor wide = self.to(at::kFloat);
  write(wide, options);
  self.copy_(wide);
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
  with_accumulator(to, update, options_for(op, dim, to.size(dim)),
                   [&](const at::Tensor& target, const dlprim::IndexOptions& options) {
                     if (C10_UNLIKELY(to.dim() > dlprim::max_dims))
                       return scatter_in_parts(target, dim, at, at_least_1d(src), update, options, op);
                     dlprim::scatter(current_queue(self.device()), view_of(target, op), int(dim), view_of(at, op),
                                     view_of(at_least_1d(src), op), update, options);
                   });
}

// A number as a tensor of index's shape.
at::Tensor expanded(const at::Scalar& value, const at::Tensor& index, const at::Tensor& self) {
  return at::full({}, value, self.options()).expand(index.sizes());
}

void gather_kernel(const at::Tensor& result, const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  if (index.numel() == 0) return;
  const at::Tensor from = at_least_1d(self);
  dim = at::maybe_wrap_dim(dim, from.dim());
  if (C10_UNLIKELY(from.dim() > dlprim::max_dims)) return gather_in_parts(result, from, dim, index, "gather");
  dlprim::gather(current_queue(self.device()), view_of(at_least_1d(result), "gather"), view_of(from, "gather"),
                 int(dim), view_of(at_least_1d(index), "gather"), options_for("gather", dim, from.size(dim)));
}

void scatter_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src) {
  scatter(self, dim, index, src, Update::assign, "scatter");
}

void scatter_fill_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
  scatter(self, dim, index, expanded(value, index, self), Update::assign, "scatter");
}

void scatter_add_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src) {
  scatter(self, dim, index, src, Update::add, "scatter_add");
}

void scatter_reduce_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                           const at::native::ReductionType& type) {
  scatter(self, dim, index, src, update_of(type), "scatter_reduce");
}

void scatter_scalar_reduce_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value,
                                  const at::native::ReductionType& type) {
  scatter(self, dim, index, expanded(value, index, self), update_of(type), "scatter");
}

// Index tensors are the operands from `first` on; all address the same tensor.
std::vector<dlprim::IndexedDim> indexed_dims(at::TensorIteratorBase& it, int first, at::IntArrayRef sizes,
                                             at::IntArrayRef byte_strides, int64_t element, const char* op) {
  std::vector<dlprim::IndexedDim> dims;
  for (int i = first; i < it.ntensors(); i++)
    dims.push_back(
        {operand_view(it, i, op), sizes[std::size_t(i - first)], byte_strides[std::size_t(i - first)] / element});
  return dims;
}

dlprim::IndexOptions wrapping(const char* op, at::IntArrayRef sizes) {
  return options_for(op, -1, sizes.size() == 1 ? sizes[0] : -1, true);
}

void index_kernel(at::TensorIteratorBase& it, at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (it.numel() == 0) return;
  if (C10_UNLIKELY(it.ndim() > dlprim::max_dims))
    return in_parts(it, [&](at::TensorIteratorBase& part) { index_kernel(part, sizes, strides); });
  const auto dims = indexed_dims(it, 2, sizes, strides, it.element_size(1), "index");
  dlprim::indexed_read(current_queue(it.device(0)), operand_view(it, 0, "index"), operand_view(it, 1, "index"), dims,
                       wrapping("index", sizes));
}

void check_sums(at::ScalarType type, bool accumulate) {
  TORCH_CHECK_NOT_IMPLEMENTED(!accumulate || !storage_only(type), "\"index_put\" not implemented for '",
                              c10::toString(type), "'");
}

// For sums of 16-bit floats there is no float32 copy of what the iterator addresses; in order they round once, too.
void index_put_part(at::TensorIteratorBase& it, at::IntArrayRef sizes, at::IntArrayRef strides, bool accumulate) {
  const auto dims = indexed_dims(it, 2, sizes, strides, it.element_size(0), "index_put_");
  const Update update = accumulate ? Update::add : Update::assign;
  dlprim::IndexOptions options = wrapping("index_put_", sizes);
  options.ordered = needs_order(it.tensor(0), update) || needs_float(it.tensor(0), update);
  dlprim::indexed_write(current_queue(it.device(0)), operand_view(it, 0, "index_put_"),
                        operand_view(it, 1, "index_put_"), dims, update, options);
}

void index_put_kernel(at::TensorIterator& it, at::IntArrayRef sizes, at::IntArrayRef strides, bool accumulate) {
  check_sums(it.dtype(0), accumulate);
  if (it.numel() == 0) return;
  in_parts(it, [&](at::TensorIteratorBase& part) { index_put_part(part, sizes, strides, accumulate); });
}

// The elements of a tensor that index tensors choose, as PyTorch lays them out: the index tensors' common shape takes
// the place of the indexed dimensions, or stands in front where these are not neighbours.
struct Chosen {
  std::vector<int64_t> sizes, strides;  // strides of 0 along the indices' shape
  std::vector<at::Tensor> indices;      // of `sizes`
  std::vector<int64_t> indexed_sizes, indexed_strides;

  Chosen(at::Tensor self, const c10::List<std::optional<at::Tensor>>& given) {
    std::vector<at::Tensor> all = at::expand_outplace(at::native::expandTensors(self, given, true));
    all.resize(std::size_t(self.dim()));
    if (!at::native::hasContiguousSubspace(all)) std::tie(self, all) = at::native::transposeToFront(self, all);
    int64_t before = 0;
    for (std::size_t d = 0; d < all.size(); d++) {
      if (!all[d].defined()) {
        sizes.push_back(self.size(int64_t(d))), strides.push_back(self.stride(int64_t(d)));
        continue;
      }
      if (indices.empty()) {
        before = int64_t(d);
        sizes.insert(sizes.end(), all[d].sizes().begin(), all[d].sizes().end());
        strides.resize(sizes.size());
      }
      indices.push_back(all[d].to(at::kLong));
      indexed_sizes.push_back(self.size(int64_t(d))), indexed_strides.push_back(self.stride(int64_t(d)));
    }
    for (at::Tensor& index : indices) {
      std::vector<int64_t> steps(sizes.size());
      std::ranges::copy(index.strides(), steps.begin() + before);
      index = index.as_strided(sizes, steps);
    }
  }
};

// What PyTorch asks for in place of index_put_kernel when values accumulate or are to be deterministic.
void index_put_with_sort_kernel(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                                const at::Tensor& values, bool accumulate, bool) {
  const char* op = "index_put_";
  TORCH_CHECK(self.scalar_type() == values.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", values.scalar_type(), " for the source.");
  check_sums(self.scalar_type(), accumulate);
  if (self.numel() == 0) return;
  const Update update = accumulate ? Update::add : Update::assign;
  const Chosen shape(self, indices);
  const at::Tensor given = values.expand(shape.sizes);
  if (given.numel() == 0) return;
  if (shape.indices.empty()) return void(accumulate ? self.add_(given) : self.copy_(given));
  with_accumulator(
      self, update, wrapping(op, shape.indexed_sizes),
      [&](const at::Tensor& target, const dlprim::IndexOptions& options) {
        const Chosen chosen = target.is_same(self) ? shape : Chosen(target, indices);
        const at::Tensor to = target.as_strided(chosen.sizes, chosen.strides);
        if (C10_UNLIKELY(to.dim() > dlprim::max_dims)) {
          at::TensorIteratorConfig config;
          config.add_output(to).add_const_input(given);
          for (const at::Tensor& index : chosen.indices) config.add_const_input(index);
          config.check_all_same_dtype(false).set_check_mem_overlap(false).resize_outputs(false);
          at::TensorIterator it = config.build();
          return in_parts(it, [&](at::TensorIteratorBase& part) {
            const auto dims = indexed_dims(part, 2, chosen.indexed_sizes, chosen.indexed_strides, 1, op);
            dlprim::indexed_write(current_queue(self.device()), operand_view(part, 0, op), operand_view(part, 1, op),
                                  dims, update, options);
          });
        }
        std::vector<dlprim::IndexedDim> dims;
        for (std::size_t k = 0; k < chosen.indices.size(); k++)
          dims.push_back({view_of(chosen.indices[k], op), chosen.indexed_sizes[k], chosen.indexed_strides[k]});
        dlprim::indexed_write(current_queue(self.device()), view_of(to, op), view_of(given, op), dims, update, options);
      });
}

void index_copy_part(at::TensorIteratorBase& it, int64_t dim, int64_t size, int64_t stride) {
  const dlprim::IndexedDim dims[] = {{operand_view(it, 1, "index_copy_"), size, stride}};
  dlprim::IndexOptions options = options_for("index_copy_", dim, size);
  options.ordered = needs_order(it.tensor(0), Update::assign);
  dlprim::indexed_write(current_queue(it.device(0)), operand_view(it, 0, "index_copy_"),
                        operand_view(it, 2, "index_copy_"), dims, Update::assign, options);
}

void index_copy_kernel(at::TensorIterator& it, int64_t dim, int64_t size, int64_t stride) {
  if (it.numel() == 0) return;
  in_parts(it, [&](at::TensorIteratorBase& part) { index_copy_part(part, dim, size, stride); });
}

void index_fill_kernel(at::TensorIterator& it, int64_t dim, int64_t size, int64_t stride, const at::Scalar& value) {
  if (it.numel() == 0) return;
  const at::Tensor number = at::full({}, value, it.tensor(0).options());
  in_parts(it, [&](at::TensorIteratorBase& part) {
    const dlprim::IndexedDim dims[] = {{operand_view(part, 1, "index_fill_"), size, stride}};
    dlprim::indexed_write(current_queue(part.device(0)), operand_view(part, 0, "index_fill_"),
                          view_of(number, "index_fill_"), dims, Update::assign,
                          options_for("index_fill_", dim, size, true));
  });
}

void take_kernel(at::TensorIterator& it, const at::TensorBase& input) {
  if (it.numel() == 0) return;
  at::assert_no_internal_overlap(it.tensor(0));
  const at::Tensor source = at::Tensor(input).contiguous();
  dlprim::TensorView out = operand_view(it, 0, "take"), from = out;
  from.data = buffer_of(source);
  from.strides.fill(0);
  const dlprim::IndexedDim dims[] = {{operand_view(it, 1, "take"), source.numel(), 1}};
  dlprim::indexed_read(current_queue(it.device(0)), out, from, dims, options_for("take", -1, source.numel(), true));
}

void put_kernel(at::TensorIterator& it, const at::TensorBase& self, bool accumulate) {
  if (it.numel() == 0) return;
  const at::Tensor target = at::Tensor(self), dense = target.contiguous();
  const Update update = accumulate ? Update::add : Update::assign;
  with_accumulator(dense, update, options_for("put_", -1, dense.numel(), true),
                   [&](const at::Tensor& sum, const dlprim::IndexOptions& options) {
                     const dlprim::TensorView values = operand_view(it, 0, "put_");
                     dlprim::TensorView to = values;
                     to.data = buffer_of(sum), to.dtype = data_type_of(sum, "put_");
                     to.strides.fill(0);
                     const dlprim::IndexedDim dims[] = {{operand_view(it, 1, "put_"), sum.numel(), 1}};
                     dlprim::indexed_write(current_queue(sum.device()), to, values, dims, update, options);
                   });
  if (!dense.is_same(target)) target.copy_(dense);
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

void update_slices(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                   dlprim::Update update, const char* op, std::optional<int64_t> ignore) {
  if (index.numel() == 0 || source.numel() == 0) return;
  const at::Tensor to = at_least_1d(self);
  dim = at::maybe_wrap_dim(dim, to.dim());
  dlprim::IndexOptions options = options_for(op, dim, to.size(dim));
  options.ignore = ignore;
  with_accumulator(to, update, options, [&](const at::Tensor& target, const dlprim::IndexOptions& chosen) {
    if (C10_UNLIKELY(target.dim() > dlprim::max_dims))
      return scatter_in_parts(target, dim, expand_along(at_least_1d(index), dim, source.sizes()), source, update,
                              chosen, op);
    dlprim::index_update(current_queue(self.device()), view_of(target, op), int(dim), view_of(at_least_1d(index), op),
                         view_of(at_least_1d(source), op), update, chosen);
  });
}

void structured_index_add_out::impl(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                                    const at::Tensor& source, const at::Scalar& alpha, const at::Tensor& out) {
  if (self.scalar_type() == at::kComplexHalf) {  // adds in float32
    const auto wide = at::kComplexFloat;
    out.copy_(at::index_add(self.to(wide), dim, index, source.to(wide), alpha));
    return;
  }
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

namespace {

void check_mask(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes)
    TORCH_WARN("Use of masked_fill_ on expanded tensors is deprecated. Please clone() the tensor before performing "
               "this operation.");
  at::assert_no_partial_overlap(self, mask);
}

// Where the mask is set, self becomes the value, or the number where that is undefined.
void fill_where(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& value,
                std::initializer_list<dlprim::Scalar> number) {
  constexpr const char* op = "masked_fill_";
  constexpr const char* by_value[] = {"y0 = x0 != 0 ? x2 : x1;", "y0 = x0.x != 0 ? x2 : x1;"};
  constexpr const char* by_number[] = {"y0 = x0 != 0 ? w0 : x1;", "y0 = x0.x != 0 ? w0 : x1;"};
  if (C10_UNLIKELY(self.dim() > dlprim::max_dims)) {
    self.copy_(at::where(mask, value, self));
    return;
  }
  dlprim::Queue& queue = current_queue(self.device());
  const dlprim::TensorView to = view_of(self, op), chosen = view_of(mask.expand(self.sizes()), op);
  const bool complex = is_complex(to.dtype);
  if (value.defined())
    dlprim::pointwise_operation(queue, {chosen, to, view_of(value, op)}, {to}, {}, by_value[complex], to.dtype);
  else dlprim::pointwise_operation(queue, {chosen, to}, {to}, number, by_number[complex], to.dtype);
}

}  // namespace

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
  TORCH_CHECK(self.dim() > 0 || index.numel() == 1, "index_select(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
  std::vector<int64_t> sizes = self.sizes().vec();
  if (self.dim() > 0) sizes[std::size_t(dim)] = index.numel();
  at::native::resize_output(out, sizes);
  if (out.numel() == 0) return out;
  const at::Tensor from = at_least_1d(self);
  if (C10_UNLIKELY(from.dim() > dlprim::max_dims)) {
    gather_in_parts(out, from, dim, expand_along(at_least_1d(index), dim, out.sizes()), "index_select");
    return out;
  }
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
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  if (value.is_cpu()) return masked_fill__Scalar(self, mask, value.item());
  TORCH_CHECK(self.is_complex() || !value.is_complex(), "value cannot be converted to type ", self.dtype().name(),
              " without overflow");
  check_mask(self, mask);
  if (self.numel() > 0) fill_where(self, mask, value.to(self.scalar_type()), {});
  return self;
}

at::Tensor& masked_fill__Scalar(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  const at::ScalarType type = self.scalar_type();
  if (storage_only(type) || self.dim() > dlprim::max_dims)
    return masked_fill__Tensor(self, mask, at::full({}, value, self.options()));
  check_fits(value, type);
  check_mask(self, mask);
  if (self.numel() > 0) fill_where(self, mask, {}, {to_scalar(value, type)});
  return self;
}

// One value for all that a mask chooses needs no list of positions, whose length the host would have to wait for.
at::Tensor& _index_put_impl_(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                             const at::Tensor& values, bool accumulate, bool unsafe) {
  if (!accumulate && values.numel() == 1 && values.scalar_type() == self.scalar_type()) {
    // PyTorch asks so for values on the CPU alone.
    const auto [fills, mask] = at::native::canDispatchToMaskedFill(self, indices, at::empty({}, at::kCPU));
    if (fills && mask.scalar_type() == at::kBool) return masked_fill__Tensor(self, mask, values.reshape({}));
  }
  if (accumulate && self.scalar_type() == at::kComplexHalf &&
      values.scalar_type() == at::kComplexHalf) {  // adds in float32
    at::Tensor wide = self.to(at::kComplexFloat);
    return self.copy_(_index_put_impl_(wide, indices, values.to(at::kComplexFloat), true, unsafe));
  }
  return at::native::_index_put_impl_(self, indices, values, accumulate, unsafe);
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
