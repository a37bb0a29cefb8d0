// SPDX-License-Identifier: MIT
#include "array.hpp"

#include <dlprim/error.hpp>
#include <dlprim/primitives/concat.hpp>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/gemm.hpp>
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/primitives/pointwise_reduce.hpp>
#include <dlprim/primitives/softmax.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "checked.hpp"

namespace dlprim {

namespace {

using Integers = std::vector<std::int64_t>;

// Strides of `shape` over x's memory without moving elements, or nothing.
std::optional<Integers> reshaped_strides(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous()) return contiguous_strides(shape);
  Integers strides(std::size_t(shape.size()));
  int d = 0, k = 0;
  const Shape& old = x.shape();
  while (d < old.size() && k < shape.size()) {
    int first = k;
    std::int64_t from = old[d], to = shape[k];
    int last = d;
    while (from != to) {
      if (from < to) {
        if (++last >= old.size()) return {};
        if (old[last] != 1 && x.strides()[std::size_t(last - 1)] != x.strides()[std::size_t(last)] * old[last])
          return {};
        from *= old[last];
      } else {
        if (++k >= shape.size()) return {};
        to *= shape[k];
      }
    }
    std::int64_t stride = x.strides()[std::size_t(last)];
    for (int i = k; i >= first; i--) strides[std::size_t(i)] = stride, stride *= shape[i];
    d = last + 1, k++;
  }
  while (d < old.size())
    if (old[d++] != 1) return {};
  for (; k < shape.size(); k++)
    if (shape[k] != 1) return {};
  return strides;
}

template <class T>
void append(std::vector<std::int64_t>& to, const std::vector<std::byte>& bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    to.push_back(std::int64_t(value));
  }
}

}  // namespace

Tensor permute(const Tensor& x, const Integers& order) {
  if (int(order.size()) != x.shape().size())
    throw ValidationError("expected an order of " + std::to_string(x.shape().size()) + " dimensions, got " +
                          Shape(order).text());
  Shape shape;
  Integers strides;
  std::vector<bool> seen(order.size());
  for (std::int64_t dim : order) {
    const int d = x.shape().axis(dim);
    if (seen[std::size_t(d)]) throw ValidationError("dimension " + std::to_string(dim) + " appears twice");
    seen[std::size_t(d)] = true;
    shape.push_back(x.shape()[d]), strides.push_back(x.strides()[std::size_t(d)]);
  }
  return x.strided(shape, strides);
}

Tensor transpose(const Tensor& x) {
  if (x.shape().size() < 2) throw ValidationError("expected a matrix, got shape " + x.shape().text());
  Integers order(std::size_t(x.shape().size()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return permute(x, order);
}

Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length, std::int64_t step) {
  Shape shape = x.shape();
  Integers strides = x.strides();
  const std::int64_t size = shape[dim], last = length > 0 ? checked_add(start, checked_multiply(length - 1, step)) : 0;
  if (length > 0 && (std::min(start, last) < 0 || std::max(start, last) >= size))
    throw ValidationError("elements " + std::to_string(start) + " to " + std::to_string(last) +
                          " are out of bounds for dimension " + std::to_string(dim) + " of " + shape.text());
  const std::int64_t offset = length > 0 ? start * strides[std::size_t(dim)] : 0;
  shape[dim] = length;
  if (length > 1) strides[std::size_t(dim)] *= step;
  return x.strided(shape, std::move(strides), offset);
}

Tensor select(const Tensor& x, int dim, std::int64_t index) {
  Shape shape = x.shape();
  Integers strides = x.strides();
  const std::int64_t size = shape[dim];
  if (index < 0 || index >= size)
    throw ValidationError("index " + std::to_string(index) + " is out of bounds for " + shape.text());
  const std::int64_t offset = index * strides[std::size_t(dim)];
  shape.erase(dim), strides.erase(strides.begin() + dim);
  return x.strided(shape, std::move(strides), offset);
}

Tensor unsqueeze(const Tensor& x, int dim) {
  Shape shape = x.shape();
  Integers strides = x.strides();
  shape.insert(dim, 1), strides.insert(strides.begin() + dim, 1);
  return x.strided(shape, std::move(strides));
}

Tensor expand(const Tensor& x, const Shape& shape) {
  const int extra = shape.size() - x.shape().size();
  if (extra < 0) throw ValidationError("shape " + x.shape().text() + " does not broadcast to " + shape.text());
  Integers strides(std::size_t(shape.size()), 0);
  for (int d = 0; d < x.shape().size(); d++) {
    const std::int64_t size = x.shape()[d];
    if (size != 1 && size != shape[d + extra])
      throw ValidationError("shape " + x.shape().text() + " does not broadcast to " + shape.text());
    strides[std::size_t(d) + std::size_t(extra)] = size == 1 ? 0 : x.strides()[std::size_t(d)];
  }
  return x.strided(shape, std::move(strides));
}

// More is data, not shapes: made on the device, which has the memory or says that it has not.
constexpr std::size_t largest_on_host = 64 << 10;

Tensor contiguous(Queue& queue, const Tensor& x) {
  if (x.is_contiguous()) return x;
  if (x.on_host() && x.bytes() <= largest_on_host) return Tensor::from_host(x.dtype(), x.shape(), x.read(queue).data());
  Tensor y(queue, x.dtype(), x.shape());
  copy(queue, y.view(queue), x.view(queue));
  return y;
}

Tensor reshape(Queue& queue, const Tensor& x, const Shape& shape) {
  if (shape.total_size() != x.numel())
    throw ValidationError("shape " + x.shape().text() + " cannot become " + shape.text());
  if (auto strides = reshaped_strides(x, shape)) return x.strided(shape, std::move(*strides));
  return contiguous(queue, x).strided(shape, contiguous_strides(shape));
}

Tensor cast(Queue& queue, const Tensor& x, DataType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y(queue, dtype, x.shape());
  copy(queue, y.view(queue), x.view(queue));
  return y;
}

Tensor filled(Queue& queue, DataType dtype, const Shape& shape, Scalar value) {
  Tensor y(queue, dtype, shape);
  fill(queue, y.view(queue), value);
  return y;
}

std::vector<TensorView> views(Queue& queue, std::span<const Tensor> tensors) {
  std::vector<TensorView> result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.view(queue));
  return result;
}

Tensor channels_last(Queue& queue, DataType dtype, const Shape& shape) {
  return permute(Tensor(queue, dtype, {shape[0], shape[2], shape[3], shape[1]}), {0, 3, 1, 2});
}

// Whether an image's channels lie side by side, without gaps.
static bool is_channels_last(const Tensor& x) {
  return x.shape().size() == 4 && x.shape()[1] > 1 && !x.is_contiguous() && permute(x, {0, 2, 3, 1}).is_contiguous();
}

Tensor empty_like(Queue& queue, DataType dtype, const Tensor& x) {
  return is_channels_last(x) ? channels_last(queue, dtype, x.shape()) : Tensor(queue, dtype, x.shape());
}

Tensor apply(Queue& queue, std::string_view code, std::span<const Tensor> inputs, std::span<const Scalar> scalars,
             DataType result, std::optional<DataType> compute) {
  Shape shape;
  DataType type = inputs.empty() ? result : inputs[0].dtype();
  for (const Tensor& x : inputs) shape = broadcast(shape, x.shape()), type = promote(type, x.dtype());
  if (is_floating(result) && !is_floating(type) && !is_complex(type)) type = result;
  const bool last = queue.device().info().cpu && std::ranges::any_of(inputs, [&](const Tensor& x) {
                      return x.shape() == shape && is_channels_last(x);
                    });
  Tensor y = last ? channels_last(queue, result, shape) : Tensor(queue, result, shape);
  const std::vector<TensorView> in = views(queue, inputs);
  const TensorView out[] = {y.view(queue)};
  const auto row = find_pointwise(code);
  const Plan plan = make_plan(out, in, row ? pointwise_row(*row).name : "pointwise");
  if (row) pointwise(queue, *row, plan, compute.value_or(type), scalars);
  else pointwise_operation(queue, plan, compute.value_or(type), scalars, code);
  return y;
}

Tensor apply(Queue& queue, std::string_view code, std::initializer_list<Tensor> inputs,
             std::initializer_list<Scalar> scalars, std::optional<DataType> result, std::optional<DataType> compute) {
  return apply(queue, code, std::span(inputs.begin(), inputs.size()), std::span(scalars.begin(), scalars.size()),
               result.value_or(inputs.begin()->dtype()), compute);
}

Tensor reduce(Queue& queue, ReduceId id, const Tensor& x, const std::vector<int>& dims, std::optional<DataType> result,
              std::span<const double> scalars) {
  Shape shape = x.shape();
  for (int d : dims) shape[d] = 1;
  Tensor y(queue, result.value_or(x.dtype()), shape);
  const TensorView in[] = {x.view(queue)}, out[] = {y.view(queue)};
  reduce(queue, id, ReduceOperands{out, in}, scalars);
  return y;
}

Tensor softmax(Queue& queue, const Tensor& x, int dim) {
  Tensor y(queue, x.dtype(), x.shape());
  if (x.numel()) softmax(queue, SoftmaxKind::softmax, y.view(queue), contiguous(queue, x).view(queue), dim);
  return y;
}

Tensor matmul(Queue& queue, const Tensor& left, const Tensor& right, const Tensor& bias, Activation activation,
              std::optional<Workspace>* kept) {
  if (left.shape().size() == 0 || right.shape().size() == 0) throw ValidationError("matrices expected, got a number");
  const bool row = left.shape().size() == 1, column = right.shape().size() == 1;
  const Tensor a = row ? unsqueeze(left, 0) : left, b = column ? unsqueeze(right, 1) : right;
  const int ad = a.shape().size(), bd = b.shape().size();
  const std::int64_t m = a.shape()[ad - 2], k = a.shape()[ad - 1], n = b.shape()[bd - 1];
  if (b.shape()[bd - 2] != k)
    throw ValidationError("matrices " + left.shape().text() + " and " + right.shape().text() + " do not match");
  Shape batch = broadcast(Shape(std::span(a.shape().sizes()).first(std::size_t(ad - 2))),
                          Shape(std::span(b.shape().sizes()).first(std::size_t(bd - 2))));
  Shape shape = batch, a_shape = batch, b_shape = batch;
  for (std::int64_t size : {m, n}) shape.push_back(size);
  for (std::int64_t size : {m, k}) a_shape.push_back(size);
  for (std::int64_t size : {k, n}) b_shape.push_back(size);
  Tensor c(queue, a.dtype(), shape);
  const std::int64_t batches = batch.total_size();
  GemmOptions options;
  options.activation = activation, options.kept = kept;
  auto multiply = [&](const Tensor& x, const Tensor& y, const Shape& to) {
    if (bias.defined()) options.beta = 1, options.addend = expand(bias, to).view(queue);
    gemm(queue, x.view(queue), y.view(queue), c.strided(to, contiguous_strides(to)).view(queue), options);
  };
  if (c.numel() == 0) {
  } else if (bd == 2) {  // one product of all rows
    const Tensor rows = reshape(queue, a, {batches * m, k});
    multiply(rows, b, {batches * m, n});
  } else {
    const Tensor as = reshape(queue, expand(a, a_shape), {batches, m, k}),
                 bs = reshape(queue, expand(b, b_shape), {batches, k, n});
    multiply(as, bs, {batches, m, n});
  }
  if (row) shape.erase(shape.size() - 2);
  if (column) shape.erase(shape.size() - 1);
  return c.strided(shape, contiguous_strides(shape));
}

Tensor concat(Queue& queue, std::span<const Tensor> inputs, int dim) {
  Shape shape = inputs[0].shape();
  shape[dim] = 0;
  for (const Tensor& x : inputs) {
    Shape rest = x.shape();
    if (rest.size() == shape.size()) shape[dim] += rest[dim], rest[dim] = shape[dim];
    if (!(rest == shape) || x.dtype() != inputs[0].dtype())
      throw ValidationError("tensors " + inputs[0].shape().text() + " and " + x.shape().text() + " do not join");
  }
  const bool on_host = std::all_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return x.on_host(); });
  if (on_host && shape.size() == 1) {
    std::vector<std::byte> bytes;
    for (const Tensor& x : inputs) {
      const auto part = x.read(queue);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    return Tensor::from_host(inputs[0].dtype(), shape, bytes.data());
  }
  // Bytes of images are read with their channels side by side (quantized_conv).
  const bool last = queue.device().info().cpu && size_of(inputs[0].dtype()) == 1 &&
                    std::all_of(inputs.begin(), inputs.end(), is_channels_last);
  Tensor y = last ? channels_last(queue, inputs[0].dtype(), shape) : Tensor(queue, inputs[0].dtype(), shape);
  if (y.numel()) concat(queue, y.view(queue), views(queue, inputs), dim);
  return y;
}

std::vector<std::int64_t> to_integers(Queue& queue, const Tensor& x) {
  host_elements(x.numel(), "a list of integers");
  Integers result;
  switch (x.dtype()) {
    case DataType::int64: append<std::int64_t>(result, x.read(queue)); break;
    case DataType::int32: append<std::int32_t>(result, x.read(queue)); break;
    case DataType::uint8:
    case DataType::boolean: append<std::uint8_t>(result, x.read(queue)); break;
    default: append<std::int64_t>(result, cast(queue, x, DataType::int64).read(queue));
  }
  return result;
}

std::vector<double> host_numbers(const Tensor& x) {
  const std::vector<std::byte> bytes = x.host();
  const auto all = [&]<class T>(T value) {
    std::vector<double> result;
    for (std::size_t at = 0; at < bytes.size(); at += sizeof value) {
      std::memcpy(&value, bytes.data() + at, sizeof value);
      result.push_back(double(value));
    }
    return result;
  };
  switch (x.dtype()) {
    case DataType::float32: return all(0.0f);
    case DataType::int32: return all(std::int32_t());
    case DataType::int8: return all(std::int8_t());
    case DataType::uint8: return all(std::uint8_t());
    default: throw ValidationError(std::string("expected numbers of 8 or 32 bits, got ") + name(x.dtype()));
  }
}

std::optional<double> known_number(const Tensor& x) {
  const bool readable = x.dtype() == DataType::float32 || x.dtype() == DataType::int32 || x.dtype() == DataType::int8 ||
                        x.dtype() == DataType::uint8;
  return readable && x.numel() == 1 && x.on_host() ? std::optional(host_numbers(x)[0]) : std::nullopt;
}

std::vector<double> to_reals(Queue& queue, const Tensor& x) {
  host_elements(x.numel(), "a list of numbers");
  std::vector<double> result;
  if (x.dtype() == DataType::float64) {
    const auto bytes = x.read(queue);
    result.resize(bytes.size() / sizeof(double));
    if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  } else if (is_floating(x.dtype())) {
    const auto bytes = cast(queue, x, DataType::float32).read(queue);
    std::vector<float> values(bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    result.assign(values.begin(), values.end());
  } else {
    for (std::int64_t value : to_integers(queue, x)) result.push_back(double(value));
  }
  return result;
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
