// SPDX-License-Identifier: MIT
#include "gradient.hpp"

#include <dlprim/primitives/pointwise_reduce.hpp>

namespace dlprim {

const Value& GradientCall::result(int i) const {
  static const Value nothing;
  if (i >= outputs() || node_.outputs[std::size_t(i)] < 0) return nothing;
  return executor_.value(node_.outputs[std::size_t(i)]);
}

const Tensor& GradientCall::output(int i) const {
  const Tensor& tensor = result(i).tensor;
  if (!tensor.defined()) fail("output " + std::to_string(i) + " was not kept");
  return tensor;
}

const Shape& GradientCall::output_shape(int i) const { return result(i).tensor.shape(); }

std::vector<Tensor> GradientCall::run_again(const Tensor& x) {
  std::vector<Tensor> inputs{x};
  for (int i = 1; i < this->inputs(); i++) inputs.push_back(value(i).tensor);
  return run(type().c_str(), inputs, attributes(), outputs());
}

bool GradientCall::needs(int i) const {
  return i < inputs() && needs_.contains(node_.inputs[std::size_t(i)]) && is_floating(dtype(i));
}

Tensor GradientCall::gradient(int i) const {
  if (i >= outputs()) return {};
  auto it = gradients_.find(node_.outputs[std::size_t(i)]);
  return it == gradients_.end() ? Tensor() : it->second;
}

void GradientCall::add(int i, Tensor gradient) {
  if (!needs(i)) return;
  gradient = cast(queue(), sum_to(queue(), gradient, shape(i)), dtype(i));
  Tensor& sum = gradients_[node_.inputs[std::size_t(i)]];
  sum = sum.defined() ? apply(queue(), "y0 = x0 + x1;", {sum, gradient}) : gradient;
}

const Gradient* GradientRegistry::find(const Node& node) const {
  if (!node.domain.empty() && !node.domain.starts_with("dlprim")) return nullptr;
  auto it = gradients_.find(node.type);
  return it == gradients_.end() ? nullptr : &it->second;
}

const GradientRegistry& GradientRegistry::get() {
  static const GradientRegistry registry = [] {
    GradientRegistry all;
    add_all_gradients(all);
    return all;
  }();
  return registry;
}

Tensor sum_to(Queue& queue, const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  std::vector<int> dims;
  const int extra = x.shape().size() - shape.size();
  for (int d = 0; d < x.shape().size(); d++)
    if (d < extra || (shape[d - extra] == 1 && x.shape()[d] != 1)) dims.push_back(d);
  return reshape(queue, dims.empty() ? x : reduce(queue, ReduceId::sum, x, dims), shape);
}

Tensor apply_sum_to(Queue& queue, const std::string& code, const std::vector<Tensor>& inputs,
                    const std::vector<double>& scalars, const Shape& shape, DataType result) {
  Shape whole;
  for (const Tensor& x : inputs) whole = broadcast(whole, x.shape());
  if (whole == shape || whole.total_size() == 0) {
    const std::vector<Scalar> values(scalars.begin(), scalars.end());
    return sum_to(queue, apply(queue, code, inputs, values, result), shape);
  }
  const Tensor y(queue, result, shape);
  const std::vector<TensorView> xs = views(queue, inputs), ys{y.view(queue)};
  const DataType weights = compute_type(result) == DataType::float64 ? DataType::float64 : DataType::float32;
  PointwiseOperationBroadcastReduce(xs, ys, int(scalars.size()), weights, code, "reduce_y0 = 0;", "reduce_y0 += y0;")
      .enqueue(queue, xs, ys, scalars);
  return y;
}

}  // namespace dlprim
