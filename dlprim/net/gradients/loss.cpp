// SPDX-License-Identifier: MIT
#include <dlprim/primitives/loss.hpp>

#include <dlprim/primitives/softmax.hpp>

#include "../gradient.hpp"
#include "../loss_attributes.hpp"

namespace dlprim::gradients {

namespace {

const LossAttributes& attributes_of(const Call& call) { return call.attributes<LossAttributes>(); }

// Gradient of the log-probabilities `logs`.
Tensor likelihood(GradientCall& call, const Tensor& logs) {
  Queue& queue = call.queue();
  const Shape& s = logs.shape();
  const std::int64_t places = s.product(2, s.size());
  const Tensor x = reshape(queue, logs, {s[0], s[1], places});
  const Tensor target = reshape(queue, cast(queue, call.input(1), DataType::int64), {s[0], places});
  const Tensor weights = call.has(2) ? contiguous(queue, call.input(2)) : Tensor();
  ClassTargets targets;
  targets.target = target.view(queue);
  if (weights.defined()) targets.weights = weights.view(queue);
  targets.ignore_index = attributes_of(call).ignore_index;
  const std::string how = attributes_of(call).reduction;
  const LossReduction reduction = how == "none"  ? LossReduction::none
                                  : how == "sum" ? LossReduction::sum
                                                 : LossReduction::mean;
  const Tensor total(queue, x.dtype(), {}), loss(queue, x.dtype(), {}), dx(queue, x.dtype(), x.shape());
  if (how != "none") nll_loss(queue, x.view(queue), targets, reduction, loss.view(queue), total.view(queue));
  const Tensor dy = how == "none" ? reshape(queue, call.gradient(), {s[0], places}) : call.gradient();
  nll_loss_backward(queue, dy.view(queue), targets, reduction, how == "none" ? TensorView() : total.view(queue),
                    dx.view(queue));
  return reshape(queue, dx, s);
}

void nll(GradientCall& call) { call.add(0, likelihood(call, call.input(0))); }

void cross_entropy(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor& logs = call.output(1);
  const Tensor dlogs = likelihood(call, logs), dx(queue, logs.dtype(), logs.shape());
  softmax_backward(queue, SoftmaxKind::log_softmax, dx.view(queue), dlogs.view(queue), logs.view(queue), 1);
  call.add(0, dx);
}

}  // namespace

void loss(GradientRegistry& registry) {
  registry.add<LossAttributes>("NegativeLogLikelihoodLoss", nll, "x0 x1 x2");
  registry.add<LossAttributes>("SoftmaxCrossEntropyLoss", cross_entropy, "x1 x2 y1", 2);
}

}  // namespace dlprim::gradients
