// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/loss.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>

#include "check.hpp"
#include "two_floats.hpp"

namespace dlprim {

namespace {

enum Operation : std::uint8_t {
  nll_each,
  nll_reduce,
  nll_finish,
  nll_backward,
  entropy,
  entropy_backward,
  margin,
  multilabel
};
struct Row {
  const char *define, *kernel;
};
constexpr Row rows[] = {{"NLL_EACH", "nll_each"},     {"NLL_REDUCE", "nll_reduce"},
                        {"NLL_FINISH", "nll_finish"}, {"NLL_BACKWARD", "nll_backward"},
                        {"ENTROPY", "entropy"},       {"ENTROPY_BACKWARD", "entropy_backward"},
                        {"MARGIN", "margin"},         {"MULTILABEL", "multilabel"}};

std::size_t group_of(const Queue& queue) { return fitting_group(queue.device().info(), 128); }

// A group for each of `count` rows.
NDRange groups_of(const Queue& queue, std::int64_t count) {
  const std::size_t group = group_of(queue);
  return NDRange(std::size_t(count) * group, group);
}

// The struct of loss.cl.
struct Labels {
  cl_long in_stride[3], target_stride[2], loss_stride[2];
  cl_long rows, classes, places, ignored;
  cl_int mean;
};

struct Key {
  Operation operation;
  DataType type, label;
  std::uint8_t weights;
};

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("loss.cl", rows[key.operation].kernel);
    source.define(rows[key.operation].define).define("T", tag(key.type)).define("LABEL", tag(key.label));
    source.define("GROUP", std::int64_t(group_of(queue)));
    if (key.weights) source.define("WEIGHTS");
    return source;
  });
}

// The common part of every call, checked once.
struct Call {
  Queue& queue;
  const ClassTargets& targets;
  DataType type;
  Labels labels{};
  BufferRef status;
  cl_int code;

  Call(Queue& queue, const char* name, const TensorView& in, const ClassTargets& targets, const TensorView& losses,
       LossReduction reduction, const char* message)
      : queue(queue), targets(targets), type(in.dtype), status(queue.status().buffer()),
        code(queue.status().arm(message)) {
    const TensorView& target = targets.target;
    DLPRIM_EXPECT(is_floating(type), name, "a floating input");
    DLPRIM_EXPECT(in.dims == 2 || in.dims == 3, name, "an input of 2 or 3 dimensions");
    DLPRIM_EXPECT(target.dtype == DataType::int64 || target.dtype == DataType::uint8, name, "int64 or uint8 targets");
    DLPRIM_EXPECT(
        target.dims == in.dims - 1 && target.size(0) == in.size(0) && (in.dims == 2 || target.size(1) == in.size(2)),
        name, "one target for every row and position of the input");
    DLPRIM_EXPECT(!targets.weights.defined() || (targets.weights.dtype == type && targets.weights.is_contiguous() &&
                                                 targets.weights.numel() == in.size(1)),
                  name, "one weight of the input's dtype for every class");
    labels.rows = in.size(0), labels.classes = in.size(1), labels.places = in.dims == 3 ? in.size(2) : 1;
    for (int d = 0; d < in.dims; d++) labels.in_stride[d] = in.strides[d];
    for (int d = 0; d < target.dims; d++) labels.target_stride[d] = target.strides[d];
    if (reduction == LossReduction::none) {
      DLPRIM_EXPECT(std::ranges::equal(losses.shape(), target.shape()), name, "one loss for every target");
      for (int d = 0; d < losses.dims; d++) labels.loss_stride[d] = losses.strides[d];
    } else {
      DLPRIM_EXPECT(losses.numel() == 1, name, "a loss of one element");
    }
    labels.ignored = targets.ignore_index, labels.mean = reduction == LossReduction::mean;
  }

  cl_long count() const { return labels.rows * labels.places; }

  template <class... Tail, class... Head>
  void run(Operation operation, const NDRange& range, std::tuple<Head...> head, const Tail&... tail) const {
    const Key key{operation, type, targets.target.dtype, targets.weights.defined()};
    std::apply(
        [&](const auto&... arguments) {
          launch(queue, kernel_for(queue, key), range, arguments..., targets.target.data, targets.weights.data, status,
                 code, labels, tail...);
        },
        head);
  }
};

constexpr const char* nll_message = "[nll_loss] Target %lld is out of bounds.";
constexpr const char* entropy_message = "[cross_entropy] Target %lld is out of bounds.";
constexpr const char* margin_message = "[multi_margin_loss] target %lld is out of range";
constexpr const char* multilabel_message = "[multilabel_margin_loss] argument target %lld is out of range";

}  // namespace

void nll_loss(Queue& queue, const TensorView& in, const ClassTargets& targets, LossReduction reduction,
              const TensorView& out, const TensorView& total_weight) {
  const Call call(queue, "nll_loss", in, targets, out, reduction, nll_message);
  if (reduction == LossReduction::none) {
    call.run(nll_each, NDRange(std::size_t(call.count()), group_of(queue)), std::tuple(in.data, out.data));
    return;
  }
  const auto groups = std::clamp<std::int64_t>(call.count() / std::int64_t(4 * group_of(queue)), 1, 256);
  Workspace partials(queue, std::size_t(groups) * 2 * sizeof(double));
  call.run(nll_reduce, groups_of(queue, groups), std::tuple(in.data, partials.data()));
  launch(queue, kernel_for(queue, {nll_finish, in.dtype, DataType::int64, 0}), groups_of(queue, 1), partials.data(),
         cl_int(groups), call.labels.mean, out.data, total_weight.data);
}

void nll_loss_backward(Queue& queue, const TensorView& grad_out, const ClassTargets& targets, LossReduction reduction,
                       const TensorView& total_weight, const TensorView& grad_in) {
  const Call call(queue, "nll_loss_backward", grad_in, targets, grad_out, reduction, nll_message);
  fill(queue, grad_in, 0);
  call.run(nll_backward, NDRange(std::size_t(call.count()), group_of(queue)),
           std::tuple(grad_out.data, total_weight.data, grad_in.data));
}

void cross_entropy(Queue& queue, const TensorView& logits, const ClassTargets& targets, const TensorView& losses) {
  const Call call(queue, "cross_entropy", logits, targets, losses, LossReduction::none, entropy_message);
  call.run(entropy, groups_of(queue, call.count()), std::tuple(logits.data, losses.data));
}

void cross_entropy_backward(Queue& queue, const TensorView& logits, const ClassTargets& targets,
                            const TensorView& grad_out, const TensorView& grad_in) {
  const Call call(queue, "cross_entropy_backward", logits, targets, grad_out, LossReduction::none, entropy_message);
  DLPRIM_EXPECT(std::ranges::equal(grad_in.shape(), logits.shape()) && grad_in.dtype == logits.dtype &&
                    std::ranges::equal(grad_in.strides, logits.strides),
                "cross_entropy_backward", "a gradient laid out like the logits");
  call.run(entropy_backward, groups_of(queue, call.count()), std::tuple(logits.data, grad_out.data, grad_in.data));
}

namespace {
void run_margin(Queue& queue, const TensorView& in, const ClassTargets& targets, int power, double width,
                const TensorView& losses, const TensorView& out, cl_int backward) {
  DLPRIM_EXPECT(power == 1 || power == 2, "multi_margin_loss", "power 1 or 2");
  const Call call(queue, "multi_margin_loss", in, targets, losses, LossReduction::none, margin_message);
  call.run(margin, NDRange(std::size_t(call.count()), group_of(queue)), std::tuple(in.data, losses.data, out.data),
           cl_int(power), TwoFloats(width), backward);
}

void run_multilabel(Queue& queue, const TensorView& in, const TensorView& target, const TensorView& flags,
                    const TensorView& losses, const TensorView& out, cl_int backward) {
  DLPRIM_EXPECT(in.dims == 2 && std::ranges::equal(in.shape(), target.shape()), "multilabel_margin_loss",
                "input and target (N, C)");
  ClassTargets rows{target, {}, -1};
  rows.target.dims = 1;
  const Call call(queue, "multilabel_margin_loss", in, rows, losses, LossReduction::none, multilabel_message);
  Call strided = call;
  strided.labels.target_stride[1] = target.strides[1];
  strided.run(multilabel, NDRange(std::size_t(call.count()), group_of(queue)),
              std::tuple(in.data, losses.data, out.data, flags.data), backward);
}
}  // namespace

void margin_loss(Queue& queue, const TensorView& in, const ClassTargets& targets, int power, double margin,
                 const TensorView& losses) {
  run_margin(queue, in, targets, power, margin, losses, losses, 0);
}

void margin_loss_backward(Queue& queue, const TensorView& in, const ClassTargets& targets, int power, double margin,
                          const TensorView& grad_out, const TensorView& grad_in) {
  run_margin(queue, in, targets, power, margin, grad_out, grad_in, 1);
}

void multilabel_margin_loss(Queue& queue, const TensorView& in, const TensorView& target, const TensorView& losses,
                            const TensorView& flags) {
  run_multilabel(queue, in, target, flags, losses, losses, 0);
}

void multilabel_margin_loss_backward(Queue& queue, const TensorView& in, const TensorView& target,
                                     const TensorView& flags, const TensorView& grad_out, const TensorView& grad_in) {
  run_multilabel(queue, in, target, flags, grad_out, grad_in, 1);
}

}  // namespace dlprim
