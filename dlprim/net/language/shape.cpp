// SPDX-License-Identifier: MIT
#include "shape.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "../checked.hpp"
#include "weights.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t most_positions = std::int64_t(1) << 30;

constexpr Architecture architectures[] = {
    {.name = "llama", .model_type = "llama", .neighbours = true},
    {.name = "llama", .model_type = "mistral", .neighbours = true, .period = 1, .window = 4096},
    {.name = "llama", .model_type = "mixtral", .neighbours = true, .period = 1, .window = 4096},
    {.name = "qwen2", .model_type = "qwen2", .window = 4096},
    {.name = "qwen3", .model_type = "qwen3", .head_norms = HeadNorms::each, .window = 4096},
    {.name = "qwen3moe",
     .model_type = "qwen3_moe",
     .head_norms = HeadNorms::each,
     .expert_inner = "moe_intermediate_size",
     .window = 4096},
    {.name = "qwen2moe",
     .model_type = "qwen2_moe",
     .normalized_experts = false,
     .expert_inner = "moe_intermediate_size",
     .shared_expert = true,
     .window = 4096},
    {.name = "gemma",
     .model_type = "gemma",
     .gate = Gate::gelu,
     .scaled_embeddings = true,
     .tied = true,
     .norm_offset = 1},
    {.name = "gemma2",
     .model_type = "gemma2",
     .gate = Gate::gelu,
     .scaled_embeddings = true,
     .tied = true,
     .post_norms = true,
     .norm_offset = 1,
     .score_cap = 50,
     .output_cap = 30,
     .period = 2,
     .window = 4096},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .head_norms = HeadNorms::each,
     .gate = Gate::gelu,
     .scaled_embeddings = true,
     .tied = true,
     .post_norms = true,
     .norm_offset = 1,
     .period = 6,
     .window = 4096},
    {.name = "phi3", .model_type = "phi3", .period = 1, .rotated_part = 1},
    {.name = "granite", .model_type = "granite", .neighbours = true, .multipliers = true},
    {.name = "olmo2",  // in GGUF files OLMo 3 as well, with a window
     .model_type = "olmo2",
     .head_norms = HeadNorms::together,
     .pre_norms = false,
     .post_norms = true,
     .period = 4,
     .may_lack_window = true,
     .only_full_scaled = true},
    {.name = "olmo2",
     .model_type = "olmo3",
     .head_norms = HeadNorms::together,
     .pre_norms = false,
     .post_norms = true,
     .period = 4,
     .window = 4096,
     .only_full_scaled = true,
     .rotation_base = 5e5},
    {.name = "olmoe", .model_type = "olmoe", .head_norms = HeadNorms::together, .normalized_experts = false},
    {.name = "exaone4",
     .model_type = "exaone4",
     .head_norms = HeadNorms::each,
     .pre_norms = false,
     .post_norms = true,
     .period = 4,
     .window = 4096,
     .may_lack_window = true,
     .only_local_rotate = true},
    {.name = "seed_oss", .model_type = "seed_oss", .named_post_norm = true},
    {.name = "ernie4_5",
     .model_type = "ernie4_5",
     .neighbours = true,
     .always_neighbours = true,
     .tied = true,
     .rotation_base = 5e5},
    {.name = "smollm3",
     .model_type = "smollm3",
     .neighbours = true,
     .tied = true,
     .rotation_base = 2e6,
     .rotation_period = 4},
    {.name = "glm4",
     .model_type = "glm4",
     .neighbours = true,
     .always_neighbours = true,
     .post_norms = true,
     .rotated_part = 0.5},
    {.name = "gpt-oss",
     .model_type = "gpt_oss",
     .gate = Gate::clamped,
     .sinks = true,
     .expert_biases = true,
     .packed_experts = true,
     .named_post_norm = true,
     .whole_yarn = false,
     .period = 2,
     .window = 128,
     .rotation_base = 1.5e5},
    {.name = "starcoder2",
     .model_type = "starcoder2",
     .gate = Gate::gelu,
     .gated = false,
     .layer_norms = true,
     .eps = "norm_epsilon",
     .tied = true,
     .period = 1},
    {.name = "gpt2",
     .model_type = "gpt2",
     .gate = Gate::gelu,
     .gated = false,
     .layer_norms = true,
     .positions = true,
     .eps = "layer_norm_epsilon",
     .tied = true},
    {.name = "stablelm",
     .model_type = "stablelm",
     .layer_norms = true,
     .says_parallel = true,
     .one_norm = true,
     .eps = "layer_norm_eps",
     .rotated_part = 0.25},
    {.name = "gptneox",
     .model_type = "gpt_neox",
     .gate = Gate::exact_gelu,
     .gated = false,
     .layer_norms = true,
     .parallel = true,
     .says_parallel = true,
     .eps = "layer_norm_eps",
     .rotated_part = 0.25},
    {.name = "phi2",
     .model_type = "phi",
     .gate = Gate::gelu,
     .gated = false,
     .layer_norms = true,
     .parallel = true,
     .one_norm = true,
     .eps = "layer_norm_eps",
     .rotated_part = 0.5},
    {.name = "command-r",
     .model_type = "cohere",
     .neighbours = true,
     .always_neighbours = true,
     .layer_norms = true,
     .parallel = true,
     .one_norm = true,
     .eps = "layer_norm_eps",
     .tied = true,
     .rotation_base = 5e5,
     .output_scale = 0.0625},
    {.name = "cohere2",
     .model_type = "cohere2",
     .neighbours = true,
     .always_neighbours = true,
     .layer_norms = true,
     .parallel = true,
     .one_norm = true,
     .eps = "layer_norm_eps",
     .tied = true,
     .period = 4,
     .window = 4096,
     .only_local_rotate = true,
     .output_scale = 0.0625}};

constexpr TensorNames gguf_names = [] {
  TensorNames result = {
      "token_embd",    "output_norm", "output",       "blk.",          "attn_norm",   "ffn_norm",
      "attn_q",        "attn_k",      "attn_v",       "attn_q_norm",   "attn_k_norm", "attn_output",
      "ffn_gate",      "ffn_up",      "ffn_down",     "attn_qkv",      "ffn_up",      "post_attention_norm",
      "post_ffw_norm", "attn_sinks",  "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
  result.positions = "position_embd";
  result.shared_router = "ffn_gate_inp_shexp", result.shared_gate = "ffn_gate_shexp";
  result.shared_up = "ffn_up_shexp", result.shared_out = "ffn_down_shexp";
  return result;
}();

// Of files whose second norm is named after what lies before it.
constexpr TensorNames post_names = [] {
  TensorNames result = gguf_names;
  result.inner_norm = "post_attention_norm";
  return result;
}();

// Numbers of one architecture, by the rest of their keys.
struct Keys {
  const GgufFile& file;
  std::string prefix;

  std::int64_t integer(const std::string& key, std::int64_t most, std::optional<std::int64_t> otherwise = {}) const {
    const std::optional<std::int64_t> found = file.integer(prefix + key);
    if (!found && !otherwise) throw ValidationError("[language] the file has no '" + prefix + key + "'");
    try {
      return checked_range(found.value_or(otherwise.value_or(0)), 1, most, "a number");
    } catch (const ValidationError& problem) {
      throw ValidationError("[language] '" + prefix + key + "': " + problem.what());
    }
  }
  double real(const std::string& key, double least, double most, std::optional<double> otherwise = {}) const {
    const std::optional<double> found = file.real(prefix + key);
    if (!found && !otherwise) throw ValidationError("[language] the file has no '" + prefix + key + "'");
    const double value = found.value_or(otherwise.value_or(0));
    if (!(value >= least && value <= most))
      throw ValidationError("[language] '" + prefix + key + "': expected a number of " + std::to_string(least) +
                            " to " + std::to_string(most) + ", got " + std::to_string(value));
    return value;
  }
};

std::vector<double> read_factors(const GgufFile& file, const char* name, std::int64_t rotated) {
  const WeightTensor* tensor = file.find(name);
  if (!tensor) return {};
  if (tensor->elements() != rotated / 2)
    throw ValidationError("[language] expected " + std::to_string(rotated / 2) + " factors of frequencies, got " +
                          tensor->text());
  const std::vector<float> numbers = read_numbers(file, *tensor);
  std::vector<double> factors(numbers.begin(), numbers.end());
  check_factors(factors, rotated);
  return factors;
}

void read_rotation(const Keys& keys, LanguageShape& shape, bool whole_yarn) {
  const GgufFile& file = keys.file;
  Rotation& rotation = shape.rotation;
  shape.rotated = keys.integer("rope.dimension_count", shape.head_width, shape.head_width);
  rotation.base = keys.real("rope.freq_base", 1, 1e12, 10000);
  rotation.factors = read_factors(file, "rope_freqs.weight", shape.rotated);
  const std::string* named = file.text(keys.prefix + "rope.scaling.type");
  std::string scaling = named ? *named : "none";
  if (scaling == "none" && file.find("rope_factors_long.weight")) scaling = "longrope";
  const auto trained = [&] { return keys.integer("rope.scaling.original_context_length", most_positions); };
  if (scaling == "linear") {
    rotation.scale = 1 / keys.real("rope.scaling.factor", 1e-3, 1e6, 1);
  } else if (scaling == "yarn") {
    if (!rotation.factors.empty()) throw NotImplementedError("[language] factors of frequencies beside yarn");
    Yarn yarn{.factor = keys.real("rope.scaling.factor", 1, 1e6), .trained = double(trained())};
    yarn.whole = whole_yarn;
    yarn.fast = keys.real("rope.scaling.yarn_beta_fast", 1e-3, 1e6, yarn.fast);
    yarn.slow = keys.real("rope.scaling.yarn_beta_slow", 1e-3, 1e6, yarn.slow);
    rotation.factors = yarn_factors(shape.rotated, rotation.base, yarn);
    rotation.magnitude = yarn_magnitude(yarn.factor) * keys.real("rope.scaling.attn_factor", 1e-3, 1e3, 1);
  } else if (scaling == "longrope") {
    rotation.factors = read_factors(file, "rope_factors_short.weight", shape.rotated);
    rotation.long_factors = read_factors(file, "rope_factors_long.weight", shape.rotated);
    if (rotation.factors.empty() || rotation.long_factors.empty())
      throw ValidationError("[language] positions scaled by 'longrope' without rope_factors_short and _long");
    rotation.trained = trained();
    rotation.magnitude =
        keys.real("rope.scaling.attn_factor", 1e-3, 1e3,
                  long_magnitude(double(shape.context) / double(rotation.trained), double(rotation.trained)));
  } else if (scaling != "none") {
    throw NotImplementedError("[language] positions scaled by '" + scaling +
                              "' are not supported; expected linear, yarn or longrope");
  }
}

void read_experts(const Keys& keys, const Architecture& a, LanguageShape& shape) {
  constexpr std::int64_t most = 1 << 20, most_experts = 1 << 12;
  const char *inner = "feed_forward_length", *expert_inner = "expert_feed_forward_length";
  if (keys.file.integer(keys.prefix + "expert_count").value_or(0) > 0) {
    shape.experts = keys.integer("expert_count", most_experts);
    shape.experts_used = keys.integer("expert_used_count", shape.experts);
    shape.expert_inner = keys.integer(keys.file.has(keys.prefix + expert_inner) ? expert_inner : inner, most);
    if (a.shared_expert) shape.shared_inner = keys.integer("expert_shared_feed_forward_length", most);
  } else {
    shape.inner = keys.integer(inner, most);
  }
}

// Local layers have their own base in Gemma 3. Without a period all positions that a window shows are the context: there
// attention in full sees the same.
void read_local_layers(const Keys& keys, const Architecture& a, LanguageShape& shape) {
  const char* key = "attention.sliding_window";
  if (a.period == 0) {
    shape.context = std::min(shape.context, keys.integer(key, most_positions, shape.context));
    return;
  }
  if ((a.period == 1 || a.may_lack_window) && keys.file.integer(keys.prefix + key).value_or(0) == 0) return;
  shape.window = keys.integer(key, most_positions);
  for (std::int64_t i = 0; i < shape.layers; i++) shape.local.push_back(a.period == 1 || !is_last(i, a.period));
  if (a.only_local_rotate)
    for (const bool local : shape.local) shape.unrotated.push_back(!local);
}

// The largest models of Gemma scale scores by the width of all heads together.
void read_scales(const Keys& keys, const Architecture& a, LanguageShape& shape) {
  constexpr double most = 1e9;
  shape.score_cap = a.score_cap ? keys.real("attn_logit_softcapping", 1e-6, most, a.score_cap) : 0;
  shape.output_cap = a.output_cap ? keys.real("final_logit_softcapping", 1e-6, most, a.output_cap) : 0;
  const std::int64_t largest = shape.architecture == "gemma2" ? 46 : shape.architecture == "gemma3" ? 62 : 0;
  if (shape.layers == largest) shape.score_scale = 1 / std::sqrt(double(shape.width) / double(shape.heads));
  if (a.output_scale) shape.output_scale = keys.real("logit_scale", 1e-6, most, a.output_scale);
  if (!a.multipliers) return;
  shape.embedding_scale = keys.real("embedding_scale", 1e-6, most, 1);
  shape.added_scale = keys.real("residual_scale", 1e-6, most, 1);
  shape.output_scale = 1 / keys.real("logit_scale", 1e-6, most, 1);
  if (keys.file.real(keys.prefix + "attention.scale")) shape.score_scale = keys.real("attention.scale", 1e-9, most);
}

}  // namespace

const Architecture& architecture_of(const std::string& name, const char* Architecture::* kind) {
  std::string known, last;
  for (const Architecture& a : architectures) {
    if (!(a.*kind)) continue;
    if (name == a.*kind) return a;
    if (last != a.*kind) known += (known.empty() ? "" : ", ") + std::string(a.*kind);
    last = a.*kind;
  }
  throw NotImplementedError("[language] models of the architecture '" + name + "' are not supported; expected " +
                            known);
}

LanguageShape shape_of(const Architecture& a) {
  LanguageShape shape;
  shape.architecture = a.name, shape.head_norms = a.head_norms, shape.gate = a.gate;
  shape.gated = a.gated, shape.layer_norms = a.layer_norms;
  shape.positions = a.positions, shape.parallel = a.parallel, shape.one_norm = a.one_norm;
  shape.sinks = a.sinks, shape.expert_biases = a.expert_biases;
  shape.normalized_experts = a.normalized_experts;
  shape.pre_norms = a.pre_norms, shape.post_norms = a.post_norms;
  return shape;
}

std::vector<double> llama3_factors(std::int64_t rotated, double base, double factor, double low, double high,
                                   double trained) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < rotated / 2; i++) {
    const double wave = 2 * std::numbers::pi * std::pow(base, 2.0 * double(i) / double(rotated));
    const double share = std::clamp((trained / wave - low) / (high - low), 0., 1.);  // of the frequency that stays
    result.push_back(1 / ((1 - share) / factor + share));
  }
  return result;
}

std::vector<double> yarn_factors(std::int64_t rotated, double base, const Yarn& yarn) {
  // The pair of elements that comes around so many times in the trained length.
  const auto pair_of = [&](double turns) {
    return double(rotated) * std::log(yarn.trained / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = pair_of(yarn.fast), high = pair_of(yarn.slow);
  if (yarn.whole) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.), high = std::min(high, double(rotated - 1));
  if (low == high) high += 0.001;
  std::vector<double> result;
  for (std::int64_t i = 0; i < rotated / 2; i++) {
    const double share = std::clamp((double(i) - low) / (high - low), 0., 1.);  // of the frequency that is divided
    result.push_back(1 / (share / yarn.factor + 1 - share));
  }
  return result;
}

double yarn_magnitude(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; }

double long_magnitude(double factor, double trained) {
  return factor <= 1 || trained <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(trained));
}

void check_factors(const std::vector<double>& factors, std::int64_t rotated) {
  if (std::int64_t(factors.size()) != rotated / 2)
    throw ValidationError("[language] expected " + std::to_string(rotated / 2) + " factors of frequencies, got " +
                          std::to_string(factors.size()));
  for (double factor : factors)
    if (!(factor > 1e-6 && factor < 1e9))
      throw ValidationError("[language] a frequency is divided by " + std::to_string(factor));
}

void check_shape(LanguageShape& shape, const WeightFile& file) {
  if (shape.heads % shape.key_heads)
    throw ValidationError("[language] " + std::to_string(shape.heads) + " heads do not share " +
                          std::to_string(shape.key_heads) + " heads of keys");
  if (shape.rotated < 2 || shape.rotated % 2)
    throw ValidationError("[language] " + std::to_string(shape.rotated) + " elements rotate with the position");
  const std::string name = std::string(shape.names->embeddings) + ".weight";
  const WeightTensor* embeddings = file.find(name);
  if (!embeddings || embeddings->sizes.size() != 2)
    throw ValidationError("[language] the file has no matrix '" + name + "'");
  shape.vocabulary = embeddings->sizes[0];
}

LanguageShape read_shape(const GgufFile& file) {
  constexpr std::int64_t most = 1 << 20;
  const std::string* name = file.text("general.architecture");
  if (!name) throw ValidationError("[language] the file names no general.architecture");
  const Architecture& a = architecture_of(*name, &Architecture::name);
  const Keys keys{file, std::string(a.name) + "."};
  LanguageShape shape = shape_of(a);
  shape.neighbours = a.neighbours, shape.names = a.named_post_norm ? &post_names : &gguf_names;
  shape.tied = !file.find("output.weight");
  shape.layers = keys.integer("block_count", 4096), shape.width = keys.integer("embedding_length", most);
  shape.heads = keys.integer("attention.head_count", 4096);
  shape.key_heads = keys.integer("attention.head_count_kv", 4096, shape.heads);
  shape.head_width = keys.integer("attention.key_length", 256, std::max<std::int64_t>(1, shape.width / shape.heads));
  if (keys.integer("attention.value_length", most, shape.head_width) != shape.head_width)
    throw NotImplementedError("[language] keys and values of unequal width are not supported");
  read_experts(keys, a, shape);
  if (a.says_parallel) shape.parallel = file.flag(keys.prefix + "use_parallel_residual").value_or(a.parallel);
  if (a.scaled_embeddings) shape.embedding_scale = std::sqrt(double(shape.width));
  for (std::int64_t i = 0; a.rotation_period && i < shape.layers; i++)
    shape.unrotated.push_back(is_last(i, a.rotation_period));
  shape.context = keys.integer("context_length", most_positions, 4096);
  read_local_layers(keys, a, shape);
  read_scales(keys, a, shape);
  shape.norm_eps = keys.real(a.layer_norms ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0, 1);
  read_rotation(keys, shape, a.whole_yarn);
  if (shape.architecture == "gemma3") {
    shape.local_rotation.emplace();
    shape.local_rotation->base = keys.real("rope.freq_base_swa", 1, 1e12, 10000);
  }
  if (a.only_full_scaled && !shape.local.empty()) shape.local_rotation.emplace().base = shape.rotation.base;
  check_shape(shape, file);
  return shape;
}

}  // namespace dlprim
