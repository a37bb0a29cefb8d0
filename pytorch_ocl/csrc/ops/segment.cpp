// SPDX-License-Identifier: MIT
// Reductions of consecutive segments of a dimension, given by their lengths or by their offsets.
#include <ATen/native/SegmentReduce.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "ops/dtypes.hpp"

namespace pytorch_ocl {

namespace {

using at::native::ReductionType;
using Initial = std::optional<c10::Scalar>;

at::Tensor offsets_of(const at::Tensor& lengths) {
  auto sizes = lengths.sizes().vec();
  sizes.back()++;
  at::Tensor offsets = at::zeros(sizes, lengths.options());
  offsets.narrow(-1, 1, lengths.size(-1)).copy_(lengths.cumsum(-1));
  return offsets;
}

// Segments of dimension `axis` of data; what lies in none belongs to one more segment at the end, which is dropped.
class Segments {
 public:
  Segments(const at::Tensor& data, const at::Tensor& offsets, int64_t axis)
      : axis_(axis), count_(offsets.size(-1) - 1), offsets_(offsets) {
    auto sizes = offsets.sizes().vec();
    sizes.back() = data.size(axis);
    const at::Tensor position = at::arange(sizes.back(), offsets.options()).expand(sizes).contiguous();
    const at::Tensor found = at::searchsorted(offsets.contiguous(), position, false, /*right=*/true).sub_(1);
    number_ = along(found.masked_fill(found.lt(0), count_), data.dim()).expand(data.sizes());
    sizes_ = data.sizes().vec();
    sizes_[axis] = count_ + 1;
  }

  // Reduces `values`, of data's shape, into one value a segment.
  at::Tensor reduce(const at::Tensor& values, c10::string_view how, const c10::Scalar& initial) const {
    at::Tensor result = at::full(sizes_, initial, values.options());
    if (values.numel() > 0) result.scatter_reduce_(axis_, number_, values, how);
    return result.narrow(axis_, 0, count_);
  }

  // The segment's value for each of its elements, 0 for elements of none.
  at::Tensor gathered(const at::Tensor& values) const {
    at::Tensor padded = at::zeros(sizes_, values.options());
    padded.narrow(axis_, 0, count_).copy_(values);
    return padded.gather(axis_, number_);
  }

  at::Tensor lengths(const at::Tensor& like) const { return along(offsets_.diff(), like.dim()).to(like.scalar_type()); }

 private:
  static at::Tensor along(const at::Tensor& x, int64_t dims) {
    auto sizes = x.sizes().vec();
    sizes.resize(std::size_t(dims), 1);
    return x.view(sizes);
  }

  int64_t axis_, count_;
  at::Tensor offsets_, number_;
  std::vector<int64_t> sizes_;
};

c10::Scalar initial_of(ReductionType reduction, const Initial& initial) {
  if (initial) return *initial;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (reduction) {
    case ReductionType::PROD: return 1;
    case ReductionType::MAX: return -infinity;
    case ReductionType::MIN: return infinity;
    default: return 0;
  }
}

c10::string_view name_of(ReductionType reduction) {
  switch (reduction) {
    case ReductionType::PROD: return "prod";
    case ReductionType::MAX: return "amax";
    case ReductionType::MIN: return "amin";
    default: return "sum";
  }
}

// 16-bit floats are reduced in float32.
at::Tensor widened(const at::Tensor& x) { return c10::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x; }

at::Tensor reduce_offsets(ReductionType reduction, const at::Tensor& data, const at::Tensor& offsets, int64_t axis,
                          const Initial& initial) {
  check_dtype(data, served::floating_, "_segment_reduce");
  const Segments segments(data, offsets, axis);
  const c10::Scalar first = initial_of(reduction, initial);
  at::Tensor result = segments.reduce(widened(data), name_of(reduction), first);
  if (reduction == ReductionType::MEAN) {  // of nothing: what was given, else NaN
    const at::Tensor lengths = segments.lengths(result);
    result = result.div(initial ? lengths.clamp_min(1) : lengths);
  }
  return result.to(data.scalar_type()).contiguous();
}

at::Tensor reduce_lengths(ReductionType reduction, const at::Tensor& data, const at::Tensor& lengths, int64_t axis,
                          const Initial& initial) {
  return reduce_offsets(reduction, data, offsets_of(lengths), axis, initial);
}

// Of a product: result / element; for an element that is zero or NaN, the product of the others, which is NaN or 0 if
// one of them is.
at::Tensor product_gradient(const Segments& segments, const at::Tensor& grad, const at::Tensor& output,
                            const at::Tensor& data, const c10::Scalar& initial) {
  const auto count = [&](const at::Tensor& mask) {
    return segments.gathered(segments.reduce(mask.to(data.scalar_type()), "sum", 0));
  };
  const at::Tensor nan = data.isnan(), special = data.eq(0).logical_or_(nan);
  const at::Tensor others = segments.gathered(segments.reduce(data.masked_fill(special, 1), "prod", initial));
  const at::Tensor other_nan = count(nan).gt(nan.to(data.scalar_type()));
  const at::Tensor product = others.masked_fill_(count(special).gt(1), 0).masked_fill_(other_nan, NAN);
  const at::Tensor g = segments.gathered(grad);
  return at::where(special, g.mul(product), g.mul(segments.gathered(output)).div_(data));
}

at::Tensor backward_offsets(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data,
                            ReductionType reduction, const at::Tensor& offsets, int64_t axis, const Initial& initial) {
  const Segments segments(data, offsets, axis);
  const at::Tensor g = widened(grad), x = widened(data), y = widened(output);
  at::Tensor result;
  if (reduction == ReductionType::SUM) {
    result = segments.gathered(g);
  } else if (reduction == ReductionType::MEAN) {
    result = segments.gathered(g.div(segments.lengths(g).clamp_min(1)));
  } else if (reduction == ReductionType::PROD) {
    result = product_gradient(segments, g, y, x, initial_of(reduction, initial));
  } else {  // the elements that equal the largest share its gradient
    const at::Tensor equal = x.eq(segments.gathered(y)).logical_or(x.isnan()).to(g.scalar_type());
    result = segments.gathered(g.div(segments.reduce(equal, "sum", 0).clamp_min(1))).mul(equal);
  }
  return result.to(data.scalar_type());
}

at::Tensor backward_lengths(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data,
                            ReductionType reduction, const at::Tensor& lengths, int64_t axis, const Initial& initial) {
  return backward_offsets(grad, output, data, reduction, offsets_of(lengths), axis, initial);
}

}  // namespace
}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_lengths_stub, &pytorch_ocl::reduce_lengths)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_offsets_stub, &pytorch_ocl::reduce_offsets)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_lengths_backward_stub, &pytorch_ocl::backward_lengths)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_offsets_backward_stub, &pytorch_ocl::backward_offsets)
}  // namespace at::native
