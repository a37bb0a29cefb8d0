// SPDX-License-Identifier: MIT
// config.json of transformers.
#include <dlprim/error.hpp>

#include <algorithm>
#include <cmath>

#include "../checked.hpp"
#include "checkpoint.hpp"
#include "folder_names.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t most = 1 << 20, most_positions = std::int64_t(1) << 30;

[[noreturn]] void refuse(const std::string& what) {
  throw NotImplementedError("[config.json] " + what + " not supported");
}

// What is null is left to the default, too.
Json without_nulls(const Json& object) {
  Json result = object;
  for (auto at = result.begin(); at != result.end();) at = at->is_null() ? result.erase(at) : std::next(at);
  return result;
}

// What GPT-2 and GPT-NeoX call otherwise, by its usual name.
void rename_members(Json& config) {
  constexpr std::pair<const char*, const char*> others[] = {{"n_embd", "hidden_size"},
                                                            {"n_layer", "num_hidden_layers"},
                                                            {"n_head", "num_attention_heads"},
                                                            {"n_inner", "intermediate_size"},
                                                            {"n_positions", "max_position_embeddings"},
                                                            {"activation_function", "hidden_act"},
                                                            {"rotary_pct", "partial_rotary_factor"},
                                                            {"rotary_emb_base", "rope_theta"}};
  for (const auto& [own, usual] : others)
    if (config.contains(own) && !config.contains(usual)) config[usual] = config[own];
}

std::int64_t integer(Fields& config, const char* key, std::int64_t largest,
                     std::optional<std::int64_t> otherwise = {}) {
  const std::int64_t value = config.integer(key, otherwise);
  if (value < 1 || value > largest)
    config.fail(std::string("expected 1 to ") + std::to_string(largest) + " for '" + key + "', got " +
                std::to_string(value));
  return value;
}

double real(Fields& config, const char* key, double least, double largest, std::optional<double> otherwise = {}) {
  const double value = config.real(key, otherwise);
  if (!(value >= least && value <= largest))
    config.fail(std::string("expected ") + std::to_string(least) + " to " + std::to_string(largest) + " for '" + key +
                "', got " + std::to_string(value));
  return value;
}

// How a configuration says what positions do: in an object of its own, or beside other things.
struct RotationSource {
  const Json& parameters;
  Fields &rope, &config;
  Fields& of(const char* key) const { return parameters.contains(key) ? rope : config; }
  double number(const char* key, double least, double largest, std::optional<double> otherwise = {}) const {
    return real(rope, key, least, largest, otherwise);
  }
  // Where nothing else is said, `usual` positions.
  std::int64_t trained(std::int64_t usual) const {
    return integer(of("original_max_position_embeddings"), "original_max_position_embeddings", most_positions, usual);
  }
};

Yarn read_yarn(const RotationSource& from, const LanguageShape& shape, Rotation& rotation) {
  Yarn yarn{.trained = double(from.trained(shape.context))};
  yarn.factor = from.number("factor", 1e-3, 1e6, double(shape.context) / yarn.trained);
  yarn.fast = from.number("beta_fast", 1e-3, 1e6, yarn.fast),
  yarn.slow = from.number("beta_slow", 1e-3, 1e6, yarn.slow);
  yarn.whole = from.rope.flag("truncate", true);
  const double weight = from.number("mscale", 0, 1e3, 0), all = from.number("mscale_all_dim", 0, 1e3, 0);
  const double usual = weight && all ? yarn_magnitude(yarn.factor, weight) / yarn_magnitude(yarn.factor, all)
                                     : yarn_magnitude(yarn.factor);
  rotation.magnitude = from.number("attention_factor", 1e-3, 1e3, usual);
  return yarn;
}

// Phi's first files call their tables "su" or "yarn".
void read_long_rotation(const RotationSource& from, const LanguageShape& shape, Rotation& rotation) {
  const auto factors = [&](const char* key) {
    std::vector<double> result;
    const Json& list = from.rope.at(key);
    if (!list.is_array()) from.rope.fail(std::string("expected a list of numbers for '") + key + "'");
    for (const Json& number : list) {
      if (!number.is_number()) from.rope.fail(std::string("expected numbers in '") + key + "'");
      result.push_back(number.get<double>());
    }
    check_factors(result, shape.rotated);
    return result;
  };
  rotation.factors = factors("short_factor"), rotation.long_factors = factors("long_factor");
  rotation.trained = from.trained(shape.context);
  const auto trained = double(rotation.trained);
  const double factor = from.number("factor", 1e-6, 1e6, double(shape.context) / trained);
  rotation.magnitude = from.number("attention_factor", 1e-3, 1e3, long_magnitude(factor, trained));
}

// What `rope` says, `config` where it is silent.
Rotation read_rotation(const RotationSource& from, const LanguageShape& shape, double usual_base) {
  Rotation rotation;
  rotation.base = real(from.of("rope_theta"), "rope_theta", 1, 1e12, usual_base);
  std::string type = from.rope.text("rope_type", from.rope.text("type", "default"));
  if (shape.architecture == "phi3" && (type == "su" || type == "yarn")) type = "longrope";
  if (type == "linear") {
    rotation.scale = 1 / from.number("factor", 1e-3, 1e6);
  } else if (type == "llama3") {
    const double low = from.number("low_freq_factor", 1e-6, 1e6), high = from.number("high_freq_factor", 1e-6, 1e6);
    if (high <= low) from.rope.fail("expected 'high_freq_factor' above 'low_freq_factor'");
    rotation.factors = llama3_factors(shape.rotated, rotation.base, from.number("factor", 1e-3, 1e6), low, high,
                                      double(from.trained(shape.context)));
  } else if (type == "yarn") {
    rotation.factors = yarn_factors(shape.rotated, rotation.base, read_yarn(from, shape, rotation));
  } else if (type == "longrope") {
    read_long_rotation(from, shape, rotation);
  } else if (type != "default") {
    refuse("positions scaled by '" + type + "' are");
  }
  return rotation;
}

// rope_parameters, perhaps of each type of layer, or rope_scaling beside rope_theta as older versions wrote them.
void read_rotations(const Json& json, Fields& config, LanguageShape& shape, const Architecture& a) {
  const bool joined = json.contains("rope_parameters");
  const auto found = json.find(joined ? "rope_parameters" : "rope_scaling");
  const Json parameters = found == json.end() ? Json::object() : without_nulls(*found);
  const std::string source = joined ? "config.json rope_parameters" : "config.json rope_scaling";
  const auto of_layers = [&](const char* type) {
    const Json own = parameters.contains(type) ? without_nulls(parameters[type]) : parameters;
    Fields rope(own, source);
    const RotationSource from{own, rope, config};
    const double usual = a.rotated_part ? a.rotated_part : 1;
    const double part = real(from.of("partial_rotary_factor"), "partial_rotary_factor", 1e-3, 1, usual);
    if (part != 1 && !a.rotated_part) refuse("heads that rotate in part are");
    shape.rotated = std::int64_t(double(shape.head_width) * part);
    return read_rotation(from, shape, a.rotation_base);
  };
  shape.rotation = of_layers("full_attention");
  if (shape.local.empty()) return;
  if (parameters.contains("sliding_attention")) shape.local_rotation = of_layers("sliding_attention");
  else if (shape.architecture == "gemma3_text")
    shape.local_rotation.emplace().base = real(config, "rope_local_base_freq", 1, 1e12, 10000);
  else if (a.only_full_scaled) shape.local_rotation.emplace().base = shape.rotation.base;
}

// Which layers see a window: those that 'layer_types' names so, or else those for which `otherwise` holds.
template <class Otherwise>
void read_local_layers(Fields& fields, LanguageShape& shape, bool may_have, Otherwise otherwise) {
  for (std::int64_t i = 0; may_have && i < shape.layers; i++) shape.local.push_back(otherwise(i));
  if (!fields.has("layer_types")) return;
  const std::vector<std::string> types = fields.texts("layer_types");
  if (types.size() != std::size_t(shape.layers)) fields.fail("expected 'layer_types' of all layers");
  for (std::size_t i = 0; i < types.size(); i++) {
    const bool local = types[i] == "sliding_attention";
    if (types[i] != "full_attention" && !(local && may_have)) refuse("layers of the type '" + types[i] + "' are");
    if (may_have) shape.local[i] = local;
  }
}

// `json` with its nulls: a window that is null is none, one that is absent has the usual length.
void read_window(const Json& json, Fields& fields, LanguageShape& shape, const Architecture& a) {
  const bool qwen = shape.architecture.starts_with("qwen");
  const bool possible = a.period > 0 || (qwen && fields.flag("use_sliding_window", false));
  const bool may_have = possible && (json.contains("sliding_window") ? fields.has("sliding_window") : a.window > 0);
  if (may_have && a.shared_expert && !fields.has("layer_types")) refuse("windows without 'layer_types' are");
  const std::int64_t first = qwen ? fields.integer("max_window_layers", 28, 0) : 0;
  const bool says_period = a.period > 1 && !fields.has("layer_types");
  const std::int64_t period = says_period ? integer(fields, "sliding_window_pattern", most, a.period) : a.period;
  read_local_layers(fields, shape, may_have,
                    [&](std::int64_t i) { return i >= first && (period < 2 || !is_last(i, period)); });
  if (may_have) shape.window = integer(fields, "sliding_window", most_positions, a.window);
}

// What scores are multiplied by and where they end.
void read_scales(const Json& json, Fields& config, LanguageShape& shape, const Architecture& a) {
  if (a.scaled_embeddings) shape.embedding_scale = std::sqrt(double(shape.width));
  const auto cap = [&](const char* key, double usual) {
    const bool none = json.contains(key) ? !config.has(key) : usual == 0;
    return none ? 0 : real(config, key, 1e-6, 1e9, usual);
  };
  if (a.post_norms && a.scaled_embeddings) {  // Gemma from the second on
    shape.score_scale = 1 / std::sqrt(real(config, "query_pre_attn_scalar", 1e-6, 1e9, 256));
    shape.score_cap = cap("attn_logit_softcapping", a.score_cap);
    shape.output_cap = cap("final_logit_softcapping", a.output_cap);
  }
  if (a.output_scale) shape.output_scale = real(config, "logit_scale", 1e-6, 1e9, a.output_scale);
  if (!a.multipliers) return;
  shape.embedding_scale = real(config, "embedding_multiplier", 1e-6, 1e9, 1);
  shape.added_scale = real(config, "residual_multiplier", 1e-6, 1e9, 1);
  shape.output_scale = 1 / real(config, "logits_scaling", 1e-6, 1e9, 1);
  shape.score_scale = real(config, "attention_multiplier", 1e-9, 1e9, 1);
}

// Layers that do not know positions: of a list, 0 stands for one.
void read_unrotated(Fields& config, LanguageShape& shape, const Architecture& a) {
  if (a.only_local_rotate)
    for (const bool local : shape.local) shape.unrotated.push_back(!local);
  if (!a.rotation_period) return;
  if (config.flag("use_sliding_window", false)) refuse("'use_sliding_window' is");
  const std::int64_t period = integer(config, "no_rope_layer_interval", most, a.rotation_period);
  for (std::int64_t i = 0; i < shape.layers; i++) shape.unrotated.push_back(is_last(i, period));
  if (!config.has("no_rope_layers")) return;
  const std::vector<std::int64_t> rotates = config.integers("no_rope_layers");
  if (rotates.size() != std::size_t(shape.layers)) config.fail("expected 'no_rope_layers' of all layers");
  for (std::size_t i = 0; i < rotates.size(); i++) shape.unrotated[i] = rotates[i] == 0;
}

// Layers that have no experts: those of a list, and of so many all but the last.
void read_dense(Fields& config, LanguageShape& shape) {
  const std::int64_t step = integer(config, "decoder_sparse_step", most, 1);
  for (std::int64_t i = 0; i < shape.layers; i++) shape.dense.push_back(!is_last(i, step));
  if (!config.has("mlp_only_layers")) return;
  for (const std::int64_t i : config.integers("mlp_only_layers"))
    if (i >= 0 && i < shape.layers) shape.dense[std::size_t(i)] = true;
}

void read_experts(Fields& config, LanguageShape& shape, const Architecture& a) {
  shape.experts = integer(config, config.has("num_local_experts") ? "num_local_experts" : "num_experts", 4096);
  shape.experts_used = integer(config, "num_experts_per_tok", shape.experts);
  if (config.has("clip_qkv")) refuse("'clip_qkv' is");
  shape.expert_inner = a.expert_inner ? integer(config, a.expert_inner, most) : shape.inner;
  if (a.shared_expert) shape.shared_inner = integer(config, "shared_expert_intermediate_size", most);
  if (a.expert_inner) read_dense(config, shape);
  const bool always = !a.expert_inner && a.normalized_experts;
  shape.normalized_experts = always || config.flag("norm_topk_prob", false);
}

void check_options(Fields& config, const Architecture& a) {
  if (config.has("quantization_config")) {
    Fields packing(config.at("quantization_config"), "config.json quantization_config");
    if (!a.packed_experts || packing.text("quant_method") != "mxfp4")
      refuse("weights that are packed by this 'quantization_config' are");
  }
  if (!config.flag("scale_attn_weights", true)) refuse("scores that are not scaled are");
  if (a.gate == Gate::clamped) real(config, "swiglu_limit", 7, 7, 7), real(config, "swiglu_alpha", 1.702, 1.702, 1.702);
  for (const char* option : {"use_bidirectional_attention", "add_cross_attention", "is_encoder_decoder", "use_qk_norm",
                             "qk_layernorm", "scale_attn_by_inverse_layer_idx"})
    if (config.flag(option, false)) refuse(std::string("'") + option + "' is");
}

Gate read_gate(Fields& config, const Architecture& a) {
  constexpr std::pair<const char*, Gate> known[] = {{"silu", Gate::silu},
                                                    {"swish", Gate::silu},
                                                    {"gelu_pytorch_tanh", Gate::gelu},
                                                    {"gelu_new", Gate::gelu},
                                                    {"gelu", Gate::exact_gelu}};
  if (a.gate == Gate::clamped) return a.gate;
  const std::string name = config.text("hidden_activation", config.text("hidden_act", ""));
  if (name.empty()) return a.gate;
  for (const auto& [own, gate] : known) {
    if (name != own) continue;
    // Gemma's first files say gelu and mean its approximation.
    return a.scaled_embeddings && gate == Gate::exact_gelu ? Gate::gelu : gate;
  }
  refuse("the activation '" + name + "' is");
}

}  // namespace

LanguageShape read_shape(const Json& json, const WeightFile& file) {
  Json present = without_nulls(json);
  rename_members(present);
  Fields config(present, "config.json");
  const std::string model = config.text("model_type");
  if (model == "gemma3") refuse("models of texts and images are");
  const Architecture& a = architecture_of(model, &Architecture::model_type);
  check_options(config, a);
  LanguageShape shape = shape_of(a);
  shape.architecture = model, shape.names = &folder_names(model, file);
  shape.neighbours = a.always_neighbours, shape.gate = read_gate(config, a), shape.norm_offset = a.norm_offset;
  if (a.says_parallel) shape.parallel = config.flag("use_parallel_residual", a.parallel);
  shape.tied = config.flag("tie_word_embeddings", a.tied);
  shape.layers = integer(config, "num_hidden_layers", 4096), shape.width = integer(config, "hidden_size", most);
  shape.heads = integer(config, "num_attention_heads", 4096);
  shape.key_heads = integer(config, "num_key_value_heads", 4096, shape.heads);
  shape.head_width = integer(config, "head_dim", 256, std::max<std::int64_t>(1, shape.width / shape.heads));
  shape.inner = integer(config, "intermediate_size", most, a.positions ? std::optional(4 * shape.width) : std::nullopt);
  if (shape.names->router) read_experts(config, shape, a);
  shape.context = integer(config, "max_position_embeddings", most_positions, 4096);
  read_window(json, config, shape, a), read_unrotated(config, shape, a), read_scales(json, config, shape, a);
  shape.norm_eps = real(config, a.eps, 0, 1);
  read_rotations(present, config, shape, a);
  check_shape(shape, file);
  if (const std::int64_t size = integer(config, "vocab_size", std::int64_t(1) << 31); size != shape.vocabulary)
    config.fail("'vocab_size' is " + std::to_string(size) + ", with embeddings of " + std::to_string(shape.vocabulary));
  return shape;
}

}  // namespace dlprim
