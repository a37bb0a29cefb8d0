// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pointwise_reduce.hpp>

#include <algorithm>

namespace dlprim {

namespace {

using Types = std::vector<DataType>;
constexpr const char* op = "[pointwise_broadcast_reduce] expected ";

std::string value(DataType type) { return std::string("VALUE(") + tag(type) + ")"; }

Types types_of(const std::vector<TensorView>& views) {
  Types types;
  for (const TensorView& view : views) types.push_back(view.dtype);
  return types;
}

ReduceCode code_of(const Types& xs, const Types& ys, int weights, DataType weight_type, const std::string& compute,
                   const std::string& init, const std::string& combine) {
  if (ys.empty() || xs.empty() || xs.size() + ys.size() > 8 || 2 * ys.size() + std::size_t(weights) > 16)
    throw ValidationError(std::string(op) + "inputs and outputs, at most 8, and 2 * outputs + weights up to 16, got " +
                          std::to_string(xs.size()) + ", " + std::to_string(ys.size()) + " and " +
                          std::to_string(weights));
  std::string types = "typedef " + value(weight_type) + " typeof_w; ";
  for (std::size_t k = 0; k < xs.size(); k++)
    types += "typedef " + value(xs[k]) + " typeof_x" + std::to_string(k) + "; ";
  for (std::size_t k = 0; k < ys.size(); k++)
    types += "typedef " + value(ys[k]) + " typeof_y" + std::to_string(k) + "; ";
  std::string scalars;
  for (int k = 0; k < weights; k++) types += "typedef typeof_w typeof_w" + std::to_string(k) + "; ";
  for (int k = 0; k < weights; k++)
    scalars += "const typeof_w w" + std::to_string(k) + " = (typeof_w)s" + std::to_string(2 * ys.size() + k) + "; ";
  std::string fields, fresh, open, results, merged, close, finish;
  for (std::size_t k = 0; k < ys.size(); k++) {
    const std::string i = std::to_string(k), t = value(ys[k]);
    const std::string alpha = "s" + std::to_string(2 * k), beta = "s" + std::to_string(2 * k + 1);
    fields += t + " v" + i + "; ";
    fresh += t + " reduce_y" + i + "; ";
    open += t + " reduce_y" + i + " = p->v" + i + "; ";
    results += t + " y" + i + "; ";
    merged += "const " + t + " y" + i + " = q.v" + i + "; ";
    close += " p->v" + i + " = reduce_y" + i + ";";
    finish += "y" + i + " = (" + t + ")(" + alpha + " == 1 && " + beta + " == 0 ? p->v" + i + " : (" + t + ")(" +
              alpha + " * p->v" + i + ") + (" + beta + " != 0 ? (" + t + ")(" + beta + " * OLD(" + i + ")) : 0)); ";
  }
  return {fields,
          int(ys.size()),
          types + fresh + init + close,
          types + scalars + open + results + compute + combine + close,
          types + open + merged + combine + close,
          finish};
}

/// A view broadcast to `sizes` from the right, or as an output: with size 1 where it is absent.
TensorView broadcast(const TensorView& view, const std::vector<std::int64_t>& sizes, bool output) {
  TensorView result = view;
  result.dims = int(sizes.size());
  for (int d = 0; d < result.dims; d++) {
    const int from = d - (result.dims - view.dims);
    const std::int64_t size = from >= 0 ? view.sizes[from] : 1;
    if (size != 1 && size != sizes[d])
      throw ValidationError(std::string(op) + "size 1 or " + std::to_string(sizes[d]) + " in dim " + std::to_string(d) +
                            ", got " + std::to_string(size));
    result.sizes[d] = output ? size : sizes[d];
    result.strides[d] = size == 1 ? 0 : view.strides[from];
  }
  return result;
}

std::vector<std::int64_t> common_sizes(const std::vector<TensorView>& xs, const std::vector<TensorView>& ys) {
  std::vector<std::int64_t> sizes;
  for (const auto* views : {&xs, &ys})
    for (const TensorView& view : *views) {
      if (std::size_t(view.dims) > sizes.size()) sizes.insert(sizes.begin(), std::size_t(view.dims) - sizes.size(), 1);
      for (int d = 1; d <= view.dims; d++) {
        std::int64_t& size = sizes[sizes.size() - std::size_t(d)];
        if (size == 1) size = view.sizes[view.dims - d];
      }
    }
  return sizes;
}

}  // namespace

PointwiseOperationBroadcastReduce::PointwiseOperationBroadcastReduce(const std::vector<TensorView>& xs,
                                                                     const std::vector<TensorView>& ys, int weights,
                                                                     DataType weight_type, const std::string& compute,
                                                                     const std::string& init,
                                                                     const std::string& combine)
    : x_types_(types_of(xs)), y_types_(types_of(ys)), weights_(weights),
      program_(code_of(x_types_, y_types_, weights, weight_type, compute, init, combine)) {}

void PointwiseOperationBroadcastReduce::enqueue(Queue& queue, const std::vector<TensorView>& xs,
                                                const std::vector<TensorView>& ys, const std::vector<double>& weights,
                                                const std::vector<double>& alpha,
                                                const std::vector<double>& beta) const {
  if (types_of(xs) != x_types_ || types_of(ys) != y_types_)
    throw ValidationError(std::string(op) + "tensors of the dtypes the operation was made for");
  if (int(weights.size()) != weights_)
    throw ValidationError(std::string(op) + std::to_string(weights_) + " weights, got " +
                          std::to_string(weights.size()));
  if ((!alpha.empty() && alpha.size() != ys.size()) || (!beta.empty() && beta.size() != ys.size()))
    throw ValidationError(std::string(op) + "an alpha and beta for each of " + std::to_string(ys.size()) + " outputs");
  const std::vector<std::int64_t> sizes = common_sizes(xs, ys);
  std::vector<TensorView> inputs, outputs;
  for (const TensorView& x : xs) inputs.push_back(broadcast(x, sizes, false));
  for (const TensorView& y : ys) outputs.push_back(broadcast(y, sizes, true));
  std::vector<double> scalars;
  for (std::size_t k = 0; k < ys.size(); k++) {
    scalars.push_back(alpha.empty() ? 1 : alpha[k]);
    scalars.push_back(beta.empty() ? 0 : beta[k]);
  }
  scalars.insert(scalars.end(), weights.begin(), weights.end());
  reduce(queue, program_, compute_type(y_types_[0]), {outputs, inputs}, scalars);
}

}  // namespace dlprim
