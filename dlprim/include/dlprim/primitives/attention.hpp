// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/random.hpp>
#include <dlprim/runtime/queue.hpp>

#include <optional>
#include <string>
#include <vector>

namespace dlprim {

struct AttentionOptions {
  double scale = 1;  ///< of the scores; usually 1 / sqrt(width)
  bool causal = false;  ///< query i takes keys 0 .. i only
  double dropout = 0;  ///< probability of dropping a probability; the others grow by 1 / (1 - dropout)
  PhiloxState random;  ///< for dropout; the same state gives the same choice forward and backward, on any device
  bool ordered = false;  ///< sums of gradients are formed in one order, so that they never vary from call to call
  double soft_cap = 0;  ///< c: scores s become c tanh(s / c) before the bias is added, forward only; 0: they stay
};

/// A bias that kernels compute as they go, in place of one in memory. The text, OpenCL C in one line, is the body of a
/// function that returns it as a float, -INFINITY where a key takes no part, from the numbers of the `batch`, `head`,
/// `query` and `key` (int) and from contiguous tensors: elements of the first are bias.x0[i], as they are stored. One that
/// bends returns what takes the place of the score, from the `score` (float) as well; `slope` is then the body of its
/// derivative by the score, which only gradients need.
struct AttentionFunction {
  std::string text;
  std::vector<TensorView> tensors;
  bool masks = false;  ///< it returns nothing but 0 and -INFINITY
  bool bends = false;
  std::string slope;
};

/// Which tiles of scores have keys that take part: bytes (batch or 1, heads or 1, rows, columns), contiguous, of `queries` x
/// `keys` scores each: 0 none, 1 some, 2 all.
struct AttentionTiles {
  TensorView states;
  std::int32_t queries = 0, keys = 0;
};

/// What attention reads. q (batch, heads, queries, width), k (batch, key heads, keys, width), v (batch, key heads,
/// keys, value width), of one dtype among float32, float16 and bfloat16, each with any strides but the last, which
/// must be 1; the number of heads is a multiple of that of key heads, and neighbours share one. The bias, a floating
/// dtype or bool (true: the key takes part), is added to the scores: (batch, heads, queries, keys), any strides, 0 too.
/// The mask, bool, of the bias' sizes, says where a floating bias is not -inf: kernels pass over large parts without a key.
/// In place of these there may be a function, and tiles that say the same.
struct AttentionInputs {
  TensorView q, k, v;
  std::optional<TensorView> bias = {}, mask = {};
  std::optional<AttentionFunction> function = {};
  std::optional<AttentionTiles> tiles = {};
};

/// What is known of a call of attention before it is made. `scores`: elements of all matrices of scores; `biased`: whether
/// there is a bias; `backward`: whether gradients follow; `soft_capped`: whether scores are.
struct AttentionSizes {
  std::int64_t queries = 0, keys = 0, width = 0, value_width = 0;
  double scores = 0;
  bool biased = false, causal = false, backward = false, soft_capped = false;
};
/// Why products and softmax as separate operations serve better, or null: no kernel here takes the dtype or the widths,
/// or the matrices of scores fit in memory and the other way is faster on the device.
const char* decline_attention(const Device& device, DataType type, const AttentionSizes& sizes);

/// out = softmax(scale * q k^T + bias) v, the products capped where options say so, the matrix of scores never in memory
/// (T. Dao, "FlashAttention-2", 2023).
/// out (batch, heads, queries, value width) is strided as the inputs may be; logsumexp (batch, heads, queries),
/// contiguous float32, is for the backward pass: infinite for queries that no key takes part
/// in, whose out is 0. Throws ValidationError, NotImplementedError for widths above 256 (backward too).
void attention_forward(Queue& queue, const AttentionInputs& inputs, const TensorView& out, const TensorView& logsumexp,
                       const AttentionOptions& options);

/// grad_q, grad_k and grad_v, of the sizes of q, k and v, from grad_out and the results of attention_forward with the
/// same options. All strided as the inputs may be.
void attention_backward(Queue& queue, const AttentionInputs& inputs, const TensorView& grad_out, const TensorView& out,
                        const TensorView& logsumexp, const TensorView& grad_q, const TensorView& grad_k,
                        const TensorView& grad_v, const AttentionOptions& options);

}  // namespace dlprim
