// SPDX-License-Identifier: MIT
// Fused optimizer steps and the gradient scaler's kernels.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <dlprim/primitives/foreach.hpp>

#include <deque>

#include "generated/functions/optimizer.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

// A list of tensors as dlprim takes it, as flat arrays. A tensor that is not dense, or not laid out as the one of
// `like` beside it, is copied; write_back() copies the results back. Keeps the tensors it was made of by reference.
class Buffers {
 public:
  Buffers(at::TensorList tensors, const char* op, const Buffers* like = nullptr) : given_(tensors) {
    data.reserve(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); i++) {
      const at::Tensor& tensor = tensors[i];
      TORCH_CHECK(tensor.device().type() == c10::DeviceType::PrivateUse1, op,
                  ": expected tensors of an ocl device, got ", tensor.device());
      TORCH_CHECK(tensor.scalar_type() == tensors[0].scalar_type(), op, ": expected tensors of one dtype, got ",
                  tensors[0].scalar_type(), " and ", tensor.scalar_type());
      if (like)
        TORCH_CHECK(tensor.sizes() == (*like)[i].sizes(), op, ": expected tensors of the same sizes, got ",
                    (*like)[i].sizes(), " and ", tensor.sizes());
      if (like ? !same_layout(tensor, (*like)[i]) : !tensor.is_non_overlapping_and_dense()) copy(i, like);
      data.push_back(buffer_of((*this)[i]));
    }
    if (!tensors.empty()) dtype = data_type_of(tensors[0], op);
  }
  const at::Tensor& operator[](std::size_t i) const {
    return copies_.empty() || !copies_[i].defined() ? given_[i] : copies_[i];
  }
  void write_back() const {
    for (std::size_t i = 0; i < copies_.size(); i++)
      if (copies_[i].defined()) given_[i].copy_(copies_[i]);
  }
  operator dlprim::TensorList() const { return {data, dtype}; }

  std::vector<dlprim::BufferRef> data;
  dlprim::DataType dtype = dlprim::DataType::float32;

 private:
  void copy(std::size_t i, const Buffers* like) {
    copies_.resize(given_.size());
    copies_[i] = like ? at::empty_strided(given_[i].sizes(), (*like)[i].strides(), given_[i].options())
                      : at::empty(given_[i].sizes(), given_[i].options(), at::MemoryFormat::Contiguous);
    copies_[i].copy_(given_[i]);
  }

  at::TensorList given_;
  std::vector<at::Tensor> copies_;  // empty where there are none
};

// The lists of a step beside its parameters, of one length and layout with them.
class Step {
 public:
  Step(at::TensorList parameters, const char* op) : op_(op), parameters_(parameters, op) {}
  const Buffers& list(at::TensorList tensors) {
    if (!tensors.empty())
      TORCH_CHECK(tensors.size() == parameters_.data.size(), op_, ": expected lists of one length, got ",
                  parameters_.data.size(), " and ", tensors.size());
    return lists_.emplace_back(tensors, op_, &parameters_);
  }
  const Buffers& parameters() const { return parameters_; }
  void write_back() const {
    parameters_.write_back();
    for (const Buffers& list : lists_) list.write_back();
  }

 private:
  const char* op_;
  Buffers parameters_;
  std::deque<Buffers> lists_;
};

std::vector<std::int64_t> sizes_of(at::TensorList tensors) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) sizes.push_back(tensor.numel());
  return sizes;
}

// A float32 scalar of the device; {} when it is not given.
dlprim::BufferRef device_scalar(const OptionalTensor& tensor, const char* op) {
  if (!tensor || !tensor->defined()) return {};
  TORCH_CHECK(tensor->scalar_type() == at::kFloat && tensor->numel() == 1, op, ": expected one float32 element, got ",
              tensor->sizes(), " ", tensor->scalar_type());
  return buffer_of(*tensor);
}

struct AdamLists {
  at::TensorList self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps;
};

void adam_step(const AdamLists& lists, const at::Tensor* lr, const dlprim::AdamOptions& options,
               const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  const char* op = options.decoupled_decay ? "_fused_adamw_" : "_fused_adam_";
  if (lists.self.empty()) return;
  dlprim::AdamOptions adjusted = options;
  dlprim::OptimizerInputs inputs{{}, device_scalar(grad_scale, op), device_scalar(found_inf, op)};
  at::Tensor rate;
  if (lr && lr->is_cpu()) adjusted.lr = lr->item<double>();
  else if (lr) inputs.lr = buffer_of(rate = lr->to(at::kFloat));
  Step step(lists.self, op);
  dlprim::adam(current_queue(), sizes_of(lists.self), step.parameters(), step.list(lists.grads),
               step.list(lists.exp_avgs), step.list(lists.exp_avg_sqs),
               step.list(options.amsgrad ? lists.max_exp_avg_sqs : at::TensorList()), Buffers(lists.state_steps, op),
               adjusted, inputs);
  step.write_back();
}

void sgd_step(at::TensorList self, at::TensorList grads, at::TensorList momenta, const at::Tensor* lr,
              const dlprim::SgdOptions& options, const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  const char* op = "_fused_sgd_";
  if (self.empty()) return;
  dlprim::SgdOptions adjusted = options;
  dlprim::OptimizerInputs inputs{{}, device_scalar(grad_scale, op), device_scalar(found_inf, op)};
  at::Tensor rate;
  if (lr && lr->is_cpu()) adjusted.lr = lr->item<double>();
  else if (lr) inputs.lr = buffer_of(rate = lr->to(at::kFloat));
  Step step(self, op);
  dlprim::sgd(current_queue(), sizes_of(self), step.parameters(), step.list(grads), step.list(momenta), adjusted,
              inputs);
  step.write_back();
}

void adagrad_step(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps,
                  const at::Tensor* lr, const dlprim::AdagradOptions& options, const OptionalTensor& grad_scale,
                  const OptionalTensor& found_inf) {
  const char* op = "_fused_adagrad_";
  if (self.empty()) return;
  dlprim::AdagradOptions adjusted = options;
  dlprim::OptimizerInputs inputs{{}, device_scalar(grad_scale, op), device_scalar(found_inf, op)};
  at::Tensor rate;
  if (lr && lr->is_cpu()) adjusted.lr = lr->item<double>();
  else if (lr) inputs.lr = buffer_of(rate = lr->to(at::kFloat));
  Step step(self, op);
  dlprim::adagrad(current_queue(), sizes_of(self), step.parameters(), step.list(grads), step.list(state_sums),
                  Buffers(state_steps, op), adjusted, inputs);
  step.write_back();
}

}  // namespace

#define ADAM(name, suffix, rate_type, rate_value, rate_pointer, decoupled)                                          \
  void name##suffix(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs, \
                    at::TensorList max_exp_avg_sqs, at::TensorList state_steps, rate_type lr, double beta1,         \
                    double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,                     \
                    const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {                            \
    adam_step({self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps}, rate_pointer,                     \
              {rate_value, beta1, beta2, weight_decay, eps, decoupled, amsgrad, maximize}, grad_scale, found_inf);  \
  }
ADAM(_fused_adam_, , double, lr, nullptr, false)
ADAM(_fused_adam__, tensor_lr, const at::Tensor&, 0, &lr, false)
ADAM(_fused_adamw_, , double, lr, nullptr, true)
ADAM(_fused_adamw__, tensor_lr, const at::Tensor&, 0, &lr, true)
#undef ADAM

void _fused_sgd_(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffer_list, double weight_decay,
                 double momentum, double lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
                 const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  sgd_step(self, grads, momentum_buffer_list, nullptr,
           {lr, momentum, dampening, weight_decay, nesterov, maximize, is_first_step}, grad_scale, found_inf);
}

void _fused_sgd__tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffer_list,
                           double weight_decay, double momentum, const at::Tensor& lr, double dampening, bool nesterov,
                           bool maximize, bool is_first_step, const OptionalTensor& grad_scale,
                           const OptionalTensor& found_inf) {
  sgd_step(self, grads, momentum_buffer_list, &lr,
           {0, momentum, dampening, weight_decay, nesterov, maximize, is_first_step}, grad_scale, found_inf);
}

void _fused_adagrad_(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps,
                     double lr, double lr_decay, double weight_decay, double eps, bool maximize,
                     const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  adagrad_step(self, grads, state_sums, state_steps, nullptr, {lr, lr_decay, weight_decay, eps, maximize}, grad_scale,
               found_inf);
}

void _fused_adagrad__tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList state_sums,
                               at::TensorList state_steps, const at::Tensor& lr, double lr_decay, double weight_decay,
                               double eps, bool maximize, const OptionalTensor& grad_scale,
                               const OptionalTensor& found_inf) {
  adagrad_step(self, grads, state_sums, state_steps, &lr, {0, lr_decay, weight_decay, eps, maximize}, grad_scale,
               found_inf);
}

void _amp_foreach_non_finite_check_and_unscale_(at::TensorList self, at::Tensor& found_inf,
                                                const at::Tensor& inv_scale) {
  const char* op = "_amp_foreach_non_finite_check_and_unscale_";
  if (self.empty()) return;
  const std::vector<dlprim::BufferRef> found(self.size(), device_scalar(found_inf, op));
  const std::vector<dlprim::BufferRef> scale(self.size(), device_scalar(inv_scale, op));
  const Buffers gradients(self, op);
  // Every work-item that meets an infinity stores the same 1: the race is harmless.
  const dlprim::ForeachList lists[] = {{gradients.data, gradients.dtype, dlprim::ForeachMode::update},
                                       {scale, dlprim::DataType::float32, dlprim::ForeachMode::broadcast},
                                       {found, dlprim::DataType::float32, dlprim::ForeachMode::broadcast}};
  static const dlprim::ForeachCode code("amp unscale", "if (!isfinite(x0)) *p2 = 1; if (x1 != 1) x0 *= x1;");
  dlprim::foreach(current_queue(), code, gradients.dtype, sizes_of(self), lists);
  gradients.write_back();
}

at::Tensor& _amp_update_scale_(at::Tensor& self, at::Tensor& growth_tracker, const at::Tensor& found_inf,
                               double scale_growth_factor, double scale_backoff_factor, int64_t growth_interval) {
  const char* op = "_amp_update_scale_";
  TORCH_CHECK(growth_tracker.numel() == 1 && growth_tracker.scalar_type() == at::kInt, op,
              ": expected growth_tracker to hold one int32 element");
  const dlprim::BufferRef scale = device_scalar(self, op), tracker = buffer_of(growth_tracker),
                          found = device_scalar(found_inf, op);
  using Buffer = std::span<const dlprim::BufferRef>;
  const dlprim::ForeachList lists[] = {{Buffer(&scale, 1), dlprim::DataType::float32, dlprim::ForeachMode::update},
                                       {Buffer(&tracker, 1), dlprim::DataType::int32, dlprim::ForeachMode::update},
                                       {Buffer(&found, 1), dlprim::DataType::float32, dlprim::ForeachMode::broadcast}};
  const std::int64_t size = 1;
  const double scalars[] = {scale_growth_factor, scale_backoff_factor, double(growth_interval)};
  static const dlprim::ForeachCode code("amp update scale",
                                        "if (x2 != 0) { x0 *= s1; x1 = 0; } else if (x1 + 1 == s2) { "
                                        "if (isfinite(x0 * s0)) x0 *= s0; x1 = 0; } else x1 += 1;");
  dlprim::foreach(current_queue(), code, dlprim::DataType::float32, std::span(&size, 1), lists, scalars);
  return self;
}

}  // namespace pytorch_ocl::ops
