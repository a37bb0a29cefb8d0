// SPDX-License-Identifier: MIT
// A call of dlprim's attention kernels.
#pragma once
#include <ATen/core/Tensor.h>
#include <dlprim/primitives/attention.hpp>

#include <optional>
#include <tuple>

namespace pytorch_ocl {

/// Query, key and value of 4 dims, and what is added to the scores: a bias that is expanded to them, or a function. A mask
/// says where a floating bias is not -inf.
struct AttentionCall {
  at::Tensor q, k, v;
  std::optional<at::Tensor> bias, mask;
  std::optional<dlprim::AttentionFunction> function;
  std::optional<dlprim::AttentionTiles> tiles;
  double dropout = 0;
  bool causal = false;
  std::optional<double> scale;

  dlprim::AttentionInputs inputs() const;
  dlprim::AttentionOptions options(dlprim::PhiloxState random) const;
};

/// Raises RuntimeError for other than 4 dims; copies what has no neighbours in its rows.
AttentionCall attention_call(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

/// The result and the logarithms of sums.
std::tuple<at::Tensor, at::Tensor> attention_forward(const AttentionCall& call, dlprim::PhiloxState random);

/// Gradients of query, key and value.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                                                  const at::Tensor& out, const at::Tensor& logsumexp,
                                                                  dlprim::PhiloxState random);

}  // namespace pytorch_ocl
