// SPDX-License-Identifier: MIT
// What a language model is made of, as the metadata of its file say.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arrangement.hpp"
#include "gguf.hpp"

namespace dlprim {

/// What files call the tensors; those of layers behind `layer` and the layer's number. ".weight" or ".bias" follows.
struct TensorNames {
  const char *embeddings, *output_norm, *output, *layer;
  const char *attention_norm, *inner_norm, *queries, *keys, *values, *query_norm, *key_norm, *attention_out;
  const char *gate, *up, *inner_out;
  const char *qkv, *gate_up;  // of files that have queries, keys and values or both gates in one
  const char *post_attention_norm = nullptr, *post_inner_norm = nullptr;  // of architectures that have these
  const char *sinks = nullptr, *router = nullptr, *expert_gates = nullptr, *expert_ups = nullptr,
             *expert_outs = nullptr;  // * is an expert's number
  const char *shared_router = nullptr, *shared_gate = nullptr, *shared_up = nullptr,
             *shared_out = nullptr;  // of the expert that all tokens take
  const char* positions = nullptr;  // embeddings of architectures that have these
  std::span<const Part> parts = {};  // what layers have under other names, or other tensors hold
};

/// What products go through: SiLU; GELU, by its tanh form or exactly; as GPT-OSS has it (experts.hpp).
enum class Gate : std::uint8_t { silu, gelu, exact_gelu, clamped };

/// Queries and keys are normalized: not at all, each head alone, all heads of each together.
enum class HeadNorms : std::uint8_t { none, each, together };

/// What models of one name have in common, and nothing in their files says.
struct Architecture {
  const char *name, *model_type;  ///< in GGUF files, and in folders of transformers
  bool neighbours = false;  ///< GGUF files have elements side by side that rotate together
  bool always_neighbours = false;  ///< folders, too
  HeadNorms head_norms = HeadNorms::none;
  Gate gate = Gate::silu;  ///< where a folder does not say
  bool gated = true;  ///< otherwise a product, what it goes through, and a product
  bool layer_norms = false;  ///< they take the mean away, and may have biases
  bool positions = false;  ///< embeddings of positions are added; nothing rotates
  bool parallel = false;  ///< attention and products get the same input
  bool says_parallel = false;  ///< unless files say otherwise
  bool one_norm = false;  ///< which is then normalized once for both
  const char* eps = "rms_norm_eps";  ///< what folders call that of norms
  bool scaled_embeddings = false;
  bool sinks = false;  ///< heads attend to nothing, too, with a score of their own
  bool expert_biases = false;
  bool packed_experts = false;  ///< folders may have them in MXFP4
  bool normalized_experts = true;  ///< where files do not say
  const char* expert_inner = nullptr;  ///< what folders call the width of an expert; null: as without experts
  bool shared_expert = false;  ///< all tokens take one more, weighed by a sigmoid
  bool named_post_norm = false;  ///< GGUF files name the norm before gated products after attention
  bool tied = false;  ///< where a folder does not say
  bool whole_yarn = true;  ///< numbers of elements are rounded
  bool pre_norms = true, post_norms = false;
  double norm_offset = 0;  ///< that folders lack
  double score_cap = 0, output_cap = 0;  ///< where files do not say
  std::int64_t period = 0;  ///< of so many layers all but the last see a window; 1: all do; 0: as files say
  std::int64_t window = 0;  ///< where a folder does not say; 0: none
  bool may_lack_window = false;  ///< GGUF files without one have none
  bool only_full_scaled = false;  ///< where layers see a window, positions of the others alone are scaled
  bool only_local_rotate = false;  ///< where layers see a window, the others do not know positions
  double rotation_base = 10000;  ///< where a folder does not say
  std::int64_t rotation_period = 0;  ///< of so many layers the last does not rotate; 0: all do
  double rotated_part = 0;  ///< of each head, where a folder does not say; 0: all of it, always
  bool multipliers = false;  ///< files have factors of embeddings, of what layers add, and of scores
  double output_scale = 0;  ///< of tokens' scores, where a folder does not say; 0: files have none
};
/// Throws NotImplementedError for names that are not supported.
const Architecture& architecture_of(const std::string& name, const char* Architecture::* kind);

/// How frequencies of the rotation are found.
struct Rotation {
  double base = 10000, scale = 1;
  std::vector<double> factors;  ///< that frequencies are divided by; none: 1
  std::vector<double>
      long_factors;  ///< for texts of more than `trained` tokens, of which all then take these; none: the same
  std::int64_t trained = 0;
  double magnitude = 1;  ///< of cosines and sines
};

/// A decoder of blocks of attention and products, mostly gated, with norms before or behind them.
struct LanguageShape {
  std::string architecture;
  std::int64_t layers = 0, width = 0, heads = 0, key_heads = 0, head_width = 0, inner = 0;
  std::int64_t experts = 0, experts_used = 0;  ///< of each layer, and of a token; none: one gated product for all
  std::int64_t expert_inner = 0, shared_inner = 0;  ///< of each, and of one that all tokens take; 0: there is none
  std::vector<bool> dense;  ///< layers without experts; none: no layer is one, where there are experts
  std::int64_t context = 0;  ///< positions that the model was trained for
  std::int64_t vocabulary = 0;
  std::int64_t rotated = 0;  ///< elements of a head that rotate with the position
  double norm_eps = 1e-5;
  double score_scale = 0;  ///< of products of queries and keys; 0: 1 / sqrt(head_width)
  double score_cap = 0, output_cap = 0;  ///< c: scores of keys, of tokens, become c tanh(s / c); 0: they stay
  double embedding_scale = 1, added_scale = 1,
         output_scale = 1;  ///< of embeddings, of what parts add, of tokens' scores
  Rotation rotation;
  std::optional<Rotation> local_rotation;  ///< of local layers, where it is another one
  std::int64_t window = 0;  ///< keys that local layers see, the query's own among them
  std::vector<bool> local;  ///< which layers are; none: no layer is
  std::vector<bool> unrotated;  ///< layers that do not know positions; none: no layer is one
  bool neighbours = false;  ///< elements 2 i and 2 i + 1 rotate together; otherwise i and i + rotated / 2
  HeadNorms head_norms = HeadNorms::none;
  Gate gate = Gate::silu;
  bool gated = true, layer_norms = false, sinks = false, expert_biases = false;
  bool normalized_experts = true;  ///< shares of a token's experts add up to 1
  bool positions = false;  ///< embeddings of positions are added to those of tokens; nothing rotates
  bool parallel = false;  ///< products get what attention gets, not what it gives
  bool one_norm = false;  ///< which is then normalized alike
  bool pre_norms = true;  ///< what attention and gated products get is normalized
  bool post_norms = false;  ///< what they give is normalized before it is added
  bool tied = false;  ///< embeddings give the scores, too
  double norm_offset = 0;  ///< added to the weights of norms
  const TensorNames* names = nullptr;
};

/// A shape with what its architecture says.
LanguageShape shape_of(const Architecture& architecture);
/// Whether layer i is one of those that `period` leaves out, the last of so many.
constexpr bool is_last(std::int64_t i, std::int64_t period) { return i % period == period - 1; }

/// Positions rotate by frequencies divided by these as Llama 3.1 does: long waves by `factor`, short ones not at all.
std::vector<double> llama3_factors(std::int64_t rotated, double base, double factor, double low, double high,
                                   double trained);

/// YaRN (Peng et al., 2023): waves that come around `fast` times in the trained length stay, those that do so `slow` times
/// become `factor` times as long, with the numbers of elements between rounded outward where `whole`.
struct Yarn {
  double factor = 1, fast = 32, slow = 1, trained = 0;
  bool whole = true;
};
std::vector<double> yarn_factors(std::int64_t rotated, double base, const Yarn& yarn);
/// What cosines and sines are multiplied by unless a file says so: of YaRN, and of tables of factors (LongRoPE).
double yarn_magnitude(double factor, double weight = 1);
double long_magnitude(double factor, double trained);
/// Throws ValidationError for factors that are not rotated / 2 positive numbers.
void check_factors(const std::vector<double>& factors, std::int64_t rotated);

/// Sizes that belong together do: throws ValidationError otherwise. Takes the vocabulary's size from the embeddings.
void check_shape(LanguageShape& shape, const WeightFile& file);

/// Throws NotImplementedError for architectures and options that are not supported, ValidationError for numbers that
/// make no model.
LanguageShape read_shape(const GgufFile& file);

}  // namespace dlprim
