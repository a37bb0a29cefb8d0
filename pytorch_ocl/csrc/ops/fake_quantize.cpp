// SPDX-License-Identifier: MIT
// Fake quantization: kernels of the stubs behind PyTorch's own host code, and the fused observer.
#include <ATen/native/quantized/FakeQuantAffine.h>
#include <ATen/ops/_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/fake_quantize_per_channel_affine_cachemask.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <dlprim/primitives/pointwise.hpp>

#include "generated/functions/fake_quantize.h"
#include "ops/iterator.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

using dlprim::TensorView;
using Scalars = std::initializer_list<dlprim::Scalar>;
constexpr const char* op = "fake_quantize";

// All compute in float32 (float64 for that), as the quotients of the CPU and of CUDA.
dlprim::DataType compute_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? dlprim::DataType::float64 : dlprim::DataType::float32;
}

void compute(at::ArrayRef<at::Tensor> outputs, at::ArrayRef<at::Tensor> inputs, Scalars scalars,
             const char* statements) {
  std::vector<TensorView> out, in;
  for (const at::Tensor& tensor : outputs) out.push_back(view_of(tensor, op));
  for (const at::Tensor& tensor : inputs) in.push_back(view_of(tensor, op));
  if (outputs[0].numel() == 0) return;
  dlprim::pointwise_operation(current_queue(outputs[0].device()), in, out,
                              std::span<const dlprim::Scalar>(scalars.begin(), scalars.size()), statements,
                              compute_type(inputs[0]));
}

// Over an iterator's operands, which have one shape.
void compute(at::TensorIterator& it, Scalars scalars, const char* statements) {
  if (it.numel() == 0) return;
  std::vector<TensorView> views;
  for (int i = 0; i < it.ntensors(); i++) views.push_back(operand_view(it, i, op));
  const auto outputs = std::size_t(it.noutputs());
  dlprim::pointwise_operation(
      current_queue(it.device(0)), std::span(views).subspan(outputs), std::span(views).first(outputs),
      std::span<const dlprim::Scalar>(scalars.begin(), scalars.size()), statements, compute_type(it.input(0)));
}

void per_tensor(at::Tensor& output, at::Tensor& mask, const at::Tensor& input, float scale, int64_t zero_point,
                int64_t quant_min, int64_t quant_max) {
  compute({output, mask}, {input}, {scale, 1.0f / scale, zero_point, quant_min, quant_max},
          "const T q = rint(x0 * w1) + w2; y0 = (fmin(fmax(q, w3), w4) - w2) * w0; y1 = q >= w3 && q <= w4;");
}

void per_tensor_by_tensors(at::Tensor& output, at::Tensor& mask, const at::Tensor& input, const at::Tensor& scale,
                           const at::Tensor& zero_point, const at::Tensor& enabled, int64_t quant_min,
                           int64_t quant_max) {
  compute({output, mask}, {input, scale, zero_point, enabled}, {quant_min, quant_max},
          "const T q = rint(x0 * (1 / x1)) + x2;"
          "y0 = x3 != 0 ? (fmin(fmax(q, w0), w1) - x2) * x1 : x0; y1 = x3 == 0 || (q >= w0 && q <= w1);");
}

void per_channel(at::TensorIterator& it, at::TensorIterator& it_mask, int64_t quant_min, int64_t quant_max) {
  // Zero points that are no integers are added before rounding.
#define PLACE(q)                                                               \
  (at::isFloatingType(it.dtype(3)) ? "const T q = rint(x0 * (1 / x1) + x2);" q \
                                   : "const T q = rint(x0 * (1 / x1)) + x2;" q)
  compute(it, {quant_min, quant_max}, PLACE("y0 = (fmin(fmax(q, w0), w1) - x2) * x1;"));
  compute(it_mask, {quant_min, quant_max}, PLACE("y0 = q >= w0 && q <= w1;"));
#undef PLACE
}

// dx, dscale, dzero_point from x0 = x, x1 = dy, `scale`, its inverse and `zero`.
#define LEARNABLE(scale, inverse, zero, least, most, factor)                                    \
  "const T q = rint(x0 * (" inverse ")) + " zero ", kept = fmin(fmax(q, " least "), " most ");" \
  "const T fake = (kept - " zero ") * " scale ";"                                               \
  "y0 = q == kept ? x1 : 0;"                                                                    \
  "y1 = (q == kept ? x1 * (fake - x0) * (" inverse ") : x1 * (kept - " zero ")) * " factor ";"  \
  "y2 = q == kept ? 0 : -x1 * " scale " * " factor ";"

void learnable_grad(at::TensorIterator& it, float scale, float inverse, int64_t zero_point, int64_t quant_min,
                    int64_t quant_max, float factor) {
  compute(it, {scale, inverse, zero_point, quant_min, quant_max, factor},
          LEARNABLE("w0", "w1", "w2", "w3", "w4", "w5"));
}

void learnable_channel_grad(at::TensorIterator& it, int64_t quant_min, int64_t quant_max, float factor) {
  compute(it, {quant_min, quant_max, factor}, LEARNABLE("x2", "1 / x2", "x3", "w0", "w1", "w2"));
}

// What an observer sees becomes ranges, and these scales and zero points: y0, y1 = running minimum and maximum,
// y2 = scale, y3 = zero point from x0, x1 = minimum and maximum at hand, x2, x3 the running ones, x4, x5 scale and zero
// point so far, x6, x7 whether observer and fake quantization are on; w0 the share of what is new, w1, w2 quant_min and quant_max, w3 symmetric.
constexpr const char* observe =
    "y0 = x6 == 0 ? x2 : isinf(x2) ? x0 : x2 + w0 * (x0 - x2);"
    "y1 = x6 == 0 ? x3 : isinf(x3) ? x1 : x3 + w0 * (x1 - x3);"
    "T low = fmin(y0, (T)0), high = fmax(y1, (T)0);"
    "if (w3 != 0) {"
    "  const T half_way = floor((w2 - w1) / 2);"
    "  const T widest = fmax(fabs(low / -(half_way + 1)), fabs(high / half_way));"
    "  low = widest * -(half_way + 1); high = widest * half_way;"
    "}"
    "T scale = (high - low) / (w2 - w1);"
    "if (scale == 0 || isinf(1 / scale)) scale = (T)0.1f;"
    "const T off_low = fabs(w1) + fabs(low / scale), off_high = fabs(w2) + fabs(high / scale);"
    "T zero = off_low < off_high ? w1 - low / scale : w2 - high / scale;"
    "if (low < 0 && high > 0 && w3 != 0) zero = (w1 + w2) / 2;"
    "y2 = x7 == 0 ? x4 : scale;"
    "y3 = x7 == 0 ? x5 : fmin(fmax(rint(zero), w1), w2);";

}  // namespace

std::tuple<at::Tensor, at::Tensor> ops::_fused_moving_avg_obs_fq_helper(
    const at::Tensor& self, const at::Tensor& observer_on, const at::Tensor& fake_quant_on, at::Tensor& running_min,
    at::Tensor& running_max, at::Tensor& scale, at::Tensor& zero_point, double averaging_const, int64_t quant_min,
    int64_t quant_max, int64_t ch_axis, bool per_row_fake_quant, bool symmetric_quant) {
  TORCH_CHECK(ch_axis < self.dim(), "Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < self.dim()");
  TORCH_CHECK(self.scalar_type() != at::kDouble, "_fused_moving_avg_obs_fq_helper: not implemented for 'Double'");
  at::Tensor least, most;
  if (per_row_fake_quant) {
    TORCH_CHECK(ch_axis == 0,
                "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0");
    const int64_t channels = self.size(ch_axis);
    std::tie(least, most) = at::aminmax(self.reshape({channels, -1}), 1);
    if (running_min.numel() == 0) {
      running_min.resize_({channels}).fill_(std::numeric_limits<float>::infinity());
      running_max.resize_({channels}).fill_(-std::numeric_limits<float>::infinity());
      scale.resize_({channels}).fill_(1);
      zero_point.resize_({channels}).fill_(0);
    }
  } else {
    std::tie(least, most) = at::aminmax(self);
  }
  const std::vector<int64_t> sizes{running_min.numel()};
  const auto each = [&](const at::Tensor& tensor) { return tensor.view(sizes); };
  const auto seen = [&](const at::Tensor& tensor) { return tensor.to(at::kFloat).reshape({-1}).expand(sizes); };
  compute({each(running_min), each(running_max), each(scale), each(zero_point)},
          {seen(least), seen(most), each(running_min), each(running_max), each(scale), each(zero_point), observer_on,
           fake_quant_on},
          {averaging_const, quant_min, quant_max, int64_t(symmetric_quant)}, observe);
  if (!per_row_fake_quant)
    return at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(self, scale, zero_point, fake_quant_on,
                                                                         quant_min, quant_max);
  if (fake_quant_on.item().toInt() == 0) return {self.clone(), at::ones_like(self, at::kBool)};
  return at::fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, ch_axis, quant_min, quant_max);
}

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(fake_quant_tensor_cachemask_stub, &pytorch_ocl::per_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(fake_quant_tensor_cachemask_tensor_qparams_stub, &pytorch_ocl::per_tensor_by_tensors)
REGISTER_PRIVATEUSE1_DISPATCH(fake_quant_grad_learnable_tensor_stub, &pytorch_ocl::learnable_grad)
REGISTER_PRIVATEUSE1_DISPATCH(fake_quant_per_channel_cachemask_stub, &pytorch_ocl::per_channel)
REGISTER_PRIVATEUSE1_DISPATCH(fake_quant_grad_learnable_channel_stub, &pytorch_ocl::learnable_channel_grad)
}  // namespace at::native
