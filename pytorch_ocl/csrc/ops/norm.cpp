// SPDX-License-Identifier: MIT
// Batch normalization.
#include "ops/norm.hpp"

#include <ATen/OpMathType.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <dlprim/primitives/norm.hpp>

#include "generated/functions/norm.h"

namespace pytorch_ocl {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

constexpr const char* op = "batch_norm";

struct Parameters {
  Tensor weight, bias, running_mean, running_var;
};

// The layout kernels take: contiguous or channels last.
Tensor dense(const Tensor& x) { return x.contiguous(x.suggest_memory_format()); }

Tensor dense_like(const Tensor& x, const Tensor& other) { return other.contiguous(x.suggest_memory_format()); }

void check(const Tensor& input, const Parameters& p) {
  TORCH_CHECK(input.dim() >= 2, "batch_norm: expected input of at least 2 dims, got ", input.dim());
  const std::pair<const char*, const Tensor&> named[] = {
      {"weight", p.weight}, {"bias", p.bias}, {"running_mean", p.running_mean}, {"running_var", p.running_var}};
  for (const auto& [name, tensor] : named)
    TORCH_CHECK(!tensor.defined() || (tensor.dim() == 1 && tensor.numel() == input.size(1)), "batch_norm: expected ",
                name, " of ", input.size(1), " elements, got ", tensor.defined() ? tensor.sizes() : at::IntArrayRef());
}

void apply(const Tensor& out, const Tensor& input, const Tensor& mean, const Tensor& inverse_std, bool variance,
           double eps, const Tensor& weight, const Tensor& bias) {
  const at::ScalarType type = weight.defined() ? weight.scalar_type()
                              : bias.defined() ? bias.scalar_type()
                                               : at::kFloat;
  const Tensor x = dense(input);
  const Tensor y = out.is_contiguous(x.suggest_memory_format()) ? out : at::empty_like(x, out.options());
  const Tensor w = parameter(weight, type), b = parameter(bias, type);
  dlprim::batch_norm_apply(current_queue(), view_of(y, op), view_of(x, op),
                           {view_of(mean, op), view_of(inverse_std, op), variance, eps}, optional_view(w, op),
                           optional_view(b, op));
  if (!y.is_same(out)) out.copy_(y);
}

void statistics(const Tensor& x, const Tensor& mean, const Tensor& invstd, double eps, const Parameters& p,
                double momentum) {
  dlprim::RunningStatistics running;
  Tensor running_mean = p.running_mean, running_var = p.running_var;
  const bool both = running_mean.defined() && running_var.defined();
  TORCH_CHECK(both || !(running_mean.defined() || running_var.defined()),
              "batch_norm: expected running_mean and running_var together, got one of them");
  make_own(running_mean), make_own(running_var);  // which not every schema says
  if (both) running = {view_of(running_mean, op), view_of(running_var, op), momentum};
  dlprim::batch_norm_statistics(current_queue(), view_of(x, op), view_of(mean, op), view_of(invstd, op), eps, running);
}

void forward(const Tensor& input, const Parameters& p, bool training, double momentum, double eps, const Tensor& out,
             const Tensor& save_mean, const Tensor& save_invstd) {
  check(input, p);
  if (!training) {
    TORCH_CHECK(p.running_mean.defined() && p.running_var.defined(),
                "batch_norm: expected running_mean and running_var to be defined in evaluation mode");
    if (input.numel() == 0) return;
    const Tensor mean = p.running_mean.contiguous(), var = p.running_var.to(mean.scalar_type()).contiguous();
    return apply(out, input, mean, var, true, eps, p.weight, p.bias);
  }
  if (input.numel() == 0) return;
  const Tensor x = dense(input);
  // Statistics of 16 bits, or with gaps between them, are what is saved; the forward pass keeps its own.
  const auto kept = [](const Tensor& saved) {
    const bool wide = saved.scalar_type() == at::kFloat || saved.scalar_type() == at::kDouble;
    return wide && saved.is_contiguous()
               ? saved
               : at::empty(saved.sizes(), saved.options().dtype(wide ? saved.scalar_type() : at::kFloat));
  };
  const Tensor mean = kept(save_mean), invstd = kept(save_invstd);
  statistics(x, mean, invstd, eps, p, momentum);
  apply(out, x, mean, invstd, false, eps, p.weight, p.bias);
  if (!mean.is_same(save_mean)) save_mean.copy_(mean);
  if (!invstd.is_same(save_invstd)) save_invstd.copy_(invstd);
}

Three forward(const Tensor& input, const Parameters& p, bool training, double momentum, double eps) {
  check(input, p);
  const Tensor out = at::empty_like(input, input.suggest_memory_format());
  const int64_t saved = training ? input.size(1) : 0;
  const auto options = input.options().dtype(at::toOpMathType(input.scalar_type()));
  const Tensor mean = at::empty({saved}, options), invstd = at::empty({saved}, options);
  forward(input, p, training, momentum, eps, out, mean, invstd);
  return {out, mean, invstd};
}

std::tuple<Tensor&, Tensor&, Tensor&> forward_out(const Tensor& input, const Parameters& p, bool training,
                                                  double momentum, double eps, Tensor& out, Tensor& save_mean,
                                                  Tensor& save_invstd) {
  check(input, p);
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), "batch_norm: expected out of the input's dtype ",
              input.scalar_type(), ", got ", out.scalar_type());
  for (const Tensor& saved : {save_mean, save_invstd})
    TORCH_CHECK(at::isFloatingType(saved.scalar_type()), "batch_norm: expected statistics of a floating dtype, got ",
                saved.scalar_type());
  at::native::resize_output(out, input.sizes());
  const int64_t saved = training ? input.size(1) : 0;
  at::native::resize_output(save_mean, {saved});
  at::native::resize_output(save_invstd, {saved});
  forward(input, p, training, momentum, eps, out, save_mean, save_invstd);
  return {out, save_mean, save_invstd};
}

Three backward(const Tensor& grad_out, const Tensor& input, const Parameters& p, const Tensor& save_mean,
               const Tensor& save_invstd, bool train, double eps, std::array<bool, 3> mask) {
  check(input, p);
  const at::ScalarType sums = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor x = dense(input), gy = dense_like(x, grad_out);
  Tensor gx = mask[0] ? at::empty_like(x) : Tensor();
  const at::ScalarType type = statistics_type(input, p.weight);
  if (input.numel() == 0) {
    const Tensor none = at::full({input.size(1)}, 0, input.options().dtype(type));
    return {gx, mask[1] ? none : Tensor(), mask[2] ? none.clone() : Tensor()};
  }
  Tensor mean, invstd;
  if (train) {
    mean = save_mean.contiguous(), invstd = save_invstd.contiguous();
  } else {
    mean = p.running_mean.contiguous(), invstd = p.running_var.to(mean.scalar_type()).add(eps).rsqrt_();
  }
  const dlprim::ChannelStatistics s{view_of(mean, op), view_of(invstd, op)};
  Tensor sum, dot;
  if (train || mask[1] || mask[2]) {
    sum = at::empty({input.size(1)}, input.options().dtype(sums)), dot = at::empty_like(sum);
    dlprim::batch_norm_sums(current_queue(), view_of(sum, op), view_of(dot, op), view_of(gy, op), view_of(x, op), s);
  }
  if (mask[0]) {
    const Tensor w = parameter(p.weight, type);
    const dlprim::TensorView none;
    dlprim::batch_norm_backward(current_queue(), view_of(gx, op), view_of(gy, op), view_of(x, op), s,
                                optional_view(w, op), train ? view_of(sum, op) : none, train ? view_of(dot, op) : none,
                                double(input.numel() / input.size(1)));
  }
  return {gx, mask[1] ? dot.to(type) : Tensor(), mask[2] ? sum.to(type) : Tensor()};
}

}  // namespace

namespace ops {

Three native_batch_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                        const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                        double momentum, double eps) {
  return forward(input, {value(weight), value(bias), value(running_mean), value(running_var)}, training, momentum, eps);
}

std::tuple<Tensor&, Tensor&, Tensor&> native_batch_norm_out(const Tensor& input, const OptionalTensor& weight,
                                                            const OptionalTensor& bias,
                                                            const OptionalTensor& running_mean,
                                                            const OptionalTensor& running_var, bool training,
                                                            double momentum, double eps, Tensor& out, Tensor& save_mean,
                                                            Tensor& save_invstd) {
  return forward_out(input, {value(weight), value(bias), value(running_mean), value(running_var)}, training, momentum,
                     eps, out, save_mean, save_invstd);
}

Three _native_batch_norm_legit(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                               Tensor& running_mean, Tensor& running_var, bool training, double momentum, double eps) {
  return forward(input, {value(weight), value(bias), running_mean, running_var}, training, momentum, eps);
}

std::tuple<Tensor&, Tensor&, Tensor&> _native_batch_norm_legit_out(const Tensor& input, const OptionalTensor& weight,
                                                                   const OptionalTensor& bias, Tensor& running_mean,
                                                                   Tensor& running_var, bool training, double momentum,
                                                                   double eps, Tensor& out, Tensor& save_mean,
                                                                   Tensor& save_invstd) {
  return forward_out(input, {value(weight), value(bias), running_mean, running_var}, training, momentum, eps, out,
                     save_mean, save_invstd);
}

Three _native_batch_norm_legit_no_stats(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                        bool training, double momentum, double eps) {
  return forward(input, {value(weight), value(bias), {}, {}}, training, momentum, eps);
}

std::tuple<Tensor&, Tensor&, Tensor&> _native_batch_norm_legit_no_stats_out(const Tensor& input,
                                                                            const OptionalTensor& weight,
                                                                            const OptionalTensor& bias, bool training,
                                                                            double momentum, double eps, Tensor& out,
                                                                            Tensor& save_mean, Tensor& save_invstd) {
  return forward_out(input, {value(weight), value(bias), {}, {}}, training, momentum, eps, out, save_mean, save_invstd);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> _batch_norm_with_update(const Tensor& input, const OptionalTensor& weight,
                                                                   const OptionalTensor& bias, Tensor& running_mean,
                                                                   Tensor& running_var, double momentum, double eps) {
  auto [out, mean, invstd] =
      forward(input, {value(weight), value(bias), running_mean, running_var}, true, momentum, eps);
  return {out, mean, invstd, at::empty({0}, input.options().dtype(at::kByte))};
}

std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> _batch_norm_with_update_out(
    const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, Tensor& running_mean,
    Tensor& running_var, double momentum, double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd,
    Tensor& reserve) {
  forward_out(input, {value(weight), value(bias), running_mean, running_var}, true, momentum, eps, out, save_mean,
              save_invstd);
  return {out, save_mean, save_invstd, reserve};
}

Three native_batch_norm_backward(const Tensor& grad_out, const Tensor& input, const OptionalTensor& weight,
                                 const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                 const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool train,
                                 double eps, std::array<bool, 3> output_mask) {
  return backward(grad_out, input, {value(weight), {}, value(running_mean), value(running_var)}, value(save_mean),
                  value(save_invstd), train, eps, output_mask);
}

Three batch_norm_backward(const Tensor& grad_out, const Tensor& input, const Tensor& weight,
                          const OptionalTensor& running_mean, const OptionalTensor& running_var,
                          const OptionalTensor& save_mean, const OptionalTensor& save_var, bool update, double eps,
                          std::array<bool, 3> output_mask, const Tensor&) {
  return backward(grad_out, input, {weight, {}, value(running_mean), value(running_var)}, value(save_mean),
                  value(save_var), update, eps, output_mask);
}

std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double eps) {
  check(input, {});
  const auto options = input.options().dtype(input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const Tensor mean = at::empty({input.size(1)}, options), invstd = at::empty_like(mean);
  statistics(input, mean, invstd, eps, {}, 0);
  return {mean, invstd};
}

// Mean and variance (biased), which the running ones have followed.
std::tuple<Tensor, Tensor> batch_norm_update_stats(const Tensor& input, const OptionalTensor& running_mean,
                                                   const OptionalTensor& running_var, double momentum) {
  TORCH_CHECK(input.numel() > 0, "input tensor must have at least one element, but got input_sizes = ", input.sizes());
  const Parameters running = {{}, {}, value(running_mean), value(running_var)};
  check(input, running);
  const auto options = input.options().dtype(input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const Tensor mean = at::empty({input.size(1)}, options), invstd = at::empty_like(mean);
  statistics(input, mean, invstd, 0, running, momentum);
  return {mean, invstd.pow(-2)};
}

std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(const Tensor& input, const Tensor& mean,
                                                               const Tensor& invstd, const OptionalTensor& running_mean,
                                                               const OptionalTensor& running_var, double momentum,
                                                               double eps, const Tensor& counts) {
  const Tensor merged = at::empty({mean.size(1)}, mean.options()), merged_invstd = at::empty_like(merged);
  const Tensor rm = value(running_mean), rv = value(running_var);
  dlprim::RunningStatistics running;
  if (rm.defined() && rv.defined()) running = {view_of(rm, op), view_of(rv, op), momentum};
  (void)input;
  dlprim::batch_norm_gather(current_queue(), view_of(mean, op), view_of(invstd, op), view_of(counts, op),
                            view_of(merged, op), view_of(merged_invstd, op), eps, running);
  return {merged, merged_invstd};
}

std::tuple<Tensor, Tensor> batch_norm_gather_stats(const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                                   const OptionalTensor& running_mean,
                                                   const OptionalTensor& running_var, double momentum, double eps,
                                                   int64_t count) {
  const Tensor counts = at::full({mean.size(0)}, count, mean.options());
  return batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

Tensor& batch_norm_elemt_out(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                             const Tensor& mean, const Tensor& invstd, double eps, Tensor& out) {
  check(input, {value(weight), value(bias), mean, invstd});
  at::native::resize_output(out, input.sizes());
  if (input.numel() > 0)
    apply(out, input, mean.contiguous(), invstd.contiguous(), false, eps, value(weight), value(bias));
  return out;
}

Tensor batch_norm_elemt(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                        const Tensor& mean, const Tensor& invstd, double eps) {
  Tensor out = at::empty_like(input, input.suggest_memory_format());
  return batch_norm_elemt_out(input, weight, bias, mean, invstd, eps, out);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(const Tensor& grad_out, const Tensor& input,
                                                                      const Tensor& mean, const Tensor& invstd,
                                                                      const OptionalTensor& weight, bool input_g,
                                                                      bool weight_g, bool bias_g) {
  check(input, {value(weight), {}, mean, invstd});
  const Tensor sum = at::empty_like(mean), dot = at::empty_like(mean);
  dlprim::batch_norm_sums(current_queue(), view_of(sum, op), view_of(dot, op), view_of(grad_out, op),
                          view_of(input, op), {view_of(mean, op), view_of(invstd, op)});
  const at::ScalarType type = statistics_type(input, value(weight));
  return {input_g ? sum : Tensor(), input_g ? dot.div(invstd) : Tensor(), weight_g ? dot.to(type) : Tensor(),
          bias_g ? sum.to(type, false, true) : Tensor()};
}

Tensor batch_norm_backward_elemt(const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                 const OptionalTensor& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                                 const Tensor& count) {
  check(input, {value(weight), {}, mean, invstd});
  const Tensor x = dense(input), gy = dense_like(x, grad_out), gx = at::empty_like(x);
  const Tensor total = count.sum().to(sum_dy.scalar_type());  // stays on the device: the sums become means here
  const Tensor sum = sum_dy.div(total), dot = sum_dy_xmu.mul(invstd).div_(total);
  const Tensor w = parameter(value(weight), statistics_type(input, value(weight)));
  dlprim::batch_norm_backward(current_queue(), view_of(gx, op), view_of(gy, op), view_of(x, op),
                              {view_of(mean, op), view_of(invstd, op)}, optional_view(w, op), view_of(sum, op),
                              view_of(dot, op), 1);
  return gx;
}

}  // namespace ops

}  // namespace pytorch_ocl
