// SPDX-License-Identifier: MIT
#include <dlprim/primitives/norm.hpp>
#include <dlprim/primitives/pool.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

struct NormAttributes {
  explicit NormAttributes(const AttributeReader& reader)
      : is_test(reader.integer("is_test", 0)), axis(reader.integer("axis", -1)),
        num_groups(reader.integer("num_groups", 1)), p(reader.integer("p", 2)), size(reader.integer("size", 1)),
        epsilon(reader.real("epsilon", 1e-5)), alpha(reader.real("alpha", 1e-4)), beta(reader.real("beta", 0.75)),
        bias(reader.real("bias", 1)), axes(reader.integers("axes")), has_axes(reader.given("axes")) {}
  std::int64_t is_test, axis, num_groups, p, size;
  double epsilon, alpha, beta, bias;
  std::vector<std::int64_t> axes;
  bool has_axes;
};

const NormAttributes& attributes_of(const Call& call) { return call.attributes<NormAttributes>(); }

// Outputs 3 and 4 of the training form are the mean and 1 / std that it used.
void batch_norm(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor x = contiguous(queue, call.input(0)), dy = contiguous(queue, call.gradient());
  const Tensor mean = call.output(3), scale = call.output(4);
  const bool fixed = attributes_of(call).is_test;
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
  const bool sums = call.needs(1) || call.needs(2);
  const Tensor dw = sums ? Tensor(queue, type, {shape.channels}) : Tensor();
  const Tensor db = sums ? Tensor(queue, type, {shape.channels}) : Tensor();
  const TensorView dw_view = sums ? dw.view(queue) : TensorView(), db_view = sums ? db.view(queue) : TensorView();
  if (call.needs(0)) {
    group_norm_backward(queue, shape, scratch.view(queue), dy.view(queue), x.view(queue), mean_view, rstd.view(queue),
                        weights, dw_view, db_view);
    call.add(0, scratch);
  } else if (sums) {
    group_norm_sums(queue, shape, dw_view, db_view, dy.view(queue), x.view(queue), mean_view, rstd.view(queue));
  }
  if (sums) call.add(1, reshape(queue, dw, parameter)), call.add(2, reshape(queue, db, parameter));
}

void rows(GradientCall& call, bool center) {
  Queue& queue = call.queue();
  const Shape& x = call.shape(0);
  const int axis = x.axis(attributes_of(call).axis), rank = x.size();
  const Shape normalized(std::vector<std::int64_t>(x.begin() + axis, x.end()));
  const GroupShape shape{x.product(0, axis), x.product(axis, rank), 1, 1, center, attributes_of(call).epsilon};
  Tensor weight;
  if (call.has(1)) weight = reshape(queue, contiguous(queue, expand(call.input(1), normalized)), {shape.channels});
  grouped(call, shape, weight, normalized);
}

void layer_norm(GradientCall& call) { rows(call, true); }
void rms_norm(GradientCall& call) { rows(call, false); }

void channels_norm(GradientCall& call, std::int64_t groups) {
  const Shape& x = call.shape(0);
  if (call.shape(1).total_size() != x[1]) call.fail("there is no gradient for parameters that belong to groups");
  const GroupShape shape{x[0], x[1], x.product(2, x.size()), groups, true, attributes_of(call).epsilon};
  grouped(call, shape, contiguous(call.queue(), call.input(1)), {x[1]});
}

void instance_norm(GradientCall& call) { channels_norm(call, call.shape(0)[1]); }
void group_norm_op(GradientCall& call) { channels_norm(call, attributes_of(call).num_groups); }

// y = x / norm along the axis, norm as sum of |x| or root of sum of squares.
void lp_norm(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor &x = call.input(0), &y = call.output(0);
  const int dim = x.shape().axis(attributes_of(call).axis);
  const bool first = attributes_of(call).p == 1;
  const Tensor dy = call.gradient(), size = reduce(queue, first ? ReduceId::norm_1 : ReduceId::norm_2, x, {dim});
  const Tensor dot = reduce(queue, ReduceId::sum, apply(queue, "y0 = x0 * x1;", {dy, y}), {dim});
  const char* code =
      first ? "y0 = x3 == 0 ? 0 : (x0 - sign_of(x1) * x2) / x3;" : "y0 = x3 == 0 ? 0 : (x0 - x1 * x2) / x3;";
  call.add(0, apply(queue, code, {dy, first ? x : y, dot, size}));
}

// y = (x - mean) / deviation
void mean_variance(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor &x = call.input(0), &y = call.output(0), dy = call.gradient();
  std::vector<std::int64_t> axes = attributes_of(call).axes;
  if (!attributes_of(call).has_axes) axes = {0, 2, 3};
  std::vector<int> dims;
  for (std::int64_t axis : axes) dims.push_back(x.shape().axis(axis));
  const double population[] = {0, 1};
  const Tensor mean = reduce(queue, ReduceId::mean, dy, dims);
  const Tensor dot = reduce(queue, ReduceId::mean, apply(queue, "y0 = x0 * x1;", {dy, y}), dims);
  const Tensor deviation = reduce(queue, ReduceId::std_var, x, dims, {}, population);
  call.add(0, apply(queue, "y0 = (x0 - x1 - x2 * x3) / (x4 + 1e-9);", {dy, mean, y, dot, deviation}));
}

// y = x s^-beta with s = bias + alpha / size * (sum of x^2 over neighbouring channels)
void lrn(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor &x = call.input(0), dy = call.gradient();
  const Shape& shape = x.shape();
  const std::int64_t size = attributes_of(call).size;
  const double alpha = attributes_of(call).alpha / double(size), beta = attributes_of(call).beta,
               bias = attributes_of(call).bias;
  auto window_sums = [&](const Tensor& values, std::int64_t before) {
    const Tensor planes = reshape(queue, values, {shape[0], 1, shape[1], shape.product(2, shape.size())});
    const Tensor sums(queue, planes.dtype(), planes.shape());
    PoolWindow window;
    window.kernel = {1, int(size), 1}, window.pad = {0, int(before), 0}, window.divisor = 1;
    average_pool(queue, planes.view(queue), sums.view(queue), window);
    return reshape(queue, sums, shape);
  };
  const Tensor s = apply(queue, "y0 = w0 + w1 * x0;", {window_sums(apply(queue, "y0 = x0 * x0;", {x}), (size - 1) / 2)},
                         {bias, alpha});
  const Tensor back = window_sums(apply(queue, "y0 = x0 * x1 * pow(x2, -w0 - 1);", {dy, x, s}, {beta}), size / 2);
  call.add(0, apply(queue, "y0 = x0 * pow(x2, -w0) - 2 * w1 * w0 * x1 * x3;", {dy, x, s, back}, {beta, alpha}));
}

}  // namespace

void norm(GradientRegistry& registry) {
  registry.add<NormAttributes>("BatchNormalization", batch_norm, "x0 x1 y3 y4", 5);
  registry.add<NormAttributes>("LayerNormalization", layer_norm, "x0 x1");
  registry.add<NormAttributes>("RMSNormalization", rms_norm, "x0 x1");
  registry.add<NormAttributes>("SimplifiedLayerNormalization", rms_norm, "x0 x1");
  registry.add<NormAttributes>("InstanceNormalization", instance_norm, "x0 x1");
  registry.add<NormAttributes>("GroupNormalization", group_norm_op, "x0 x1");
  registry.add<NormAttributes>("LpNormalization", lp_norm, "x0 y0");
  registry.add<NormAttributes>("MeanVarianceNormalization", mean_variance, "x0 y0");
  registry.add<NormAttributes>("LRN", lrn, "x0");
}

}  // namespace dlprim::gradients
