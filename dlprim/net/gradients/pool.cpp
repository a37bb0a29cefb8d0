// SPDX-License-Identifier: MIT
#include "../pool.hpp"

#include <dlprim/primitives/copy.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

const PoolAttributes& attributes_of(const Call& call) { return call.attributes<PoolAttributes>(); }

Window window_of(const Call& call, const Shape& x) {
  return read_window(call, attributes_of(call).window, x, attributes_of(call).window.kernel);
}

// Output 2 of the training form: positions within each channel.
void max_pool_op(GradientCall& call) {
  Queue& queue = call.queue();
  const Window w = window_of(call, call.shape(0));
  const Tensor dy = call.gradient(), dx(queue, dy.dtype(), call.shape(0));
  max_pool_backward(queue, dy.view(queue), call.output(2).view(queue), dx.view(queue), pool_window(w));
  call.add(0, dx);
}

// Adds g to every element that a window shows.
Tensor scattered(GradientCall& call, const Tensor& g, const Window& w) {
  Queue& queue = call.queue();
  const Shape& x = call.shape(0);
  const Window room = with_room(x, w);
  Shape shape = x;
  for (int i = 0; i < w.dims(); i++) shape[i + 2] += room.before[std::size_t(i)] + room.after[std::size_t(i)];
  Tensor sums = filled(queue, g.dtype(), shape, 0);
  for_each_tap(sums, w, [&](const Tensor& part) {
    copy(queue, part.view(queue), apply(queue, "y0 = x0 + x1;", {part, g}).view(queue));
  });
  for (int i = 0; i < w.dims(); i++) sums = narrow(sums, i + 2, w.before[std::size_t(i)], x[i + 2]);
  return sums;
}

void dilated_average(GradientCall& call, const Window& w) {
  const Tensor dy = call.gradient();
  const Tensor counts =
      window_counts(call.queue(), dy.dtype(), call.shape(0), w, attributes_of(call).count_include_pad);
  call.add(0, scattered(call, apply(call.queue(), "y0 = x0 / x1;", {dy, counts}), w));
}

// y = (sum of |x|^p)^(1/p)
void lp_pool(GradientCall& call) {
  Queue& queue = call.queue();
  const double p = attributes_of(call).p;
  const Window w = window_of(call, call.shape(0));
  const Tensor g = apply(queue, "y0 = x1 == 0 ? 0 : x0 * pow(x1, 1 - w0);", {call.gradient(), call.output(0)}, {p});
  call.add(0,
           apply(queue, "y0 = x0 * sign_of(x1) * pow(fabs(x1), w0 - 1);", {scattered(call, g, w), call.input(0)}, {p}));
}

void max_unpool_op(GradientCall& call) {
  Queue& queue = call.queue();
  const Shape &x = call.shape(0), shape = unpooled_shape(call, attributes_of(call).window, x);
  Tensor dy = call.gradient();
  for (int d = 0; d < shape.size(); d++) dy = narrow(dy, d, 0, shape[d]);
  const std::int64_t planes = x[0] * x[1], plane = shape.product(2, shape.size());
  const Tensor places = apply(queue, "y0 = x0 % (long)w0;", {call.input(1)}, {plane});
  const Shape flat{planes, x.product(2, x.size())};
  const Tensor dx = call.run(inner<"GatherElements", "axis">(1),
                             {reshape(queue, dy, {planes, plane}), reshape(queue, places, flat)})[0];
  call.add(0, reshape(queue, dx, x));
}

void average_pool_op(GradientCall& call) {
  Queue& queue = call.queue();
  const Shape& x = call.shape(0);
  Window w = window_of(call, x);
  if (dilated(w)) return dilated_average(call, w);
  const bool count_padding = attributes_of(call).count_include_pad;
  Shape around = x;
  const Window inside = w;
  if (count_padding && w.before != w.after) {  // as forward: the padding became part of the input
    for (int i = 0; i < w.dims(); i++) around[i + 2] += w.before[std::size_t(i)] + w.after[std::size_t(i)];
    w.before.assign(w.before.size(), 0), w.after = w.before;
  }
  PoolWindow window = pool_window(w);
  window.count_include_pad = count_padding;
  const Tensor dy = call.gradient();
  Tensor dx(queue, dy.dtype(), around);
  average_pool_backward(queue, dy.view(queue), dx.view(queue), window);
  if (!(around == x))
    for (int i = 0; i < w.dims(); i++) dx = narrow(dx, i + 2, inside.before[std::size_t(i)], x[i + 2]);
  call.add(0, dx);
}

void global_average(GradientCall& call) {
  const Shape& x = call.shape(0);
  const double area = double(x.product(2, x.size()));
  call.add(0, expand(apply(call.queue(), "y0 = x0 / w0;", {call.gradient()}, {area}), x));
}

}  // namespace

void pool(GradientRegistry& registry) {
  registry.add<PoolAttributes>("MaxPool", max_pool_op, "y2", 3);
  registry.add<PoolAttributes>("AveragePool", average_pool_op);
  registry.add<PoolAttributes>("LpPool", lp_pool, "x0 y0");
  registry.add<PoolAttributes>("MaxUnpool", max_unpool_op, "x1");
  registry.add("GlobalAveragePool", global_average);
}

}  // namespace dlprim::gradients
