// SPDX-License-Identifier: MIT
// Attention: PyTorch's composites over our products and softmax.
#include <dlprim/primitives/pointwise.hpp>

#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/empty.h>

#include <cmath>

#include "generated/functions/attention.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

// Products and softmax as separate operators take every argument of scaled_dot_product_attention; there is no fused
// kernel. Also asked about tensors without data.
int64_t choose_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                         double, bool, std::optional<double>, bool) {
  const bool allowed = at::globalContext().userEnabledMathSDP();
  return int64_t(allowed ? at::SDPBackend::math : at::SDPBackend::error);
}

}  // namespace

namespace ops {

int64_t _fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const std::optional<at::Tensor>& attn_mask, double dropout_p, bool is_causal,
                          std::optional<double> scale, bool enable_gqa) {
  return choose_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
}

// nn.TransformerEncoder asks this before it turns a padded batch into a nested tensor, which this device does not have.
bool _nested_tensor_from_mask_left_aligned(const at::Tensor&, const at::Tensor&) { return false; }

// (batch, length, 3 * width) -> three of (batch, heads, length, width / heads) with the bias added, queries divided by
// the root of their width.
std::tuple<at::Tensor, at::Tensor, at::Tensor> _transform_bias_rescale_qkv(const at::Tensor& qkv,
                                                                           const at::Tensor& qkv_bias,
                                                                           int64_t num_heads) {
  const char* op = "_transform_bias_rescale_qkv";
  TORCH_CHECK(qkv.dim() == 3 && qkv_bias.dim() == 1 && qkv.size(2) == qkv_bias.size(0), op,
              ": expected (batch, length, 3 * width) and a bias of 3 * width, got ", qkv.sizes(), " and ",
              qkv_bias.sizes());
  TORCH_CHECK(num_heads > 0 && qkv.size(2) % (3 * num_heads) == 0, op, ": expected 3 * ", num_heads,
              " heads of equal width, got ", qkv.size(2), " columns");
  const int64_t batch = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / (3 * num_heads);
  const at::Tensor all = at::empty({3, batch, num_heads, length, width}, qkv.options());
  const at::Tensor in = qkv.unflatten(2, {3, num_heads, width}).permute({2, 0, 3, 1, 4});
  const at::Tensor bias = qkv_bias.view({3, 1, num_heads, 1, width});
  if (all.numel() > 0)
    dlprim::pointwise_operation(
        current_queue(qkv.device()),
        {view_of(in[0], op), view_of(bias[0], op), view_of(in[1], op), view_of(bias[1], op), view_of(in[2], op),
         view_of(bias[2], op)},
        {view_of(all[0], op), view_of(all[1], op), view_of(all[2], op)},
        {dlprim::Scalar(1 / std::sqrt(double(width)))}, "y0 = (x0 + x1) * w0; y1 = x2 + x3; y2 = x4 + x5;");
  return {all[0], all[1], all[2]};
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &pytorch_ocl::choose_attention)
}
