// SPDX-License-Identifier: MIT
#include <dlprim/primitives/norm.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// Outputs 3 and 4 of the training form are the mean and 1 / std that it used.
void batch_norm(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor x = contiguous(queue, call.input(0)), dy = contiguous(queue, call.gradient());
  const Tensor mean = call.output(3), scale = call.output(4);
  const bool fixed = call.integer("is_test", 0);
  const ChannelStatistics statistics{mean.view(queue), scale.view(queue)};
  const Tensor sum(queue, mean.dtype(), mean.shape()), dot(queue, mean.dtype(), mean.shape());
  batch_norm_sums(queue, sum.view(queue), dot.view(queue), dy.view(queue), x.view(queue), statistics);
  call.add(1, dot), call.add(2, sum);
  if (!call.needs(0)) return;
  const Tensor dx(queue, x.dtype(), x.shape());
  const std::int64_t count = x.numel() / std::max<std::int64_t>(1, x.shape()[1]);
  batch_norm_backward(queue, dx.view(queue), dy.view(queue), x.view(queue), statistics, call.in(1),
                      fixed ? TensorView() : sum.view(queue), fixed ? TensorView() : dot.view(queue), double(count));
  call.add(0, dx);
}

// `weight` is broadcast to the channels; statistics are computed anew.
void grouped(GradientCall& call, const GroupShape& shape, const Tensor& weight, const Shape& parameter) {
  Queue& queue = call.queue();
  const Tensor x = contiguous(queue, call.input(0)), dy = contiguous(queue, call.gradient());
  if (x.numel() == 0) return;
  const DataType type = compute_type(x.dtype());
  const Tensor mean = filled(queue, type, {shape.rows, shape.groups}, 0), rstd(queue, type, {shape.rows, shape.groups});
  const TensorView mean_view = shape.center ? mean.view(queue) : TensorView();
  const Tensor scratch(queue, x.dtype(), x.shape());
  group_norm(queue, shape, scratch.view(queue), mean_view, rstd.view(queue), x.view(queue), {}, {});
  const TensorView weights = weight.defined() ? weight.view(queue) : TensorView();
  if (call.needs(0)) {
    group_norm_backward(queue, shape, scratch.view(queue), dy.view(queue), x.view(queue), mean_view, rstd.view(queue), weights);
    call.add(0, scratch);
  }
  if (!call.needs(1) && !call.needs(2)) return;
  const Tensor dw(queue, type, {shape.channels}), db(queue, type, {shape.channels});
  group_norm_sums(queue, shape, dw.view(queue), db.view(queue), dy.view(queue), x.view(queue), mean_view, rstd.view(queue));
  call.add(1, reshape(queue, dw, parameter)), call.add(2, reshape(queue, db, parameter));
}

void rows(GradientCall& call, bool center) {
  Queue& queue = call.queue();
  const Shape& x = call.shape(0);
  const int axis = x.axis(call.integer("axis", -1)), rank = x.size();
  const Shape normalized(std::vector<std::int64_t>(x.begin() + axis, x.end()));
  const GroupShape shape{x.product(0, axis), x.product(axis, rank), 1, 1, center, call.real("epsilon", 1e-5)};
  Tensor weight;
  if (call.has(1)) weight = reshape(queue, contiguous(queue, expand(call.input(1), normalized)), {shape.channels});
  grouped(call, shape, weight, normalized);
}

void layer_norm(GradientCall& call) { rows(call, true); }
void rms_norm(GradientCall& call) { rows(call, false); }

void channels_norm(GradientCall& call, std::int64_t groups) {
  const Shape& x = call.shape(0);
  if (call.shape(1).total_size() != x[1]) call.fail("there is no gradient for parameters that belong to groups");
  const GroupShape shape{x[0], x[1], x.product(2, x.size()), groups, true, call.real("epsilon", 1e-5)};
  grouped(call, shape, contiguous(call.queue(), call.input(1)), {x[1]});
}

void instance_norm(GradientCall& call) { channels_norm(call, call.shape(0)[1]); }
void group_norm_op(GradientCall& call) { channels_norm(call, call.integer("num_groups", 1)); }

}  // namespace

void norm(GradientRegistry& registry) {
  registry.add("BatchNormalization", batch_norm, "x0 x1 y3 y4", 5);
  registry.add("LayerNormalization", layer_norm, "x0 x1");
  registry.add("RMSNormalization", rms_norm, "x0 x1");
  registry.add("InstanceNormalization", instance_norm, "x0 x1");
  registry.add("GroupNormalization", group_norm_op, "x0 x1");
}

}  // namespace dlprim::gradients
