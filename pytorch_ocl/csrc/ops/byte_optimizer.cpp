// SPDX-License-Identifier: MIT
// Optimizers whose states are bytes: what adapters of libraries call as torch.ops.pytorch_ocl.step_of_bytes.
#include <c10/core/DeviceGuard.h>
#include <dlprim/primitives/byte_optimizer.hpp>
#include <torch/library.h>

#include "runtime/errors.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

constexpr const char* op = "step_of_bytes";

dlprim::ByteOptimizer optimizer_of(c10::string_view name) {
  constexpr const char* names[] = {"adam", "ademamix", "momentum", "rmsprop", "lion", "adagrad"};
  for (std::size_t i = 0; i < std::size(names); i++)
    if (name == names[i]) return dlprim::ByteOptimizer(i);
  TORCH_CHECK_VALUE(false, op, ": expected adam, ademamix, momentum, rmsprop, lion or adagrad, got ", name);
}

void step_of_bytes(c10::string_view optimizer, at::Tensor& parameter, const at::Tensor& gradient, at::TensorList bytes,
                   at::TensorList scales, at::TensorList tables, int64_t block, int64_t step, double lr, double beta1,
                   double beta2, double beta3, double alpha, double eps, double weight_decay, double gradient_scale) {
  TORCH_CHECK(bytes.size() == scales.size() && bytes.size() == tables.size(), op,
              ": expected as many scales and tables as states, got ", bytes.size(), ", ", scales.size(), " and ",
              tables.size());
  const auto here = [&](const at::Tensor& x) {
    TORCH_CHECK(x.device() == parameter.device(), op, ": expected all tensors to be on the same device, got ",
                parameter.device(), " and ", x.device());
  };
  here(gradient);
  for (const at::TensorList list : {bytes, scales, tables})
    for (const at::Tensor& x : list) here(x);
  const c10::DeviceGuard guard(parameter.device());
  make_own(parameter), make_own(bytes), make_own(scales);
  const at::Tensor values = parameter.contiguous(), factors = gradient.contiguous();
  translated([&] {
    std::vector<dlprim::ByteState> states;
    for (std::size_t i = 0; i < bytes.size(); i++)
      states.push_back({view_of(bytes[i], op), view_of(scales[i], op), view_of(tables[i], op)});
    dlprim::ByteOptimizerStep factor;
    factor.lr = lr, factor.beta1 = beta1, factor.beta2 = beta2, factor.beta3 = beta3, factor.alpha = alpha;
    factor.eps = eps, factor.weight_decay = weight_decay, factor.gradient_scale = gradient_scale, factor.number = step;
    dlprim::step_of_bytes(current_queue(), optimizer_of(optimizer), view_of(values, op), view_of(factors, op), states,
                          block, factor);
  });
  if (!values.is_same(parameter)) parameter.copy_(values);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def(
      "step_of_bytes(str optimizer, Tensor(a!) parameter, Tensor gradient, Tensor(b!)[] bytes, Tensor(c!)[] scales, "
      "Tensor[] tables, int block, int step, float lr, float beta1, float beta2, float beta3, float alpha, float eps, "
      "float weight_decay, float gradient_scale) -> ()");
}

TORCH_LIBRARY_IMPL(pytorch_ocl, PrivateUse1, m) { m.impl("step_of_bytes", &step_of_bytes); }

}  // namespace pytorch_ocl
