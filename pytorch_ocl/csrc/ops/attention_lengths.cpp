// SPDX-License-Identifier: MIT
// PyTorch's flash and memory-efficient attention by their own names. Their tensors are (batch, length, heads, width),
// or, of sequences of unequal lengths, (rows of all, heads, width) with the position where each begins; keys may lie in
// pages. Sequences are padded to the longest, and what does not take part is masked, all of it on the device.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_jagged_to_padded_dense_forward.h>
#include <ATen/ops/_padded_dense_to_jagged_forward.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <torch/version.h>

#include <cmath>
#include <limits>

#include "generated/functions/attention.h"

namespace pytorch_ocl {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using OptionalSize = std::optional<int64_t>;

constexpr double infinity = std::numeric_limits<double>::infinity();

bool given(const OptionalTensor& x) { return x && x->defined(); }

at::Tensor count(int64_t size, const at::Tensor& like) { return at::arange(size, like.options().dtype(at::kLong)); }

// Sequences that lie one behind the other: the first row of each and the end of the last, (sequences + 1); the longest.
struct Sequences {
  at::Tensor begins;
  int64_t longest;

  at::Tensor lengths() const { return begins.slice(0, 1) - begins.slice(0, 0, -1); }

  // (rows, heads, width) -> (sequences, heads, longest, width), with 0 past the end of a sequence.
  at::Tensor pad(const at::Tensor& x) const {
    return at::_jagged_to_padded_dense_forward(x, {begins}, {longest}).transpose(1, 2);
  }

  // The other way; 0 in rows that no sequence has.
  at::Tensor pack(const at::Tensor& x, int64_t rows) const {
    return at::_padded_dense_to_jagged_forward(x.transpose(1, 2), {begins}, rows);
  }
};

// Which keys a query takes, counted so that the last query stands at the last key.
struct Window {
  OptionalSize before, after;  // none: all
  bool from_start = false;  // the first query stands at the first key instead

  bool whole() const { return !before && !after; }
};

Window window_of(bool causal, OptionalSize left, OptionalSize right) {
  const auto limit = [](OptionalSize size) { return size && *size >= 0 ? size : OptionalSize(); };
  return {limit(left), causal ? OptionalSize(0) : limit(right)};
}

// A call of the fused kernels: (batch, heads, length, width), and a bool or floating bias.
struct Call {
  at::Tensor q, k, v;
  OptionalTensor bias;
  bool causal = false;
  std::optional<Sequences> queries, keys;

  at::Tensor pad(const at::Tensor& x) const { return queries ? queries->pad(x) : x.transpose(1, 2); }
  at::Tensor unpad(const at::Tensor& x, int64_t rows) const {
    return queries ? queries->pack(x, rows) : x.transpose(1, 2);
  }
  at::Tensor unpad_keys(const at::Tensor& x, int64_t rows) const {
    return keys ? keys->pack(x, rows) : x.transpose(1, 2);
  }
};

void check(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool packed, bool paged) {
  const int64_t dims = packed ? 3 : 4, key_dims = paged ? 4 : dims;
  TORCH_CHECK(q.dim() == dims && k.dim() == key_dims && v.dim() == key_dims, op, ": expected query, key and value of ",
              dims, ", ", key_dims, " and ", key_dims, " dims, got ", q.sizes(), ", ", k.sizes(), " and ", v.sizes());
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(), op,
              ": expected query, key and value of one dtype, got ", q.scalar_type(), ", ", k.scalar_type(), " and ",
              v.scalar_type());
  TORCH_CHECK(q.size(-1) == k.size(-1), op, ": expected keys as wide as queries, got ", k.size(-1), " and ",
              q.size(-1));
  TORCH_CHECK(k.sizes().slice(0, key_dims - 1) == v.sizes().slice(0, key_dims - 1), op,
              ": expected as many values as keys, got ", v.sizes(), " and ", k.sizes());
  TORCH_CHECK(k.size(-2) > 0 && q.size(-2) % k.size(-2) == 0, op,
              ": expected a number of query heads that key heads divide, got ", q.size(-2), " and ", k.size(-2));
  TORCH_CHECK(packed || q.size(0) == k.size(0), op, ": expected as many key as query sequences, got ", k.size(0),
              " and ", q.size(0));
}

Sequences sequences(const char* op, const at::Tensor& begins, int64_t longest) {
  TORCH_CHECK(begins.dim() == 1 && begins.numel() > 0 && at::isIntegralType(begins.scalar_type(), false), op,
              ": expected the starts of sequences as a vector of integers, got ", begins.scalar_type(), " ",
              begins.sizes());
  TORCH_CHECK(longest >= 0, op, ": expected the longest sequence's length, got ", longest);
  return {begins.to(at::kLong), longest};
}

// Keys in pages of (pages, rows, heads, width), named for each sequence, as (sequences, heads, longest, width).
at::Tensor gather_pages(const at::Tensor& pool, const at::Tensor& table, int64_t longest) {
  const at::Tensor pages = table.to(at::kLong).clamp(0, pool.size(0) - 1);
  return pool.index_select(0, pages.flatten())
      .view({table.size(0), table.size(1) * pool.size(1), pool.size(2), pool.size(3)})
      .slice(1, 0, longest)
      .transpose(1, 2);
}

// True where a key takes part, of (batch or 1, 1, queries or 1, keys), or none: all do.
OptionalTensor mask_of(const Call& call, const OptionalTensor& keys_used, const Window& window) {
  const auto cube = [](const at::Tensor& x) { return x.view({-1, 1, 1, 1}); };
  const bool unequal = given(keys_used) || call.keys;
  if (!unequal && window.whole()) return {};
  const at::Tensor key = count(call.k.size(2), call.q);
  const at::Tensor lengths = given(keys_used) ? cube(keys_used->to(at::kLong))
                             : call.keys      ? cube(call.keys->lengths())
                                              : at::full({1, 1, 1, 1}, call.k.size(2), key.options());
  at::Tensor mask = key < lengths;
  if (window.whole()) return mask;
  at::Tensor query = count(call.q.size(2), call.q).unsqueeze(1);
  if (!window.from_start) {
    query = query + lengths;
    query = call.queries ? query - cube(call.queries->lengths()) : query - call.q.size(2);
  }
  if (window.after) mask = mask.logical_and(key <= query + *window.after);
  if (window.before) mask = mask.logical_and(key >= query - *window.before);
  return mask;
}

// Has the kernels mask what they can by themselves: later keys, from the first one on.
void add_mask(Call& call, const OptionalTensor& keys_used, const Window& window) {
  call.causal = !call.bias && !given(keys_used) && !call.keys && window.after == 0 && !window.before &&
                (window.from_start || call.q.size(2) == call.k.size(2));
  if (call.causal) return;
  if (const OptionalTensor mask = mask_of(call, keys_used, window))
    call.bias = call.bias ? call.bias->masked_fill(mask->logical_not(), -infinity) : *mask;
}

struct Result {
  at::Tensor out, logsumexp, seed, offset;
};

Result forward(const Call& call, double dropout, std::optional<double> scale) {
  const auto all = at::_scaled_dot_product_fused_attention_overrideable(call.q, call.k, call.v, call.bias, dropout,
                                                                        call.causal, false, scale);
  return {std::get<0>(all), std::get<1>(all), std::get<6>(all), std::get<7>(all)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const Call& call, const at::Tensor& grad, const at::Tensor& out,
                                                        const at::Tensor& logsumexp, double dropout,
                                                        const at::Tensor& seed, const at::Tensor& offset,
                                                        std::optional<double> scale) {
  const auto all = at::_scaled_dot_product_fused_attention_overrideable_backward(
      grad, call.q, call.k, call.v, call.bias.value_or(at::Tensor()), {true, true, true, false}, out, logsumexp, {}, {},
      call.q.size(2), call.k.size(2), dropout, call.causal, seed, offset, scale);
  return {std::get<0>(all), std::get<1>(all), std::get<2>(all)};
}

// logsumexp of (batch, heads, length) to (heads, rows) of sequences side by side, and the other way.
at::Tensor pack_sums(const Call& call, const at::Tensor& sums, int64_t rows) {
  return call.queries ? call.queries->pack(sums.unsqueeze(3), rows).squeeze(2).t().contiguous() : sums;
}

at::Tensor pad_sums(const Call& call, const at::Tensor& sums) {
  return call.queries ? call.queries->pad(sums.t().unsqueeze(2)).squeeze(3).contiguous() : sums;
}

Call flash_call(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                const OptionalTensor& begins_q, const OptionalTensor& begins_k, int64_t max_q, int64_t max_k,
                const Window& window, const OptionalTensor& keys_used = {}, const OptionalTensor& slopes = {},
                const OptionalTensor& pages = {}) {
  TORCH_CHECK(!given(pages) || (given(keys_used) && max_k >= 0), op, ": block_table requires seqused_k and max_k");
  TORCH_CHECK(given(pages) || given(begins_q) == given(begins_k), op,
              ": expected both of cum_seq_q and cum_seq_k, or none");
  check(op, query, key, value, given(begins_q), given(pages));
  Call call;
  if (given(begins_q)) call.queries = sequences(op, *begins_q, max_q);
  if (given(begins_k) && !given(pages)) call.keys = sequences(op, *begins_k, max_k);
  call.q = call.pad(query);
  const auto keys = [&](const at::Tensor& x) {
    return given(pages) ? gather_pages(x, *pages, max_k) : call.keys ? call.keys->pad(x) : x.transpose(1, 2);
  };
  call.k = keys(key), call.v = keys(value);
  if (given(slopes)) {  // minus the slope of a head times the distance to the key of the query
    const at::Tensor distance =
        count(call.q.size(2), query).unsqueeze(1) - count(call.k.size(2), query) + (call.k.size(2) - call.q.size(2));
    call.bias = distance.abs().to(at::kFloat) * slopes->neg().view({-1, query.size(-2), 1, 1});
  }
  add_mask(call, keys_used, window);
  return call;
}

void check_slopes(const char* op, const OptionalTensor& slopes, const OptionalTensor& begins) {
  TORCH_CHECK_NOT_IMPLEMENTED(!given(slopes) || !given(begins), op,
                              ": alibi_slopes of sequences of unequal lengths are not implemented");
}

at::Tensor random_state(const Result& result) { return at::stack({result.seed, result.offset}).view(at::kUInt64); }

// Of memory-efficient attention; its masks: 0 none, 1 causal from the first key, 2 from the last.
Call efficient_call(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const OptionalTensor& bias, const OptionalTensor& begins_q, const OptionalTensor& begins_k,
                    OptionalSize max_q, OptionalSize max_k, int64_t mask, const OptionalTensor& keys_used,
                    OptionalSize width) {
  TORCH_CHECK(mask >= 0 && mask <= 2, op, ": expected a custom_mask_type of 0, 1 or 2, got ", mask);
  TORCH_CHECK(given(begins_q) == given(begins_k), op, ": expected both of cu_seqlens_q and cu_seqlens_k, or none");
  TORCH_CHECK(!given(begins_q) || (max_q && max_k), op, ": cu_seqlens require max_seqlen_q and max_seqlen_k");
  TORCH_CHECK(!given(begins_q) || !given(bias), op, ": cu_seqlens with a bias are not supported");
  TORCH_CHECK(!given(bias) || bias->scalar_type() == query.scalar_type(), op, ": expected a bias of dtype ",
              query.scalar_type());
  TORCH_CHECK(!given(begins_q) || query.size(0) == 1, op, ": cu_seqlens require a batch of 1, got ", query.size(0));
  TORCH_CHECK(!width || *width <= 0 || mask, op, ": window_size requires a causal mask");
  Window window;
  if (mask) window = {width && *width > 0 ? OptionalSize(*width - 1) : OptionalSize(), 0, mask == 1};
  check(op, query, key, value, false, false);
  Call call;
  if (given(begins_q)) {
    call.queries = sequences(op, *begins_q, *max_q), call.keys = sequences(op, *begins_k, *max_k);
    call.q = call.queries->pad(query[0]), call.k = call.keys->pad(key[0]), call.v = call.keys->pad(value[0]);
  } else {
    call.q = query.transpose(1, 2), call.k = key.transpose(1, 2), call.v = value.transpose(1, 2);
  }
  if (given(bias)) call.bias = bias->expand({call.q.size(0), call.q.size(1), call.q.size(2), call.k.size(2)});
  add_mask(call, keys_used, window);
  return call;
}

// The scores' gradient, which is the bias's: P (dO v^T - sum of dO out).
at::Tensor bias_gradient(const Call& call, const at::Tensor& grad, const at::Tensor& out, const at::Tensor& logsumexp,
                         std::optional<double> scale) {
  at::Tensor scores =
      at::matmul(call.q, call.k.transpose(2, 3)).to(at::kFloat) * scale.value_or(1 / std::sqrt(double(call.q.size(3))));
  scores += *call.bias;
  const at::Tensor chances = at::exp(scores - logsumexp.unsqueeze(3));
  const at::Tensor outer = at::matmul(grad, call.v.transpose(2, 3)).to(at::kFloat);
  return (chances * (outer - (grad * out).to(at::kFloat).sum(3, true))).to(call.q.scalar_type());
}

}  // namespace

namespace ops {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 12
#define PAGES
#define PAGES_GIVEN OptionalTensor()
#else
#define PAGES , const OptionalTensor &block_table, OptionalSize
#define PAGES_GIVEN block_table
#endif

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> _flash_attention_forward(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& cum_seq_q,
    const OptionalTensor& cum_seq_k, int64_t max_q, int64_t max_k, double dropout_p, bool is_causal, bool,
    std::optional<double> scale, OptionalSize left, OptionalSize right, const OptionalTensor& seqused_k,
    const OptionalTensor& alibi_slopes PAGES) {
  const char* op = "_flash_attention_forward";
  check_slopes(op, alibi_slopes, cum_seq_q);
  const Call call = flash_call(op, query, key, value, cum_seq_q, cum_seq_k, max_q, max_k,
                               window_of(is_causal, left, right), seqused_k, alibi_slopes, PAGES_GIVEN);
  const Result result = forward(call, dropout_p, scale);
  return {call.unpad(result.out, query.size(0)), pack_sums(call, result.logsumexp, query.size(0)), random_state(result),
          at::empty({}, query.options().dtype(at::kUInt64)), at::empty({0}, query.options())};
}

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12
at::Tensor _flash_attention_forward_no_dropout_inplace(at::Tensor& out, const at::Tensor& query, const at::Tensor& key,
                                                       const at::Tensor& value, const OptionalTensor& cum_seq_q,
                                                       const OptionalTensor& cum_seq_k, int64_t max_q, int64_t max_k,
                                                       double, bool is_causal, bool, std::optional<double> scale,
                                                       OptionalSize left, OptionalSize right,
                                                       const OptionalTensor& seqused_k,
                                                       const OptionalTensor& alibi_slopes,
                                                       const OptionalTensor& block_table, OptionalSize splits) {
  const auto all =
      ops::_flash_attention_forward(query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, 0, is_causal, false, scale,
                                    left, right, seqused_k, alibi_slopes, block_table, splits);
  out.copy_(std::get<0>(all));
  return std::get<1>(all);
}
#endif

std::tuple<at::Tensor, at::Tensor, at::Tensor> _flash_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k,
    int64_t max_q, int64_t max_k, double dropout_p, bool is_causal, const at::Tensor& rng_state, const at::Tensor&,
    std::optional<double> scale, OptionalSize left, OptionalSize right) {
  const Call call = flash_call("_flash_attention_backward", query, key, value, cum_seq_q, cum_seq_k, max_q, max_k,
                               window_of(is_causal, left, right));
  at::Tensor state = dropout_p > 0 ? rng_state.view(at::kLong) : at::Tensor();
  const auto [q, k, v] = backward(call, call.pad(grad_out), call.pad(out), pad_sums(call, logsumexp), dropout_p,
                                  dropout_p > 0 ? state[0] : state, dropout_p > 0 ? state[1] : state, scale);
  return {call.unpad(q, query.size(0)), call.unpad_keys(k, key.size(0)), call.unpad_keys(v, value.size(0))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt> _efficient_attention_forward(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& bias,
    const OptionalTensor& cu_seqlens_q, const OptionalTensor& cu_seqlens_k, OptionalSize max_seqlen_q,
    OptionalSize max_seqlen_k, double dropout_p, int64_t custom_mask_type, bool compute_log_sumexp,
    std::optional<double> scale, const OptionalTensor& seqlen_k, OptionalSize window_size) {
  const Call call = efficient_call("_efficient_attention_forward", query, key, value, bias, cu_seqlens_q, cu_seqlens_k,
                                   max_seqlen_q, max_seqlen_k, custom_mask_type, seqlen_k, window_size);
  const Result result = forward(call, dropout_p, scale);
  const at::Tensor out =
      call.queries ? call.queries->pack(result.out, query.size(1)).unsqueeze(0) : result.out.transpose(1, 2);
  // Rows of sums lie 32 apart, as on CUDA devices.
  const at::Tensor& sums = result.logsumexp;
  const int64_t rows = compute_log_sumexp ? (sums.size(2) + 31) / 32 * 32 : 0;
  at::Tensor padded = at::full({sums.size(0), sums.size(1), rows}, infinity, sums.options());
  if (compute_log_sumexp) padded.slice(2, 0, sums.size(2)).copy_(sums);
  return {out, padded, result.seed, result.offset, call.q.size(2), call.k.size(2)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _efficient_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const OptionalTensor& bias, const at::Tensor& out, const OptionalTensor& cu_seqlens_q,
    const OptionalTensor& cu_seqlens_k, int64_t max_seqlen_q, int64_t max_seqlen_k, const at::Tensor& logsumexp,
    double dropout_p, const at::Tensor& philox_seed, const at::Tensor& philox_offset, int64_t custom_mask_type,
    bool bias_requires_grad, std::optional<double> scale, OptionalSize, OptionalSize window_size, bool) {
  const char* op = "_efficient_attention_backward";
  const Call call = efficient_call(op, query, key, value, bias, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                                   custom_mask_type, {}, window_size);
  TORCH_CHECK_NOT_IMPLEMENTED(!bias_requires_grad || dropout_p == 0, op,
                              ": a bias's gradient with dropout is not implemented");
  const bool packed = call.queries.has_value();
  const at::Tensor grad = call.pad(packed ? grad_out[0] : grad_out), result = call.pad(packed ? out[0] : out);
  const at::Tensor sums = logsumexp.slice(2, 0, call.q.size(2)).contiguous();
  const auto [q, k, v] = backward(call, grad, result, sums, dropout_p, philox_seed, philox_offset, scale);
  at::Tensor bias_grad;
  if (bias_requires_grad && given(bias))
    bias_grad = bias_gradient(call, grad, result, sums, scale).sum_to_size(bias->sizes());
  if (!packed) return {q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), bias_grad};
  return {call.queries->pack(q, query.size(1)).unsqueeze(0), call.keys->pack(k, key.size(1)).unsqueeze(0),
          call.keys->pack(v, value.size(1)).unsqueeze(0), bias_grad};
}

// The same of (batch, heads, length, width), which scaled_dot_product_attention takes.

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
_scaled_dot_product_flash_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                    double dropout_p, bool is_causal, bool, std::optional<double> scale) {
  const int64_t queries = query.size(2), keys = key.size(2);
  const auto [out, sums, state, unused, debug] =
      at::_flash_attention_forward(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), {}, {}, queries,
                                   keys, dropout_p, is_causal, false, scale);
  return {out.transpose(1, 2), sums, {}, {}, queries, keys, state, unused, debug};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_flash_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor&, const at::Tensor&, int64_t max_q,
    int64_t max_k, double dropout_p, bool is_causal, const at::Tensor& philox_seed, const at::Tensor& philox_offset,
    std::optional<double> scale) {
  if (!grad_out.defined()) return {};
  const auto [q, k, v] = ops::_flash_attention_backward(
      grad_out.transpose(1, 2), query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), out.transpose(1, 2),
      logsumexp, {}, {}, max_q, max_k, dropout_p, is_causal, philox_seed, philox_offset, scale, {}, {});
  return {q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_efficient_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& attn_bias,
    bool compute_log_sumexp, double dropout_p, bool is_causal, std::optional<double> scale) {
  const auto all =
      ops::_efficient_attention_forward(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), attn_bias,
                                        {}, {}, {}, {}, dropout_p, is_causal, compute_log_sumexp, scale, {}, {});
  return {std::get<0>(all).transpose(1, 2), std::get<1>(all), std::get<2>(all), std::get<3>(all)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_efficient_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& attn_bias, const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& philox_seed,
    const at::Tensor& philox_offset, double dropout_p, std::array<bool, 4> grad_input_mask, bool is_causal,
    std::optional<double> scale) {
  if (!grad_out.defined()) return {};
  const auto [q, k, v, bias] = ops::_efficient_attention_backward(
      grad_out.transpose(1, 2), query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), attn_bias,
      out.transpose(1, 2), {}, {}, query.size(2), key.size(2), logsumexp, dropout_p, philox_seed, philox_offset,
      is_causal, grad_input_mask[3], scale, {}, {}, false);
  return {q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), bias};
}

}  // namespace ops

}  // namespace pytorch_ocl
