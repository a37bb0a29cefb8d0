// SPDX-License-Identifier: MIT
// Histograms: each point's bin is a number of its own, computed, or found among the edges of every dimension, and the
// points of a bin are summed.
#include <ATen/TensorOperators.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <dlprim/primitives/histogram.hpp>

#include "generated/functions/histogram.h"
#include "runtime/device.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Range = std::optional<at::ArrayRef<double>>;

// out[bin[i]] += values[i]. On CPUs, which add without atomics, each of some shares has sums of its own first.
at::Tensor& add_to_bins(at::Tensor& out, const at::Tensor& bin, const at::Tensor& values) {
  constexpr int64_t shares = 16, smallest = 4096;
  const int64_t n = bin.size(0), length = n / shares, bins = out.size(0);
  if (!device(out.device().index()).info().cpu || length < std::max(smallest, 2 * bins))
    return out.index_add_(0, bin, values);
  const auto rows = [&](const at::Tensor& x) { return x.narrow(0, 0, shares * length).view({shares, length}); };
  at::Tensor sums = at::zeros({shares, bins}, out.options());
  out.add_(sums.scatter_add_(1, rows(bin), rows(values.contiguous())).sum(0));
  const int64_t rest = n - shares * length;
  return out.index_add_(0, bin.narrow(0, n - rest, rest), values.narrow(0, n - rest, rest));
}

// out[b] += how many of `bin` are b; those below 0, if there are any, count nowhere.
at::Tensor& count_in_bins(at::Tensor& out, const at::Tensor& bin, bool any_below, const char* op) {
  if (dlprim::can_count_bins(device(out.device().index()), out.size(0))) {
    const at::Tensor counts = at::zeros(out.sizes(), out.options().dtype(at::kLong));
    dlprim::count_bins(current_queue(out.device()), view_of(counts, op), view_of(bin.contiguous(), op));
    return out.add_(counts);
  }
  if (any_below) return add_to_bins(out, bin.clamp_min(0), bin.ge(0).to(out.scalar_type()));
  return add_to_bins(out, bin, at::ones({}, out.options()).expand(bin.sizes()));
}

void check_points(const at::Tensor& self, std::size_t dims, const OptionalTensor& weight, const char* op) {
  TORCH_CHECK(self.dim() >= 2, op, ": input tensor should have at least 2 dimensions, but got ", self.dim());
  TORCH_CHECK(self.is_floating_point(), op, ": expected a floating-point input, got ", self.scalar_type());
  TORCH_CHECK(std::int64_t(dims) == self.size(-1), op,
              ": The size of bins must be equal to the innermost dimension of the input.");
  if (!weight || !weight->defined()) return;
  TORCH_CHECK(weight->scalar_type() == self.scalar_type(), op,
              ": if weight tensor is provided, input tensor and "
              "weight tensor should have the same dtype, but got input ",
              self.scalar_type(), ", and weight ", weight->scalar_type());
  TORCH_CHECK(weight->sizes() == self.sizes().slice(0, std::size_t(self.dim() - 1)), op,
              ": if weight tensor is "
              "provided it should have the same shape as the input tensor excluding its innermost dimension, but got "
              "input with shape ",
              self.sizes(), " and weight with shape ", weight->sizes());
}

std::vector<at::Tensor> bin_edges(const at::Tensor& self, at::IntArrayRef bins, Range range, const char* op) {
  const std::int64_t dims = self.size(-1);
  const at::Tensor points = self.reshape({-1, dims});
  TORCH_CHECK(!range || std::int64_t(range->size()) == 2 * dims, op, ": for a ", dims,
              "-dimensional histogram range should have ", 2 * dims, " elements, but got ", range ? range->size() : 0);
  std::vector<at::Tensor> edges;
  for (std::int64_t d = 0; d < dims; d++) {
    TORCH_CHECK(bins[d] > 0, op, ": bins must be > 0, but got ", bins[d], " for dimension ", d);
    double low = 0, high = 1;
    if (range) low = (*range)[2 * d], high = (*range)[2 * d + 1];
    else if (points.size(0) > 0)
      low = points.select(1, d).min().item<double>(), high = points.select(1, d).max().item<double>();
    TORCH_CHECK(std::isfinite(low) && std::isfinite(high), op, ": dimension ", d, "'s range [", low, ", ", high,
                "] is not finite");
    TORCH_CHECK(low <= high, op, ": min should not exceed max, but got min ", low, " max ", high, " for dimension ", d);
    if (low == high) low -= 0.5, high += 0.5;
    edges.push_back(at::linspace(low, high, bins[d] + 1, self.options()));
  }
  return edges;
}

// Bins hold their lower edge, and the last one its upper edge too; points outside (and NaN) count nowhere.
at::Tensor histogram_of(const at::Tensor& self, at::TensorList edges, const OptionalTensor& weight, bool density) {
  const std::int64_t dims = self.size(-1);
  const at::Tensor points = self.reshape({-1, dims});
  std::vector<std::int64_t> shape;
  at::Tensor bin, inside;
  std::int64_t count = 1;
  for (std::int64_t d = 0; d < dims; d++) {
    const at::Tensor edge = edges[d].contiguous(), x = points.select(1, d).contiguous();
    const std::int64_t bins = edge.size(0) - 1;
    const at::Tensor found = at::searchsorted(edge, x, false, /*right=*/true).sub_(1).clamp_(0, bins - 1);
    const at::Tensor within = x.ge(edge[0]).logical_and_(x.le(edge[bins]));
    bin = d == 0 ? found : bin.mul(bins).add_(found);
    inside = d == 0 ? within : inside.logical_and(within);
    shape.push_back(bins);
    count *= bins;
  }
  at::Tensor hist = at::zeros({count}, self.options());
  if (points.size(0) > 0) {
    const at::Tensor outside = inside.logical_not();
    if (weight && weight->defined()) add_to_bins(hist, bin, weight->reshape({-1}).masked_fill(outside, 0));
    else count_in_bins(hist, bin.masked_fill(outside, -1), true, "histogramdd");
  }
  hist = hist.view(shape);
  if (!density) return hist;
  hist = hist.div(hist.sum());
  for (std::int64_t d = 0; d < dims; d++) {
    std::vector<std::int64_t> along(std::size_t(dims), 1);
    along[d] = shape[d];
    hist.div_(edges[d].diff().view(along));
  }
  return hist;
}

OptionalTensor flat(const OptionalTensor& weight) {
  return weight && weight->defined() ? OptionalTensor(weight->reshape({-1})) : OptionalTensor();
}

}  // namespace

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK_NOT_IMPLEMENTED(c10::isIntegralType(self.scalar_type(), false), "\"bincount\" not implemented for '",
                              self.scalar_type(), "'");
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  at::ScalarType type = at::kLong;
  if (weighted) type = weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  if (self.numel() == 0) return at::zeros({minlength}, self.options().dtype(at::kLong));
  const auto [least, largest] = at::aminmax(self);
  const at::Tensor bounds = at::stack({least, largest}).to(at::kLong).cpu();
  const auto* bound = bounds.const_data_ptr<int64_t>();
  TORCH_CHECK(bound[0] >= 0, "bincount only supports 1-d non-negative integral inputs.");
  const int64_t bins = std::max(bound[1] + 1, minlength);
  at::Tensor out = at::zeros({bins}, self.options().dtype(type));
  const at::Tensor bin = self.to(at::kLong).contiguous();
  return weighted ? add_to_bins(out, bin, weights->to(type)) : count_in_bins(out, bin, false, "bincount");
}

// Bins are computed and rounded in the input's dtype, step by step, as PyTorch does; those of integers exactly.
at::Tensor& histc_out(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max,
                      at::Tensor& out) {
  TORCH_CHECK(bins > 0, "bins must be > 0, but got ", bins);
  double low = min.toDouble(), high = max.toDouble();
  const at::Tensor values = self.reshape({-1});
  if (low == high && values.numel() > 0) {
    const at::Tensor bounds = at::empty({2}, values.options());
    at::Tensor least = bounds.select(0, 0), largest = bounds.select(0, 1);
    at::aminmax_out(least, largest, values);
    const at::Tensor host = bounds.cpu();  // the one time that the device is waited for
    low = host[0].item<double>(), high = host[1].item<double>();
  }
  if (low == high) low -= 1, high += 1;
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "range of [", low, ", ", high, "] is not finite");
  TORCH_CHECK(low < high, "max must be larger than min");
  if (values.numel() > 0 && dlprim::can_count_bins(device(self.device().index()), bins)) {
    const at::Tensor counts = at::zeros({bins}, self.options().dtype(at::kLong));
    dlprim::count_values(current_queue(self.device()), view_of(counts, "histc"), view_of(values.contiguous(), "histc"),
                         low, high);
    at::native::resize_output(out, {bins});
    out.copy_(counts);
    return out;
  }
  const bool whole = c10::isIntegralType(self.scalar_type(), false);
  const at::Tensor x = whole ? values.to(at::kLong) : values;
  const at::Tensor first = at::full({}, low, x.options()), last = at::full({}, high, x.options());
  const at::Tensor inside = x.ge(first).logical_and_(x.le(last)), scaled = x.sub(first).mul_(bins);
  const at::Tensor position = whole ? scaled.div(last - first, "floor") : scaled.div(last - first);
  const at::Tensor bin = position.masked_fill(inside.logical_not(), -1).to(at::kLong).clamp_(-1, bins - 1);
  at::native::resize_output(out, {bins});
  out.zero_();
  if (values.numel() > 0) count_in_bins(out, bin, true, "histc");
  return out;
}

at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  at::Tensor out = at::empty({0}, self.options());
  return histc_out(self, bins, min, max, out);
}

std::vector<at::Tensor> _histogramdd_bin_edges(const at::Tensor& self, at::IntArrayRef bins, Range range,
                                               const OptionalTensor& weight, bool) {
  check_points(self, bins.size(), weight, "histogramdd");
  return bin_edges(self, bins, range, "histogramdd");
}

at::Tensor _histogramdd_from_bin_cts(const at::Tensor& self, at::IntArrayRef bins, Range range,
                                     const OptionalTensor& weight, bool density) {
  check_points(self, bins.size(), weight, "histogramdd");
  return histogram_of(self, bin_edges(self, bins, range, "histogramdd"), weight, density);
}

at::Tensor _histogramdd_from_bin_tensors(const at::Tensor& self, at::TensorList bins, const OptionalTensor& weight,
                                         bool density) {
  check_points(self, bins.size(), weight, "histogramdd");
  for (const at::Tensor& edges : bins)
    TORCH_CHECK(edges.dim() == 1 && edges.size(0) >= 2 && edges.scalar_type() == self.scalar_type(),
                "histogramdd: expected edges of 1 dim and dtype ", self.scalar_type(), ", got ", edges.sizes(), " of ",
                edges.scalar_type());
  return histogram_of(self, bins, weight, density);
}

std::tuple<at::Tensor, at::Tensor> histogram_bin_ct(const at::Tensor& self, int64_t bins, Range range,
                                                    const OptionalTensor& weight, bool density) {
  const at::Tensor points = self.reshape({-1, 1});
  check_points(points, 1, flat(weight), "histogram");
  const std::vector<at::Tensor> edges = bin_edges(points, bins, range, "histogram");
  return {histogram_of(points, edges, flat(weight), density), edges[0]};
}

std::tuple<at::Tensor, at::Tensor> histogram_bins_tensor(const at::Tensor& self, const at::Tensor& bins,
                                                         const OptionalTensor& weight, bool density) {
  const at::Tensor points = self.reshape({-1, 1});
  return {_histogramdd_from_bin_tensors(points, bins, flat(weight), density), bins.clone()};
}

}  // namespace pytorch_ocl::ops
