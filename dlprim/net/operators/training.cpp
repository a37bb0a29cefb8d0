// SPDX-License-Identifier: MIT
// Training forms of operators: they work on batches, or keep what gradients read, as outputs behind those of ONNX.
#include <dlprim/primitives/norm.hpp>
#include <dlprim/primitives/pool.hpp>
#include <dlprim/primitives/random.hpp>

#include "../array.hpp"
#include "../operator.hpp"
#include "../window.hpp"

namespace dlprim::operators {

namespace {

struct TrainingAttributes {
  explicit TrainingAttributes(const AttributeReader& reader)
      : epsilon(reader.real("epsilon", 1e-5)), momentum(reader.real("momentum", 0.9)), ratio(reader.real("ratio", 0.5)),
        spatial(reader.integer("spatial", 1)), is_test(reader.integer("is_test", 0)),
        storage_order(reader.integer("storage_order", 0)), seed(reader.seed()), window(reader) {}
  double epsilon, momentum, ratio;
  std::int64_t spatial, is_test, storage_order;
  std::optional<std::uint64_t> seed;
  WindowAttributes window;
};

const TrainingAttributes& attributes_of(const Call& call) { return call.attributes<TrainingAttributes>(); }

// Normalizes by the batch and updates the running statistics where they are, or (is_test) by the running statistics.
// Outputs 3 and 4 are the mean and 1 / std that were used.
void batch_norm(Call& call) {
  Queue& queue = call.queue();
  const Tensor x = contiguous(queue, call.input(0));
  const double eps = attributes_of(call).epsilon;
  if (!attributes_of(call).spatial) throw NotImplementedError("spatial 0 is not supported in training");
  if (x.shape().size() < 2 || x.numel() == 0)
    call.fail("expected at least 2 dimensions and elements, got " + x.shape().text());
  const Tensor &running_mean = call.input(3), &running_variance = call.input(4);
  const bool fixed = attributes_of(call).is_test;
  Tensor mean = running_mean, scale;
  if (fixed) {
    scale = apply(queue, "y0 = 1 / sqrt(x0 + w0);", {running_variance}, {eps});
  } else {
    mean = Tensor(queue, running_mean.dtype(), {x.shape()[1]}),
    scale = Tensor(queue, running_mean.dtype(), {x.shape()[1]});
    const RunningStatistics running{call.in(3), call.in(4), 1 - attributes_of(call).momentum};
    batch_norm_statistics(queue, x.view(queue), mean.view(queue), scale.view(queue), eps, running);
  }
  call.set(1, running_mean), call.set(2, running_variance);
  call.set(3, mean), call.set(4, scale);
  batch_norm_apply(queue, call.out(0, x.dtype(), x.shape()), x.view(queue), {mean.view(queue), scale.view(queue)},
                   call.in(1), call.in(2));
}

// Output 2 holds positions within each channel.
void max_pool_op(Call& call) {
  if (attributes_of(call).storage_order) call.fail("storage_order is not supported in training");
  const Tensor& x = call.input(0);
  const Window w = read_window(call, attributes_of(call).window, x.shape(), attributes_of(call).window.kernel);
  Shape shape{x.shape()[0], x.shape()[1]};
  for (std::int64_t size : w.out) shape.push_back(size);
  const TensorView places = call.out(2, DataType::int64, shape);
  max_pool(call.queue(), call.in(0), call.out(0, x.dtype(), shape), places, pool_window(w));
}

void dropout_op(Call& call) {
  Queue& queue = call.queue();
  const Tensor x = contiguous(queue, call.input(0));
  const double ratio = call.has(1) ? call.read_reals(1).at(0) : attributes_of(call).ratio;
  if (!(ratio >= 0 && ratio < 1)) call.fail("expected a ratio of [0, 1)");
  const PhiloxState state = call.philox(attributes_of(call).seed);
  const TensorView mask = call.out(1, DataType::boolean, x.shape());
  dropout(queue, x.view(queue), call.out(0, x.dtype(), x.shape()), mask, ratio, state);
}

}  // namespace

void training(Registry& registry) {
  constexpr const char* domain = "dlprim.training";
  registry.add<TrainingAttributes>("BatchNormalization", batch_norm, "", domain);
  registry.add<TrainingAttributes>("MaxPool", max_pool_op, "", domain);
  registry.add<TrainingAttributes>("Dropout", dropout_op, "", domain);
}

}  // namespace dlprim::operators
