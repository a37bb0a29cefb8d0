// SPDX-License-Identifier: MIT
#include <dlprim/primitives/loss.hpp>
#include <dlprim/primitives/softmax.hpp>

#include "../array.hpp"
#include "../operator.hpp"
#include "../loss_attributes.hpp"

namespace dlprim::operators {

namespace {

const LossAttributes& attributes_of(const Call& call) { return call.attributes<LossAttributes>(); }

// Negative log likelihood of log-probabilities [N, C, positions...].
void likelihood(Call& call, const Tensor& logs) {
  Queue& queue = call.queue();
  const Shape& s = logs.shape();
  if (s.size() < 2) call.fail("expected at least 2 dimensions, got " + s.text());
  const std::int64_t places = s.product(2, s.size());
  const Tensor x = reshape(queue, logs, {s[0], s[1], places});
  const Tensor target = reshape(queue, cast(queue, call.input(1), DataType::int64), {s[0], places});
  ClassTargets targets;
  targets.target = target.view(queue);
  const Tensor weights = call.has(2) ? contiguous(queue, call.input(2)) : Tensor();
  if (weights.defined()) targets.weights = weights.view(queue);
  targets.ignore_index = attributes_of(call).ignore_index;
  const std::string how = attributes_of(call).reduction;
  if (how == "none") {
    const TensorView y = call.out(0, x.dtype(), call.input(1).shape());
    return nll_loss(queue, x.view(queue), targets, LossReduction::none, TensorView(y.data, y.dtype, {s[0], places}),
                    {});
  }
  const Tensor total(queue, x.dtype(), {});
  nll_loss(queue, x.view(queue), targets, how == "sum" ? LossReduction::sum : LossReduction::mean,
           call.out(0, x.dtype(), {}), total.view(queue));
}

void nll(Call& call) { likelihood(call, call.input(0)); }

void cross_entropy_op(Call& call) {
  Queue& queue = call.queue();
  const Tensor x = contiguous(queue, call.input(0));
  if (x.shape().size() < 2) call.fail("expected at least 2 dimensions, got " + x.shape().text());
  const Tensor logs(queue, x.dtype(), x.shape());
  softmax(queue, SoftmaxKind::log_softmax, logs.view(queue), x.view(queue), 1);
  likelihood(call, logs);
  call.set(1, logs);
}

}  // namespace

void loss(Registry& registry) {
  registry.add<LossAttributes>("NegativeLogLikelihoodLoss", nll, "ignore_index reduction=none|mean|sum");
  registry.add<LossAttributes>("SoftmaxCrossEntropyLoss", cross_entropy_op, "ignore_index reduction=none|mean|sum");
}

}  // namespace dlprim::operators
