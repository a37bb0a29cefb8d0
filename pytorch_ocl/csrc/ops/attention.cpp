// SPDX-License-Identifier: MIT
// Attention: fused where a kernel takes it, else PyTorch's composites over our products and softmax.
#include <dlprim/primitives/pointwise.hpp>

#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_native_multi_head_attention_native.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_permuted.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention.hpp"
#include "generated/functions/attention.h"
#include "runtime/generator.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

const char* const attention = "scaled_dot_product_attention";

using OptionalTensor = std::optional<at::Tensor>;

bool plain(const at::Tensor& x) {
  return !x.is_nested() && x.dim() == 4 && !x.key_set().has(c10::DispatchKey::FuncTorchBatched) &&
         !x._fw_grad(0).defined();
}

bool same(const c10::SymInt& a, const c10::SymInt& b) { return TORCH_GUARD_OR_FALSE(a.sym_eq(b)); }

// Whether the fused kernels take a call; never touches data, tensors may be fake.
bool fused(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& mask,
           double dropout, bool causal, bool shared_heads) {
  if (!plain(query) || !plain(key) || !plain(value) || dropout >= 1) return false;
  if (query.scalar_type() != key.scalar_type() || query.scalar_type() != value.scalar_type()) return false;
  if (!at::isFloatingType(query.scalar_type())) return false;
  for (int d : {0, 1}) {
    if (!same(key.sym_size(d), value.sym_size(d))) return false;
    if (!(d == 1 && shared_heads) && !same(query.sym_size(d), key.sym_size(d))) return false;
  }
  if (!same(key.sym_size(2), value.sym_size(2)) || !same(query.sym_size(3), key.sym_size(3))) return false;
  if (shared_heads && !TORCH_GUARD_OR_FALSE((query.sym_size(1) % key.sym_size(1)).sym_eq(0))) return false;
  if (mask && (!(at::isFloatingType(mask->scalar_type()) || mask->scalar_type() == at::kBool) || mask->dim() > 4 ||
               (mask->requires_grad() && at::GradMode::is_enabled())))
    return false;
  const auto width = query.sym_size(3).maybe_as_int(), value_width = value.sym_size(3).maybe_as_int();
  if (!width || !value_width) return false;
  dlprim::Device& device = current_queue(query.device()).device();
  const auto size = [](const at::Tensor& x, int d) { return x.sym_size(d).maybe_as_int().value_or(1); };
  dlprim::AttentionSizes sizes{
      .queries = size(query, 2), .keys = size(key, 2), .width = *width, .value_width = *value_width};
  sizes.scores = double(size(query, 0)) * double(size(query, 1)) * double(sizes.queries) * double(sizes.keys);
  // Where products and softmax are not allowed, no kernel is too slow.
  if (!at::globalContext().userEnabledMathSDP()) sizes.scores = std::numeric_limits<double>::infinity();
  sizes.biased = mask.has_value(), sizes.causal = causal;
  sizes.backward =
      at::GradMode::is_enabled() && (query.requires_grad() || key.requires_grad() || value.requires_grad());
  return !dlprim::decline_attention(device, data_type_of(query, attention), sizes);
}

int64_t choose_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const OptionalTensor& mask, double dropout, bool causal, std::optional<double>,
                         bool enable_gqa) {
  const at::Context& context = at::globalContext();
  // The kernels are what CUDA devices call flash, memory-efficient and cuDNN's attention, so those names allow them.
  const bool allowed = context.userEnabledOverrideableSDP() || (context.userEnabledFlashSDP() && !mask) ||
                       context.userEnabledMemEfficientSDP() || context.userEnabledCuDNNSDP();
  if (allowed && fused(query, key, value, mask, dropout, causal, enable_gqa))
    return int64_t(at::SDPBackend::overrideable);
  return int64_t(context.userEnabledMathSDP() ? at::SDPBackend::math : at::SDPBackend::error);
}

// Elements of a row must be neighbours.
at::Tensor rows(const at::Tensor& x) { return x.stride(3) == 1 || x.size(3) <= 1 ? x : x.contiguous(); }

// Without memory yet, its dimensions in memory in the order of `like`, so that views of (batch, length, heads * width)
// give such results.
at::Tensor empty_in_order(const at::Tensor& like, c10::IntArrayRef sizes) {
  std::vector<int64_t> order{0, 1, 2};
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return like.stride(a) > like.stride(b); });
  order.push_back(3);
  return at::empty_permuted(sizes, order, like.options());
}

}  // namespace

dlprim::AttentionInputs AttentionCall::inputs() const {
  const auto all = [&](const OptionalTensor& x) -> std::optional<dlprim::TensorView> {
    if (!x || !x->defined()) return {};
    return view_of(x->expand({q.size(0), q.size(1), q.size(2), k.size(2)}), attention);
  };
  return {view_of(q, attention), view_of(k, attention), view_of(v, attention), all(bias), all(mask), function, tiles};
}

dlprim::AttentionOptions AttentionCall::options(dlprim::PhiloxState random) const {
  return {scale.value_or(1 / std::sqrt(double(q.size(3)))), causal, dropout, random,
          at::globalContext().deterministicAlgorithms()};
}

AttentionCall attention_call(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4, attention, ": expected 4 dims, got ",
              query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  AttentionCall call;
  call.q = rows(query), call.k = rows(key), call.v = rows(value);
  return call;
}

std::tuple<at::Tensor, at::Tensor> attention_forward(const AttentionCall& call, dlprim::PhiloxState random) {
  const at::Tensor& q = call.q;
  const at::Tensor out = empty_in_order(q, {q.size(0), q.size(1), q.size(2), call.v.size(3)});
  const auto sums = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor logsumexp = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(sums));
  dlprim::attention_forward(current_queue(q.device()), call.inputs(), view_of(out, attention),
                            view_of(logsumexp, attention), call.options(random));
  return {out, logsumexp};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                                                  const at::Tensor& out, const at::Tensor& logsumexp,
                                                                  dlprim::PhiloxState random) {
  const at::Tensor &q = call.q, &k = call.k, &v = call.v;
  const at::Tensor g = rows(grad_out), grad_q = empty_in_order(q, q.sizes()), grad_k = empty_in_order(k, k.sizes()),
                   grad_v = empty_in_order(v, v.sizes());
  dlprim::attention_backward(current_queue(q.device()), call.inputs(), view_of(g, attention), view_of(out, attention),
                             view_of(logsumexp, attention), view_of(grad_q, attention), view_of(grad_k, attention),
                             view_of(grad_v, attention), call.options(random));
  return {grad_q, grad_k, grad_v};
}

namespace {

// Whether kernels take a bool mask as it is.
bool is_mask_of(const at::Tensor& mask, const at::Tensor& query, const at::Tensor& key) {
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) return false;
  if (mask.scalar_type() != at::kBool || mask.is_nested() || mask.device() != query.device()) return false;
  if (query.dim() != 4 || key.dim() != 4 || mask.dim() > 4) return false;
  const c10::SymInt sizes[] = {query.sym_size(0), query.sym_size(1), query.sym_size(2), key.sym_size(2)};
  for (int64_t d = 1; d <= mask.dim(); d++)
    if (!same(mask.sym_size(-d), 1) && !same(mask.sym_size(-d), sizes[4 - d])) return false;
  return true;
}

// PyTorch's masks of multi-head attention (true: left out) as a bias.
OptionalTensor bias_of(const OptionalTensor& mask, std::optional<int64_t> type, const at::Tensor& query) {
  if (!mask || !mask->defined()) return {};
  const at::Tensor left_out = mask->to(at::kBool);
  const at::Tensor bias =
      at::zeros_like(left_out, query.options()).masked_fill_(left_out, -std::numeric_limits<double>::infinity());
  return bias.dim() == 2 && type == 1 ? bias.unsqueeze(1).unsqueeze(1) : bias;
}

}  // namespace

namespace ops {

int64_t _fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const std::optional<at::Tensor>& attn_mask, double dropout_p, bool is_causal,
                          std::optional<double> scale, bool enable_gqa) {
  return choose_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
}

// PyTorch's composite makes numbers of bool masks, which says no longer what kernels may pass over.
at::Tensor scaled_dot_product_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        const OptionalTensor& attn_mask, double dropout_p, bool is_causal,
                                        std::optional<double> scale, bool enable_gqa) {
  if (attn_mask && !is_causal && is_mask_of(*attn_mask, query, key) &&
      choose_attention(query, key, value, attn_mask, dropout_p, false, scale, enable_gqa) ==
          int64_t(at::SDPBackend::overrideable))
    return std::get<0>(at::_scaled_dot_product_fused_attention_overrideable(query, key, value, attn_mask, dropout_p,
                                                                            false, false, scale));
  return at::native::scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale,
                                                  enable_gqa);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
_scaled_dot_product_fused_attention_overrideable(const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const OptionalTensor& attn_bias,
                                                 double dropout_p, bool is_causal, bool, std::optional<double> scale) {
  AttentionCall call = attention_call(query, key, value);
  call.bias = attn_bias, call.dropout = dropout_p, call.causal = is_causal, call.scale = scale;
  const PhiloxState random =
      dropout_p > 0 ? reserve_philox(default_generator(query.device().index()), 1) : PhiloxState{};
  const auto [out, logsumexp] = attention_forward(call, {random.seed, random.offset});
  const auto host = at::device(at::kCPU).dtype(at::kLong);
  return {out,
          logsumexp,
          {},
          {},
          query.size(2),
          key.size(2),
          at::scalar_tensor(int64_t(random.seed), host),
          at::scalar_tensor(int64_t(random.offset), host),
          {}};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_fused_attention_overrideable_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& attn_bias, std::array<bool, 4> grad_input_mask, const at::Tensor& out,
    const at::Tensor& logsumexp, const at::Tensor&, const at::Tensor&, int64_t, int64_t, double dropout_p,
    bool is_causal, const at::Tensor& philox_seed, const at::Tensor& philox_offset, std::optional<double> scale) {
  TORCH_CHECK(!(grad_input_mask[3] && attn_bias.defined()), attention,
              ": expected a mask that needs no gradient (the math backend has one), got one that does");
  if (!grad_out.defined()) return {};
  AttentionCall call = attention_call(query, key, value);
  call.bias = attn_bias, call.dropout = dropout_p, call.causal = is_causal, call.scale = scale;
  PhiloxState random;
  if (dropout_p > 0)
    random = philox_again(query.device(),
                          {std::uint64_t(philox_seed.item<int64_t>()), std::uint64_t(philox_offset.item<int64_t>())});
  const auto [grad_q, grad_k, grad_v] =
      attention_backward(call, grad_out, out, logsumexp, {random.seed, random.offset});
  return {grad_q, grad_k, grad_v, {}};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
_scaled_dot_product_cudnn_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                    const OptionalTensor& attn_bias, bool, double dropout_p, bool is_causal,
                                    bool return_debug_mask, std::optional<double> scale) {
  return ops::_scaled_dot_product_fused_attention_overrideable(query, key, value, attn_bias, dropout_p, is_causal,
                                                               return_debug_mask, scale);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_cudnn_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& philox_seed, const at::Tensor& philox_offset,
    const at::Tensor& attn_bias, const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k, int64_t max_q, int64_t max_k,
    double dropout_p, bool is_causal, std::optional<double> scale) {
  const auto [q, k, v, bias] = ops::_scaled_dot_product_fused_attention_overrideable_backward(
      grad_out, query, key, value, attn_bias, {true, true, true, false}, out, logsumexp, cum_seq_q, cum_seq_k, max_q,
      max_k, dropout_p, is_causal, philox_seed, philox_offset, scale);
  return {q, k, v};
}

// Self-attention without the weights is scaled_dot_product_attention's, the rest goes through the CPU's host code, which
// calls operators of the tensors' device only.
std::tuple<at::Tensor, at::Tensor> _native_multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t embed_dim, int64_t num_head,
    const at::Tensor& qkv_weight, const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
    const at::Tensor& proj_bias, const OptionalTensor& mask, bool need_weights, bool average_attn_weights,
    std::optional<int64_t> mask_type) {
  const int64_t width = num_head > 0 && embed_dim % num_head == 0 ? embed_dim / num_head : 0;
  if (!need_weights && query.is_same(key) && key.is_same(value) && query.dim() == 3 && query.size(2) == embed_dim &&
      width > 0 && qkv_weight.sizes() == c10::IntArrayRef{3 * embed_dim, embed_dim}) {
    const at::Tensor parts =
        at::linear(query, qkv_weight, qkv_bias).unflatten(2, {3, num_head, width}).permute({2, 0, 3, 1, 4});
    const OptionalTensor bias = bias_of(mask, mask_type, query);
    const at::Tensor out = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], bias);
    return {at::linear(out.transpose(1, 2).flatten(2), proj_weight, proj_bias), at::Tensor()};
  }
  return at::native::native_multi_head_attention_cpu(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias,
                                                     proj_weight, proj_bias, mask, need_weights, average_attn_weights,
                                                     mask_type);
}

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
    dlprim::pointwise_operation(current_queue(qkv.device()),
                                {view_of(in[0], op), view_of(bias[0], op), view_of(in[1], op), view_of(bias[1], op),
                                 view_of(in[2], op), view_of(bias[2], op)},
                                {view_of(all[0], op), view_of(all[1], op), view_of(all[2], op)},
                                {dlprim::Scalar(1 / std::sqrt(double(width)))},
                                "y0 = (x0 + x1) * w0; y1 = x2 + x3; y2 = x4 + x5;");
  return {all[0], all[1], all[2]};
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("scaled_dot_product_attention", scaled_dot_product_attention);
}

}  // namespace ops

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &pytorch_ocl::choose_attention)
}
