// SPDX-License-Identifier: MIT
// What a language model is made of, as the metadata of its file say.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "gguf.hpp"

namespace dlprim {

/// What files call the tensors; those of layers behind `layer` and the layer's number. ".weight" or ".bias" follows.
struct TensorNames {
  const char *embeddings, *output_norm, *output, *layer;
  const char *attention_norm, *inner_norm, *queries, *keys, *values, *query_norm, *key_norm, *attention_out;
  const char *gate, *up, *inner_out;
  const char *post_attention_norm = nullptr, *post_inner_norm = nullptr;  // of architectures that have these
  const char *router = nullptr, *expert_gates = nullptr, *expert_ups = nullptr,
             *expert_outs = nullptr;  // * is an expert's number
};

/// What models of one name have in common, and nothing in their files says.
struct Architecture {
  const char* name;
  bool head_norms, gelu, scaled_embeddings, post_norms;
};
/// Throws NotImplementedError for names that are not supported.
const Architecture& architecture_of(const std::string& name);

/// How frequencies of the rotation are found.
struct Rotation {
  double base = 10000, scale = 1;
  std::vector<double> factors;  ///< that frequencies are divided by; none: 1
};

/// A decoder of blocks of attention and gated products, each behind a root-mean-square norm.
struct LanguageShape {
  std::string architecture;
  std::int64_t layers = 0, width = 0, heads = 0, key_heads = 0, head_width = 0, inner = 0;
  std::int64_t experts = 0, experts_used = 0;  ///< of each layer, and of a token; none: one gated product for all
  std::int64_t context = 0;  ///< positions that the model was trained for
  std::int64_t vocabulary = 0;
  std::int64_t rotated = 0;  ///< elements of a head that rotate with the position
  double norm_eps = 1e-5;
  double score_scale = 0;  ///< of products of queries and keys; 0: 1 / sqrt(head_width)
  Rotation rotation;
  Rotation local_rotation;  ///< of local layers
  std::int64_t window = 0;  ///< keys that local layers see, the query's own among them
  std::vector<bool> local;  ///< which layers are; none: no layer is
  bool neighbours = false;  ///< elements 2 i and 2 i + 1 rotate together; otherwise i and i + rotated / 2
  bool head_norms = false;  ///< queries and keys are normalized by heads
  bool gelu = false;  ///< the gate is GELU's tanh form; otherwise SiLU
  bool normalized_experts = true;  ///< shares of a token's experts add up to 1
  bool scaled_embeddings = false;  ///< by sqrt(width)
  bool post_norms = false;  ///< what attention and gated products give is normalized before it is added
  bool tied = false;  ///< embeddings give the scores, too
  double norm_offset = 0;  ///< added to the weights of norms
  const TensorNames* names = nullptr;
};

/// Positions rotate by frequencies divided by these as Llama 3.1 does: long waves by `factor`, short ones not at all.
std::vector<double> llama3_factors(std::int64_t rotated, double base, double factor, double low, double high,
                                   double trained);

/// Sizes that belong together do: throws ValidationError otherwise. Takes the vocabulary's size from the embeddings.
void check_shape(LanguageShape& shape, const WeightFile& file);

/// Throws NotImplementedError for architectures and options that are not supported, ValidationError for numbers that
/// make no model.
LanguageShape read_shape(const GgufFile& file);

}  // namespace dlprim
