// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pool.hpp>

#include "../gradient.hpp"
#include "../window.hpp"

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

void average_pool_op(GradientCall& call) {
  Queue& queue = call.queue();
  const Shape& x = call.shape(0);
  Window w = read_window(call, x, call.integers("kernel_shape"));
  if (dilated(w)) call.fail("there is no gradient for dilated windows");
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
  registry.add("GlobalAveragePool", global_average);
}

}  // namespace dlprim::gradients
