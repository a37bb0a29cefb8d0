// SPDX-License-Identifier: MIT
#include <dlprim/primitives/ctc.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/status.hpp>

#include "narrow.hpp"

namespace dlprim {

namespace {

constexpr std::size_t group = 64;

// The struct of ctc.cl.
struct Parameters {
  cl_long step, row, class_step, grad_step, grad_row, grad_class;
  cl_int steps, batch, classes, states, blank, zero_infinity, code, unused;
};

struct Key {
  DataType type;
  std::uint8_t kernel;
};

Kernel& kernel_for(Queue& queue, DataType type, std::uint8_t which) {
  static KernelCache<Key> cache;
  constexpr const char* names[] = {"ctc_forward", "ctc_beta", "ctc_gradient"};
  return cache.get(queue.device(), Key{type, which}, [&] {
    KernelSource source("ctc.cl", names[which]);
    return source.define("T", tag(type)).define("GROUP", std::int64_t(group));
  });
}

Parameters parameters(Queue& queue, const CtcSequences& s, const TensorView& losses, const TensorView& alpha) {
  const TensorView& in = s.log_probs;
  const bool good =
      in.dims == 3 && (in.dtype == DataType::float32 || in.dtype == DataType::float64) &&
      s.targets.dtype == DataType::int64 && s.targets.is_contiguous() && s.lengths.dtype == DataType::int64 &&
      s.lengths.is_contiguous() && s.lengths.dims == 2 && s.lengths.size(0) == in.size(1) && s.lengths.size(1) == 3 &&
      losses.is_contiguous() && losses.numel() == in.size(1) && alpha.is_contiguous() &&
      alpha.numel() == in.size(1) * in.size(0) * s.states && losses.dtype == in.dtype && alpha.dtype == in.dtype;
  if (!good)
    throw ValidationError("[ctc_loss] expected float32 or float64 log_probs (T, N, C), int64 targets and lengths "
                          "(N, 3), losses (N) and alpha (N, T, states)");
  auto size = [](const char* what, std::int64_t value) { return narrow("ctc_loss", what, value); };
  return {in.strides[0],
          in.strides[1],
          in.strides[2],
          0,
          0,
          0,
          size("steps", in.sizes[0]),
          size("a batch", in.sizes[1]),
          size("classes", in.sizes[2]),
          size("states", s.states),
          size("a blank", s.blank),
          s.zero_infinity,
          cl_int(queue.status().arm("[ctc_loss] label %lld is out of range of the classes")),
          0};
}

}  // namespace

void ctc_loss(Queue& queue, const CtcSequences& s, const TensorView& losses, const TensorView& alpha) {
  const Parameters p = parameters(queue, s, losses, alpha);
  launch(queue, kernel_for(queue, s.log_probs.dtype, 0), NDRange(std::size_t(p.batch) * group, group), s.log_probs.data,
         s.targets.data, s.lengths.data, alpha.data, losses.data, queue.status().buffer(), p);
}

void ctc_loss_backward(Queue& queue, const CtcSequences& s, const TensorView& losses, const TensorView& alpha,
                       const TensorView& grad_out, const TensorView& grad_in) {
  Parameters p = parameters(queue, s, losses, alpha);
  if (grad_in.dims != 3 || grad_in.dtype != s.log_probs.dtype || grad_out.dims != 1 || grad_out.dtype != grad_in.dtype)
    throw ValidationError("[ctc_loss_backward] expected gradients (N) and (T, N, C) of the input's dtype");
  p.grad_step = grad_in.strides[0], p.grad_row = grad_in.strides[1], p.grad_class = grad_in.strides[2];
  const DataType type = s.log_probs.dtype;
  if (p.batch == 0 || p.steps == 0) return;
  Workspace beta(queue, std::size_t(alpha.numel()) * size_of(type));
  launch(queue, kernel_for(queue, type, 1), NDRange(std::size_t(p.batch) * group, group), s.log_probs.data,
         s.targets.data, s.lengths.data, beta.data(), queue.status().buffer(), p);
  launch(queue, kernel_for(queue, type, 2), NDRange(std::size_t(p.steps), std::size_t(p.batch), group, 1),
         s.log_probs.data, s.targets.data, s.lengths.data, alpha.data, beta.data(), losses.data, grad_out.data,
         cl_long(grad_out.strides[0]), grad_in.data, queue.status().buffer(), p);
}

}  // namespace dlprim
