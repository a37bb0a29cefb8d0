// SPDX-License-Identifier: MIT
// Attention as its cores, in cores/, see it.
#pragma once
#include <dlprim/primitives/attention.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>

#include <algorithm>

#include "../select.hpp"

namespace dlprim {

/// Strides of a tensor in elements, as kernels/attention/attention.clh has them.
struct AttentionLayout {
  std::int64_t batch = 0, head = 0;
  std::int32_t row = 0, column = 0;
};

struct AttentionParams {
  AttentionLayout q, k, v, out, grad_out, grad_q, grad_k, grad_v, bias, visible;
  std::uint64_t seed = 0, offset = 0;
  std::int32_t batch = 0, heads = 0, sharing = 1;
  std::int32_t queries = 0, keys = 0, width = 0, value_width = 0;
  float scale = 1, scale_log2 = 1;
  std::uint32_t drop_below = 0;
  float keep_scale = 1;
  float soft_cap = 0;  // times log2(e)
};

struct AttentionProblem {
  DataType type = DataType::float32;
  std::optional<DataType> bias_type;
  bool backward = false, causal = false, dropout = false, ordered = false, soft_cap = false;
  std::optional<AttentionLayout>
      mask_layout;  ///< of the mask that says which scores are not -inf, the bias itself or not
  std::optional<AttentionTiles> tiles;  ///< which say the same
  std::uint32_t function = 0;           ///< the number of one that computes the bias (function.hpp)
  bool bends = false;  ///< it takes the score and returns another
  std::vector<BufferRef> function_reads;
  bool listed = false;  ///< blocks have lists of the slices that they read (visible.hpp)
  /// Asked before it runs: products and softmax, with that many scores in memory, are an alternative.
  std::optional<double> other_scores;
  AttentionParams p;
  BufferRef q, k, v, bias, mask, visible, out, logsumexp, grad_out, grad_q, grad_k, grad_v;

  /// What kernels of this problem have as arguments: the bias or what its function reads, lists.
  std::vector<BufferRef> optional() const {
    std::vector<BufferRef> all = function_reads;
    if (bias_type && !function) all.push_back(bias);
    if (listed) all.push_back(visible);
    return all;
  }
};

/// The kernels of a core: forward; backward by blocks of queries; by blocks of keys.
enum class AttentionPass : std::uint8_t { forward, queries, keys };

using AttentionCore = Core<AttentionProblem>;
using AttentionCores = Cores<AttentionCore>;
const AttentionCores& all_attention_cores();

/// delta[batch, head, query] = dot(grad_out, out) as float32.
Workspace attention_delta(Queue& queue, const AttentionProblem& problem);

/// The width that kernels are compiled for: their rows are zero from `width` on.
inline int padded_width(int width) { return std::max(16, (width + 15) / 16 * 16); }

/// A tensor of 16-bit elements, whose rows are `width` long.
struct AttentionTensor {
  const AttentionLayout& layout;
  BufferRef data;
  int width;
};
/// The largest power of two, at most `most`, that every position in the tensors' rows is a multiple of.
inline int vector_of(std::initializer_list<AttentionTensor> tensors, int most) {
  for (const auto& [x, data, width] : tensors)
    for (; most > 1; most /= 2)
      if ((x.batch | x.head | x.row | width) % most == 0 && data.offset % (2 * std::size_t(most)) == 0) break;
  return most;
}

/// Defines what attention.clh asks for. `bias`: as bias_code has it.
void define_attention(KernelSource& source, int bias, bool causal, bool dropout, bool soft_cap = false,
                      std::uint32_t function = 0);

/// A kernel's variant holds the bias' type in a byte: none or 1 + type, and with_lists where it reads lists.
constexpr std::uint8_t with_lists = 0x80;
inline std::uint8_t bias_code(const AttentionProblem& problem) {
  const int type = problem.bias_type ? 1 + int(*problem.bias_type) : 0;
  return std::uint8_t(type | (problem.listed ? with_lists : 0));
}

/// Runs a kernel of `groups` work-groups; the bias and lists go along only where the kernel has the parameters.
template <class... Arguments>
void launch_attention(Queue& queue, Kernel& kernel, std::int64_t groups, std::size_t group, const AttentionProblem& x,
                      const Arguments&... rest) {
  const std::vector<BufferRef> optional = x.optional();
  launch(queue, kernel, NDRange(std::size_t(groups) * group, group), x.p, x.q, x.k, x.v, std::span(optional), rest...);
}
/// The same of a kernel that has tensor maps besides.
template <class Maps, class... Arguments>
void launch_attention_with(const Maps& maps, Queue& queue, Kernel& kernel, std::int64_t groups, std::size_t group,
                           const AttentionProblem& x, const Arguments&... rest) {
  const std::vector<BufferRef> optional = x.optional();
  launch(queue, kernel, NDRange(std::size_t(groups) * group, group), maps, x.p, x.q, x.k, x.v, std::span(optional),
         rest...);
}

}  // namespace dlprim
