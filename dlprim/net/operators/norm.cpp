// SPDX-License-Identifier: MIT
#include <dlprim/primitives/norm.hpp>
#include <dlprim/primitives/pool.hpp>

#include <numeric>

#include "../array.hpp"
#include "../checked.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

struct NormAttributes {
  explicit NormAttributes(const AttributeReader& reader)
      : epsilon(reader.real("epsilon", 1e-5)), momentum(reader.real("momentum", 0.9)), bias(reader.real("bias", 1)),
        alpha(reader.real("alpha", 1e-4)), beta(reader.real("beta", 0.75)), spatial(reader.integer("spatial", 1)),
        training_mode(reader.integer("training_mode", 0)), num_groups(reader.integer("num_groups", 1)),
        axis(reader.integer("axis", -1)), size(reader.integer("size", 1)), p(reader.integer("p", 2)),
        axes(reader.integers("axes")), has_axes(reader.given("axes")) {}
  double epsilon, momentum, bias, alpha, beta;
  std::int64_t spatial, training_mode, num_groups, axis, size, p;
  std::vector<std::int64_t> axes;
  bool has_axes;
};

const NormAttributes& attributes_of(const Call& call) { return call.attributes<NormAttributes>(); }

void batch_norm(Call& call) {
  Queue& queue = call.queue();
  const Shape shape = call.input(0).shape();
  const double eps = attributes_of(call).epsilon;
  if (shape.size() < 2) call.fail("expected at least 2 dimensions, got " + shape.text());
  // Without `spatial` (before operator set 9) each element behind the batch is a channel of its own.
  const bool flat = !attributes_of(call).spatial;
  auto channels_of = [&](int i) {
    return flat ? reshape(queue, call.input(i), {call.input(i).numel()}) : call.input(i);
  };
  Tensor x = contiguous(queue, call.input(0));
  if (flat) x = reshape(queue, x, {shape[0], shape.product(1, shape.size())});
  const Tensor weight = channels_of(1), bias = channels_of(2);
  Tensor mean = channels_of(3), variance = channels_of(4);
  if (attributes_of(call).training_mode) {
    const double momentum = attributes_of(call).momentum;
    std::vector<int> dims;
    for (int d = 0; d < x.shape().size(); d++)
      if (d != 1) dims.push_back(d);
    const double population[] = {0, 0};
    const Shape channels{x.shape()[1]};
    const Tensor batch_mean = reshape(queue, reduce(queue, ReduceId::mean, x, dims, mean.dtype()), channels);
    const Tensor batch_variance =
        reshape(queue, reduce(queue, ReduceId::std_var, x, dims, variance.dtype(), population), channels);
    const char* average = "y0 = x0 * w0 + x1 * (1 - w0);";
    call.set(1, apply(queue, average, {mean, batch_mean}, {momentum}));
    call.set(2, apply(queue, average, {variance, batch_variance}, {momentum}));
    mean = batch_mean, variance = batch_variance;
  }
  const ChannelStatistics statistics{mean.view(queue), variance.view(queue), true, eps};
  const Tensor y(queue, x.dtype(), x.shape());
  if (y.numel())
    batch_norm_apply(queue, y.view(queue), x.view(queue), statistics, weight.view(queue), bias.view(queue));
  call.set(0, reshape(queue, y, shape));
}

// Statistics are kept in the type computed in.
void run_group_norm(Call& call, const Tensor& x, const GroupShape& shape, const Tensor& weight, const Tensor& bias,
                    const Shape& statistics) {
  Queue& queue = call.queue();
  const DataType type = compute_type(x.dtype());
  Tensor mean(queue, type, {shape.rows, shape.groups}), rstd(queue, type, {shape.rows, shape.groups});
  const TensorView y = call.out(0, x.dtype(), x.shape());
  auto optional = [&](const Tensor& t) { return t.defined() ? t.view(queue) : TensorView(); };
  if (y.numel())
    group_norm(queue, shape, y, shape.center ? mean.view(queue) : TensorView(), rstd.view(queue),
               contiguous(queue, x).view(queue), optional(weight), optional(bias));
  if (call.wants(1)) call.set(1, reshape(queue, mean, statistics));
  if (call.wants(2)) call.set(2, reshape(queue, rstd, statistics));
}

void instance_norm(Call& call) {
  const Tensor& x = call.input(0);
  if (x.shape().size() < 3) call.fail("expected at least 3 dimensions, got " + x.shape().text());
  const std::int64_t channels = x.shape()[1];
  run_group_norm(
      call, x,
      {x.shape()[0], channels, x.shape().product(2, x.shape().size()), channels, true, attributes_of(call).epsilon},
      call.input(1), call.input(2), {});
}

void group_norm_op(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const std::int64_t channels = x.shape().size() > 1 ? x.shape()[1] : 0, groups = attributes_of(call).num_groups;
  if (channels == 0 || groups <= 0 || channels % groups) call.fail("expected channels in num_groups equal groups");
  auto each_channel = [&](Tensor t) {  // up to operator set 20 parameters belong to groups
    if (t.numel() == channels) return t;
    return reshape(queue, contiguous(queue, expand(unsqueeze(t, 1), {groups, channels / groups})), {channels});
  };
  run_group_norm(
      call, x,
      {x.shape()[0], channels, x.shape().product(2, x.shape().size()), groups, true, attributes_of(call).epsilon},
      each_channel(call.input(1)), each_channel(call.input(2)), {});
}

void rows_norm(Call& call, bool center) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const int axis = x.shape().axis(attributes_of(call).axis), rank = x.shape().size();
  const std::int64_t rows = x.shape().product(0, axis), length = x.shape().product(axis, rank);
  const Shape normalized(std::vector<std::int64_t>(x.shape().begin() + axis, x.shape().end()));
  auto parameter = [&](int i) {
    return call.has(i) ? reshape(queue, contiguous(queue, expand(call.input(i), normalized)), {length}) : Tensor();
  };
  Shape statistics = x.shape();
  for (int d = axis; d < rank; d++) statistics[d] = 1;
  run_group_norm(call, x, {rows, length, 1, 1, center, attributes_of(call).epsilon}, parameter(1), parameter(2),
                 statistics);
}

void layer_norm(Call& call) { rows_norm(call, true); }
void rms_norm(Call& call) { rows_norm(call, false); }

// x / (bias + alpha / size * sum of squares over neighbouring channels)^beta
void lrn(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const std::int64_t size = attributes_of(call).size;
  if (x.shape().size() < 2 || size < 1) call.fail("expected channels and a size of 1 or more");
  const std::int64_t rest = x.shape().product(2, x.shape().size());
  const Tensor squares = reshape(queue, apply(queue, "y0 = x0 * x0;", {x}), {x.shape()[0], 1, x.shape()[1], rest});
  Tensor sums(queue, x.dtype(), squares.shape());
  PoolWindow window;
  window.kernel = {1, checked_int(size, "a size"), 1}, window.pad = {0, int((size - 1) / 2), 0}, window.divisor = 1;
  average_pool(queue, squares.view(queue), sums.view(queue), window);
  call.set(0, apply(queue, "y0 = x0 / pow(w0 + w1 * x1, w2);", {x, reshape(queue, sums, x.shape())},
                    {attributes_of(call).bias, attributes_of(call).alpha / double(size), attributes_of(call).beta}));
}

void lp_norm(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const int dim = x.shape().axis(attributes_of(call).axis);
  const Tensor norm = reduce(queue, attributes_of(call).p == 1 ? ReduceId::norm_1 : ReduceId::norm_2, x, {dim});
  call.set(0, apply(queue, "y0 = x1 == 0 ? 0 : x0 / x1;", {x, norm}));
}

void mean_variance(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  std::vector<std::int64_t> axes = attributes_of(call).axes;
  if (!attributes_of(call).has_axes) axes = {0, 2, 3};
  std::vector<int> dims;
  for (std::int64_t axis : axes) dims.push_back(x.shape().axis(axis));
  const double population[] = {0, 1};
  call.set(
      0, apply(queue, "y0 = (x0 - x1) / (x2 + 1e-9);",
               {x, reduce(queue, ReduceId::mean, x, dims), reduce(queue, ReduceId::std_var, x, dims, {}, population)}));
}

}  // namespace

void norm(Registry& registry) {
  registry.add<NormAttributes>("BatchNormalization", batch_norm,
                               "epsilon momentum training_mode is_test consumed_inputs spatial");
  registry.add<NormAttributes>("InstanceNormalization", instance_norm, "epsilon consumed_inputs");
  registry.add<NormAttributes>("GroupNormalization", group_norm_op, "epsilon num_groups stash_type");
  registry.add<NormAttributes>("LayerNormalization", layer_norm, "axis epsilon stash_type");
  registry.add<NormAttributes>("RMSNormalization", rms_norm, "axis epsilon stash_type");
  // ONNX Runtime's name in the main domain, from before RMSNormalization was ONNX's.
  registry.add<NormAttributes>("SimplifiedLayerNormalization", rms_norm, "axis epsilon stash_type");
  registry.add<NormAttributes>("LRN", lrn, "alpha beta bias size");
  registry.add<NormAttributes>("LpNormalization", lp_norm, "axis p");
  registry.add<NormAttributes>("MeanVarianceNormalization", mean_variance, "axes");
}

}  // namespace dlprim::operators
