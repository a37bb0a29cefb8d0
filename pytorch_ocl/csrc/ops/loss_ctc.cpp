// SPDX-License-Identifier: MIT
// Connectionist temporal classification.
#include <dlprim/primitives/ctc.hpp>

#include <ATen/ops/empty.h>

#include <algorithm>

#include "generated/functions/loss.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

// Arguments checked and brought to the device, with what keeps their memory alive.
struct Sequences {
  at::Tensor targets, lengths;
  dlprim::CtcSequences view;

  Sequences(const at::Tensor& log_probs, const at::Tensor& given, at::IntArrayRef input_lengths,
            at::IntArrayRef target_lengths, int64_t blank, bool zero_infinity) {
    const int64_t steps = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
    TORCH_CHECK(log_probs.scalar_type() == at::kFloat || log_probs.scalar_type() == at::kDouble,
                "\"ctc_loss\" not implemented for '", log_probs.scalar_type(), "'");
    TORCH_CHECK(given.scalar_type() == at::kLong || given.scalar_type() == at::kInt,
                "ctc_loss: expected targets of dtype int64 or int32, got ", given.scalar_type());
    TORCH_CHECK(blank >= 0 && blank < classes, "blank must be in label range");
    TORCH_CHECK(int64_t(input_lengths.size()) == batch, "input_lengths must be of size batch_size");
    TORCH_CHECK(int64_t(target_lengths.size()) == batch, "target_lengths must be of size batch_size");
    TORCH_CHECK(given.dim() == 1 || given.dim() == 2, "targets must be 1- or 2-dimensional, got ", given.sizes());
    const at::Tensor host = at::empty({batch, 3}, at::TensorOptions().dtype(at::kLong));
    auto* row = host.mutable_data_ptr<int64_t>();
    int64_t longest = 0, first = 0;
    for (int64_t b = 0; b < batch; b++, row += 3) {
      const int64_t length = target_lengths[std::size_t(b)], input = input_lengths[std::size_t(b)];
      TORCH_CHECK(length >= 0, "Expected target_lengths to have value at least 0, but got value ", length,
                  " (while checking arguments for ctc_loss)");
      TORCH_CHECK(input >= 0 && input <= steps, "Expected input_lengths to have value at most ", steps,
                  ", but got value ", input, " (while checking arguments for ctc_loss)");
      TORCH_CHECK(given.dim() == 1 || length <= given.size(1), "Expected tensor to have size at least ", length,
                  " at dimension 1, but got size ", given.size(1), " for targets");
      row[0] = input, row[1] = length, row[2] = given.dim() == 2 ? b * given.size(1) : first;
      first += length;
      longest = std::max(longest, length);
    }
    TORCH_CHECK(given.dim() == 2 ? given.size(0) == batch : first == given.numel(), "Expected targets of ",
                given.dim() == 2 ? batch : first, " at dimension 0, but got ", given.sizes());
    targets = given.to(log_probs.device(), at::kLong).contiguous();
    lengths = host.to(log_probs.device());
    view = {view_of(log_probs, "ctc_loss"),
            view_of(targets, "ctc_loss"),
            view_of(lengths, "ctc_loss"),
            2 * longest + 1,
            blank,
            zero_infinity};
  }
};

}  // namespace

std::tuple<at::Tensor, at::Tensor> _ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets,
                                             at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                                             int64_t blank, bool zero_infinity) {
  // Infinite losses are kept here: ctc_loss zeroes them, and the gradient needs to see them.
  const Sequences sequences(log_probs, targets, input_lengths, target_lengths, blank, false);
  at::Tensor losses = at::empty({log_probs.size(1)}, log_probs.options());
  at::Tensor alpha = at::empty({log_probs.size(1), log_probs.size(0), sequences.view.states}, log_probs.options());
  if (losses.numel() > 0)
    dlprim::ctc_loss(current_queue(log_probs.device()), sequences.view, view_of(losses, "ctc_loss"),
                     view_of(alpha, "ctc_loss"));
  return {losses, alpha};
}

at::Tensor _ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                              at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                              const at::Tensor& neg_log_likelihood, const at::Tensor& log_alpha, int64_t blank,
                              bool zero_infinity) {
  const char* op = "ctc_loss_backward";
  const Sequences sequences(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  at::Tensor grad_input = at::empty(log_probs.sizes(), log_probs.options());
  const at::Tensor losses = neg_log_likelihood.contiguous(), alpha = log_alpha.contiguous();
  const at::Tensor grads = grad.expand({log_probs.size(1)});
  if (grad_input.numel() > 0)
    dlprim::ctc_loss_backward(current_queue(log_probs.device()), sequences.view, view_of(losses, op),
                              view_of(alpha, op), view_of(grads, op), view_of(grad_input, op));
  return grad_input;
}

}  // namespace pytorch_ocl::ops
