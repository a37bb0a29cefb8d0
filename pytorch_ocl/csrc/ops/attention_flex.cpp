// SPDX-License-Identifier: MIT
// FlexAttention by the attention kernels (pytorch_ocl/inductor/flex_fused.py): what score_mod and mask_mod come to is
// computed in them, or a bias in memory.
#include <torch/library.h>

#include <algorithm>

#include "attention.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

const char* const op = "flex_attention";

AttentionCall biased(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
                     const Tensor& mask, double scale) {
  AttentionCall call = attention_call(query, key, value);
  call.bias = bias, call.mask = mask, call.scale = scale;
  return call;
}

std::tuple<Tensor, Tensor> with_bias(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
                                     const Tensor& mask, double scale) {
  return attention_forward(biased(query, key, value, bias, mask, scale), {});
}

std::tuple<Tensor, Tensor, Tensor> with_bias_backward(const Tensor& grad_out, const Tensor& query, const Tensor& key,
                                                      const Tensor& value, const Tensor& bias, const Tensor& mask,
                                                      const Tensor& out, const Tensor& logsumexp, double scale) {
  return attention_backward(biased(query, key, value, bias, mask, scale), grad_out, out, logsumexp, {});
}

// Kinds of functions besides 0, which add something: those that mask only, those that return another score.
constexpr int64_t masks = 1, bends = 2;

// What `text` reads lives as long as the call.
struct Computed {
  Computed(const Tensor& query, const Tensor& key, const Tensor& value, at::TensorList captured,
           const std::string& text, const std::string& slope, int64_t kind, const OptionalTensor& tiles,
           int64_t tile_queries, int64_t tile_keys, double scale)
      : call(attention_call(query, key, value)) {
    call.function.emplace();
    call.function->text = text, call.function->slope = slope, call.scale = scale;
    call.function->masks = kind == masks, call.function->bends = kind == bends;
    for (const Tensor& tensor : captured) {
      TORCH_CHECK(tensor.numel() > 0, op, ": expected captured tensors with elements, got ", tensor.sizes());
      read.push_back(tensor.contiguous());
      call.function->tensors.push_back(view_of(read.back(), op));
    }
    if (!tiles) return;
    read.push_back(tiles->contiguous());
    call.tiles =
        dlprim::AttentionTiles{view_of(read.back(), op), std::int32_t(std::min<int64_t>(tile_queries, 1 << 30)),
                               std::int32_t(std::min<int64_t>(tile_keys, 1 << 30))};
  }
  AttentionCall call;
  std::vector<Tensor> read;
};

std::tuple<Tensor, Tensor> computed(const Tensor& query, const Tensor& key, const Tensor& value,
                                    at::TensorList captured, std::string text, std::string slope, int64_t kind,
                                    const OptionalTensor& tiles, int64_t tile_queries, int64_t tile_keys,
                                    double scale) {
  const Computed made(query, key, value, captured, text, slope, kind, tiles, tile_queries, tile_keys, scale);
  return attention_forward(made.call, {});
}

std::tuple<Tensor, Tensor, Tensor> computed_backward(const Tensor& grad_out, const Tensor& query, const Tensor& key,
                                                     const Tensor& value, at::TensorList captured, std::string text,
                                                     std::string slope, int64_t kind, const OptionalTensor& tiles,
                                                     int64_t tile_queries, int64_t tile_keys, const Tensor& out,
                                                     const Tensor& logsumexp, double scale) {
  const Computed made(query, key, value, captured, text, slope, kind, tiles, tile_queries, tile_keys, scale);
  return attention_backward(made.call, grad_out, out, logsumexp, {});
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(pytorch_ocl, m) {
  m.def("attention(Tensor query, Tensor key, Tensor value, Tensor bias, Tensor mask, float scale) -> (Tensor, Tensor)");
  m.def(
      "attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor bias, Tensor mask, Tensor out, "
      "Tensor logsumexp, float scale) -> (Tensor, Tensor, Tensor)");
  m.def("flex_attention(Tensor query, Tensor key, Tensor value, Tensor[] captured, str text, str slope, int kind, "
        "Tensor? tiles, int tile_queries, int tile_keys, float scale) -> (Tensor, Tensor)");
  m.def(
      "flex_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor[] captured, str text, "
      "str slope, int kind, Tensor? tiles, int tile_queries, int tile_keys, Tensor out, Tensor logsumexp, float scale) "
      "-> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(pytorch_ocl, PrivateUse1, m) {
  m.impl("attention", &with_bias);
  m.impl("attention_backward", &with_bias_backward);
  m.impl("flex_attention", &computed);
  m.impl("flex_attention_backward", &computed_backward);
}

}  // namespace pytorch_ocl
