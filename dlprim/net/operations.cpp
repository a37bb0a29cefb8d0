// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/net/operations.hpp>
#include <dlprim/primitives/pointwise.hpp>

#include "array.hpp"

namespace dlprim {

void pointwise_operation_broadcast(const std::vector<Tensor>& xs, const std::vector<Tensor>& ys,
                                   const std::vector<double>& weights, const std::string& code,
                                   const ExecutionContext& context) {
  std::string names = "typedef T dtype; typedef T target_type; ";
  for (const auto& [letter, count] :
       {std::pair("x", xs.size()), std::pair("y", ys.size()), std::pair("w", weights.size())})
    for (std::size_t i = 0; i < count; i++)
      names += std::string("typedef T typeof_") + letter + std::to_string(i) + "; ";
  const std::vector<Scalar> scalars(weights.begin(), weights.end());
  Queue& queue = context.queue();
  pointwise_operation(queue, views(queue, xs), views(queue, ys), scalars, names + code);
}

void pointwise_operation(const std::vector<Tensor>& xs, const std::vector<Tensor>& ys,
                         const std::vector<double>& weights, const std::string& code, const ExecutionContext& context) {
  if (ys.empty()) throw ValidationError("[pointwise_operation] expected at least one output");
  for (const auto* tensors : {&xs, &ys})
    for (const Tensor& tensor : *tensors)
      if (!(tensor.shape() == ys[0].shape()) || tensor.dtype() != ys[0].dtype())
        throw ValidationError(std::string("[pointwise_operation] expected ") + name(ys[0].dtype()) + " " +
                              ys[0].shape().text() + ", got " + name(tensor.dtype()) + " " + tensor.shape().text());
  pointwise_operation_broadcast(xs, ys, weights, code, context);
}

namespace {

std::vector<TensorView> types(const std::vector<TensorSpecs>& specs) {
  std::vector<TensorView> result;
  for (const TensorSpecs& s : specs) result.emplace_back(BufferRef{}, s.dtype, s.shape);
  return result;
}

}  // namespace

std::unique_ptr<PointwiseOperationBroadcastReduce> PointwiseOperationBroadcastReduce::create(
    const Context&, const std::vector<TensorSpecs>& xs, const std::vector<TensorSpecs>& ys, int weights,
    DataType weight_type, const std::string& compute, const std::string& init, const std::string& combine) {
  Shape whole;
  for (const TensorSpecs& x : xs) whole = broadcast(whole, x.shape);
  for (const TensorSpecs& y : ys) {
    if (!(y.shape == ys[0].shape))
      throw ValidationError("[pointwise_broadcast_reduce] expected outputs of one shape, got " + ys[0].shape.text() +
                            " and " + y.shape.text());
    broadcast(whole, y.shape);
  }
  return std::make_unique<PointwiseOperationBroadcastReduce>(types(xs), types(ys), weights, weight_type, compute, init,
                                                             combine);
}

void PointwiseOperationBroadcastReduce::enqueue(const std::vector<Tensor>& xs, const std::vector<Tensor>& ys,
                                                const std::vector<double>& weights, const std::vector<double>& alpha,
                                                const std::vector<double>& beta,
                                                const ExecutionContext& context) const {
  Queue& queue = context.queue();
  enqueue(queue, views(queue, xs), views(queue, ys), weights, alpha, beta);
}

}  // namespace dlprim
