// SPDX-License-Identifier: MIT
#include "../pool.hpp"

#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/range.hpp>

#include <numeric>

#include "../array.hpp"
#include "../checked.hpp"

namespace dlprim {

Window with_room(const Shape& x, Window w) {
  for (std::size_t i = 0; i < w.kernel.size(); i++) {
    const std::int64_t reach = (w.out[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
    w.after[i] = std::max(w.after[i], reach - x[int(i) + 2] - w.before[i]);
  }
  return w;
}

Tensor padded(Queue& queue, const Tensor& x, const Window& w) {
  Shape shape = x.shape();
  for (int i = 0; i < w.dims(); i++) shape[i + 2] += w.before[std::size_t(i)] + w.after[std::size_t(i)];
  const Tensor result = filled(queue, x.dtype(), shape, 0);
  Tensor inside = result;
  for (int i = 0; i < w.dims(); i++) inside = narrow(inside, i + 2, w.before[std::size_t(i)], x.shape()[i + 2]);
  copy(queue, inside.view(queue), x.view(queue));
  return result;
}

void for_each_tap(const Tensor& padded, const Window& w, const std::function<void(const Tensor&)>& function) {
  checked_range(checked_product(w.kernel), 1, 1 << 16, "a number of positions in a dilated window");
  std::vector<std::int64_t> tap(w.kernel.size(), 0);
  for (int d = 0; d >= 0;) {
    Tensor part = padded;
    for (int i = 0; i < w.dims(); i++) {
      const auto k = std::size_t(i);
      part = narrow(part, i + 2, tap[k] * w.dilation[k], w.out[k], w.stride[k]);
    }
    function(part);
    for (d = w.dims() - 1; d >= 0 && ++tap[std::size_t(d)] == w.kernel[std::size_t(d)]; d--) tap[std::size_t(d)] = 0;
  }
}

Tensor window_counts(Queue& queue, DataType type, const Shape& x, const Window& w, bool count_padding) {
  Shape all = x, counts{x[0], x[1]};
  Window around = w;
  if (count_padding) {  // padding counts, what ceil_mode adds behind it does not
    for (int i = 0; i < w.dims(); i++) all[i + 2] += w.before[std::size_t(i)] + w.after[std::size_t(i)];
    around.before.assign(w.before.size(), 0), around.after = around.before;
  }
  for (std::int64_t size : w.out) counts.push_back(size);
  Tensor sum = filled(queue, type, counts, 0);
  for_each_tap(padded(queue, filled(queue, type, all, 1), with_room(all, around)), w,
               [&](const Tensor& part) { sum = apply(queue, "y0 = x0 + x1;", {sum, part}); });
  return sum;
}

Shape unpooled_shape(const Call& call, const WindowAttributes& attributes, const Shape& x) {
  const std::vector<std::int64_t>& kernel = attributes.kernel;
  const int dims = x.size() - 2;
  if (dims < 1 || int(kernel.size()) != dims) call.fail("expected a kernel for every spatial dimension");
  const auto strides = integer_list(call, "strides", attributes.strides, kernel.size(), 1);
  const auto pads = integer_list(call, "pads", attributes.pads, 2 * kernel.size(), 0);
  Shape shape = x;
  for (int d = 0; d < dims; d++) {
    const auto k = std::size_t(d);
    const std::int64_t pad = checked_add(pads[k], pads[k + std::size_t(dims)]);
    shape[d + 2] = checked_subtract(checked_add(checked_multiply(x[d + 2] - 1, strides[k]), kernel[k]), pad);
    if (shape[d + 2] < 1) call.fail("the paddings leave nothing of " + x.text());
  }
  return shape;
}

namespace operators {

namespace {

const PoolAttributes& attributes_of(const Call& call) { return call.attributes<PoolAttributes>(); }

Window window_of(const Call& call, const Shape& x) {
  return read_window(call, attributes_of(call).window, x, attributes_of(call).window.kernel);
}

Shape result_shape(const Shape& x, const Window& w) {
  Shape shape{x[0], x[1]};
  for (std::int64_t size : w.out) shape.push_back(size);
  return shape;
}

// Positions within a channel become positions within the tensor, counted row-major or (storage_order 1) column-major.
Tensor whole_index(Call& call, const Tensor& places, const Shape& x) {
  Queue& queue = call.queue();
  const int spatial = x.size() - 2;
  Tensor result = places;
  if (attributes_of(call).storage_order) {
    Tensor rest = places;
    result = filled(queue, DataType::int64, places.shape(), 0);
    std::int64_t stride = x.product(2, x.size());
    for (int d = spatial + 1; d >= 2; d--) {  // from the fastest dimension
      stride /= x[d];
      result = apply(queue, "y0 = x0 + x1 % (long)w0 * w1;", {result, rest}, {x[d], stride});
      rest = apply(queue, "y0 = x0 / w0;", {rest}, {x[d]});
    }
  }
  Shape planes{x[0], x[1]};
  Tensor plane(queue, DataType::int64, planes);
  sequence(queue, plane.view(queue), 0, x.product(2, x.size()));
  for (int d = 0; d < spatial; d++) plane = unsqueeze(plane, 2 + d);
  return apply(queue, "y0 = x0 + x1;", {result, plane});
}

void max_pool_op(Call& call) {
  const Tensor x = call.input(0);
  const Window w = window_of(call, x.shape());
  const Shape shape = result_shape(x.shape(), w);
  Tensor places;
  if (call.wants(1)) places = Tensor(call.queue(), DataType::int64, shape);
  if (x.numel() == 0) {
    if (shape.total_size()) call.fail("expected elements, got " + x.shape().text());
    call.set(0, Tensor(call.queue(), x.dtype(), shape)), call.set(1, places);
    return;
  }
  const bool last = size_of(x.dtype()) == 1 && shape.size() == 4 && x.strides()[1] == 1 && x.strides()[3] > 1 &&
                    call.queue().device().info().cpu;
  const Tensor y = last ? channels_last(call.queue(), x.dtype(), shape) : Tensor(call.queue(), x.dtype(), shape);
  call.set(0, y);
  max_pool(call.queue(), x.view(call.queue()), y.view(call.queue()),
           call.wants(1) ? places.view(call.queue()) : TensorView(), pool_window(w));
  if (call.wants(1)) call.set(1, whole_index(call, places, x.shape()));
}

// Sum over windows; x is padded already.
Tensor sum_of_taps(Queue& queue, const Tensor& x, const Window& w) {
  Tensor sum = filled(queue, x.dtype(), result_shape(x.shape(), w), 0);
  for_each_tap(x, w, [&](const Tensor& part) { sum = apply(queue, "y0 = x0 + x1;", {sum, part}); });
  return sum;
}

Tensor dilated_average(Queue& queue, const Tensor& x, const Window& w, bool count_padding) {
  const Tensor sum = sum_of_taps(queue, padded(queue, x, with_room(x.shape(), w)), w);
  return apply(queue, "y0 = x0 / x1;", {sum, window_counts(queue, x.dtype(), x.shape(), w, count_padding)});
}

void average_pool_op(Call& call) {
  Tensor x = call.input(0);
  Window w = window_of(call, x.shape());
  const Shape shape = result_shape(x.shape(), w);
  const bool count_padding = attributes_of(call).count_include_pad;
  if (dilated(w)) return call.set(0, dilated_average(call.queue(), x, w, count_padding));
  if (count_padding && w.before != w.after) {
    x = padded(call.queue(), x, w);
    w.before.assign(w.before.size(), 0), w.after = w.before;
  }
  PoolWindow window = pool_window(w);
  window.count_include_pad = count_padding;
  average_pool(call.queue(), x.view(call.queue()), call.out(0, x.dtype(), shape), window);
}

// (sum of |x|^p)^(1/p)
void lp_pool(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const Window w = window_of(call, x.shape());
  const double p = attributes_of(call).p;
  PoolWindow window = pool_window(w);
  window.divisor = 1;
  const Tensor powers = apply(queue, "y0 = pow(fabs(x0), w0);", {x}, {p}, compute_type(x.dtype()));
  Tensor sums(queue, powers.dtype(), result_shape(x.shape(), w));
  if (dilated(w)) sums = sum_of_taps(queue, padded(queue, powers, with_room(x.shape(), w)), w);
  else average_pool(queue, powers.view(queue), sums.view(queue), window);
  call.set(0, apply(queue, "y0 = pow(x0, 1 / w0);", {sums}, {p}, x.dtype()));
}

std::vector<int> spatial_dims(Call& call, const Shape& x) {
  if (x.size() < 3) call.fail("expected N, C and spatial dimensions, got " + x.text());
  std::vector<int> dims(std::size_t(x.size() - 2));
  std::iota(dims.begin(), dims.end(), 2);
  return dims;
}

void global_average(Call& call) {
  const Tensor& x = call.input(0);
  call.set(0, reduce(call.queue(), ReduceId::mean, x, spatial_dims(call, x.shape())));
}

void global_max(Call& call) {
  const Tensor& x = call.input(0);
  call.set(0, reduce(call.queue(), ReduceId::max_values, x, spatial_dims(call, x.shape())));
}

void global_lp(Call& call) {
  const Tensor& x = call.input(0);
  const double p[] = {attributes_of(call).p};
  call.set(0, reduce(call.queue(), ReduceId::norm_p, x, spatial_dims(call, x.shape()), {}, p));
}

void max_unpool_op(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const Shape shape = unpooled_shape(call, attributes_of(call).window, x.shape());
  // Indices count within the whole tensor, of the size that is asked for.
  Shape result = shape;
  if (call.has(2)) result = Shape(call.read_integers(2));
  const std::int64_t plane = shape.product(2, shape.size());
  const Tensor places = apply(queue, "y0 = x0 % (long)w0;", {call.input(1)}, {plane});
  Tensor y = filled(queue, x.dtype(), shape, 0);
  max_unpool(queue, x.view(queue), places.view(queue), y.view(queue));
  if (!(result == shape)) {
    Tensor larger = filled(queue, x.dtype(), result, 0);
    Tensor inside = larger;
    for (int d = 0; d < result.size(); d++) {
      if (result[d] < shape[d]) call.fail("output_shape " + result.text() + " is smaller than " + shape.text());
      inside = narrow(inside, d, 0, shape[d]);
    }
    copy(queue, inside.view(queue), y.view(queue));
    y = larger;
  }
  call.set(0, y);
}

}  // namespace

void pool(Registry& registry) {
  const std::string window =
      "auto_pad=NOTSET|VALID|SAME_UPPER|SAME_LOWER dilations kernel_shape pads strides ceil_mode ";
  registry.add<PoolAttributes>("MaxPool", max_pool_op, (window + "storage_order").c_str());
  registry.add<PoolAttributes>("AveragePool", average_pool_op, (window + "count_include_pad").c_str());
  registry.add<PoolAttributes>("LpPool", lp_pool, (window + "p").c_str());
  registry.add("GlobalAveragePool", global_average);
  registry.add("GlobalMaxPool", global_max);
  registry.add<PoolAttributes>("GlobalLpPool", global_lp, "p");
  registry.add<PoolAttributes>("MaxUnpool", max_unpool_op, "kernel_shape pads strides");
}

}  // namespace operators
}  // namespace dlprim
