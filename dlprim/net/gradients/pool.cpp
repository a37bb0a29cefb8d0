// SPDX-License-Identifier: MIT
#include "../pool.hpp"

#include <dlprim/primitives/copy.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// Output 2 of the training form: places within each channel.
void max_pool_op(GradientCall& call) {
  Queue& queue = call.queue();
  const Window w = read_window(call, call.shape(0), call.integers("kernel_shape"));
  const Tensor dy = call.gradient(), dx(queue, dy.dtype(), call.shape(0));
  max_pool_backward(queue, dy.view(queue), call.output(2).view(queue), dx.view(queue), pool_window(w));
  call.add(0, dx);
}

// Adds g to every element that a window shows.
Tensor spread(GradientCall& call, const Tensor& g, const Window& w) {
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
  const Tensor counts = window_counts(call.queue(), dy.dtype(), call.shape(0), w, call.integer("count_include_pad", 0));
  call.add(0, spread(call, apply(call.queue(), "y0 = x0 / x1;", {dy, counts}), w));
}

// y = (sum of |x|^p)^(1/p)
void lp_pool(GradientCall& call) {
  Queue& queue = call.queue();
  const double p = lp_order(call);
  const Window w = read_window(call, call.shape(0), call.integers("kernel_shape"));
  const Tensor g = apply(queue, "y0 = x1 == 0 ? 0 : x0 * pow(x1, 1 - w0);", {call.gradient(), call.output(0)}, {p});
  call.add(0, apply(queue, "y0 = x0 * sign_of(x1) * pow(fabs(x1), w0 - 1);", {spread(call, g, w), call.input(0)}, {p}));
}

void max_unpool_op(GradientCall& call) {
  Queue& queue = call.queue();
  const Shape &x = call.shape(0), shape = unpooled_shape(call, x);
  Tensor dy = call.gradient();
  for (int d = 0; d < shape.size(); d++) dy = narrow(dy, d, 0, shape[d]);
  const std::int64_t planes = x[0] * x[1], plane = shape.product(2, shape.size());
  const Tensor places = apply(queue, "y0 = x0 % (long)w0;", {call.input(1)}, {plane});
  const Shape flat{planes, x.product(2, x.size())};
  const Tensor dx = call.run("GatherElements", {reshape(queue, dy, {planes, plane}), reshape(queue, places, flat)},
                             {{"axis", std::int64_t(1)}})[0];
  call.add(0, reshape(queue, dx, x));
}

void average_pool_op(GradientCall& call) {
  Queue& queue = call.queue();
  const Shape& x = call.shape(0);
  Window w = read_window(call, x, call.integers("kernel_shape"));
  if (dilated(w)) return dilated_average(call, w);
  const bool count_padding = call.integer("count_include_pad", 0);
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
  registry.add("MaxPool", max_pool_op, "y2", 3);
  registry.add("AveragePool", average_pool_op);
  registry.add("LpPool", lp_pool, "x0 y0");
  registry.add("MaxUnpool", max_unpool_op, "x1");
  registry.add("GlobalAveragePool", global_average);
}

}  // namespace dlprim::gradients
