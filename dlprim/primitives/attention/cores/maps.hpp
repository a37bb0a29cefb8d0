// SPDX-License-Identifier: MIT
// How the copy engine of NVIDIA's Hopper sees the heads of attention's tensors.
#pragma once
#include "../../../tuning/store.hpp"
#include "../../tensor_map.hpp"
#include "../problem.hpp"

namespace dlprim::attention_cores {

/// As kernels/attention/wgmma.clh has them. A map holds no address: one serves all heads.
struct Maps {
  TensorMap q, k, v, grad_out;
};

/// Bytes of the cache that heads whose blocks are computed at the same time may fill.
inline std::int64_t bytes_together(const Device& device) {
  static tuning::Numbers<1> mib("attention.wgmma.together");
  return std::int64_t(mib(device)[0]) << 20;
}

/// A head of a tensor, of which `box_rows` by 64 elements are copied at once.
inline MatrixInMemory head_in_memory(const AttentionLayout& x, std::int64_t rows, int width, int box_rows) {
  constexpr std::int64_t bytes = 2, line = 128;
  return {width, rows, rows == 1 ? line : x.row * bytes, int(bytes), box_rows};
}

/// Whether copies can read queries, keys and values, and the gradients where there are any, where they lie.
inline bool can_be_mapped(const AttentionProblem& problem) {
  const auto& p = problem.p;
  return vector_of({{p.q, problem.q, p.width}, {p.k, problem.k, p.width}, {p.v, problem.v, p.value_width}}, 8) == 8 &&
         can_be_mapped(head_in_memory(p.q, p.queries, p.width, 1)) &&
         can_be_mapped(head_in_memory(p.k, p.keys, p.width, 1)) &&
         can_be_mapped(head_in_memory(p.v, p.keys, p.value_width, 1)) &&
         (!problem.backward || (vector_of({{p.grad_out, problem.grad_out, p.value_width}}, 8) == 8 &&
                                can_be_mapped(head_in_memory(p.grad_out, p.queries, p.value_width, 1))));
}

/// How many neighbours of the bias are read at once, aligned to their bytes: 8 of 16 bits, 2 or 1.
inline std::uint8_t bias_vector(const AttentionProblem& x) {
  const auto& p = x.p;
  if (!x.bias_type || x.function || size_of(*x.bias_type) > 2 || p.bias.column != 1) return 1;
  const bool single = size_of(*x.bias_type) == 1 || x.type == DataType::float32;
  const int together = vector_of({{p.bias, x.bias, p.keys}}, single ? 2 : 8);
  return std::uint8_t(together == 4 ? 2 : together);
}

/// Expects a problem that can be mapped. Boxes have `query_rows` or `key_rows`.
inline Maps maps_of(const AttentionProblem& problem, int query_rows, int key_rows) {
  const auto& p = problem.p;
  Maps maps{.q = tensor_map(head_in_memory(p.q, p.queries, p.width, query_rows)),
            .k = tensor_map(head_in_memory(p.k, p.keys, p.width, key_rows)),
            .v = tensor_map(head_in_memory(p.v, p.keys, p.value_width, key_rows)),
            .grad_out = {}};
  if (problem.backward) maps.grad_out = tensor_map(head_in_memory(p.grad_out, p.queries, p.value_width, query_rows));
  return maps;
}

}  // namespace dlprim::attention_cores
