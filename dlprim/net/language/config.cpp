// SPDX-License-Identifier: MIT
// config.json of transformers.
#include <dlprim/error.hpp>

#include <algorithm>
#include <cmath>

#include "../checked.hpp"
#include "checkpoint.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t most = 1 << 20, most_positions = std::int64_t(1) << 30;

constexpr TensorNames names = {
    "model.embed_tokens",       "model.norm",       "lm_head",          "model.layers.",    "input_layernorm",
    "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_norm",
    "self_attn.k_norm",         "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
constexpr TensorNames mixture(TensorNames result, const char* router, const char* gates, const char* ups,
                              const char* outs) {
  result.router = router, result.expert_gates = gates, result.expert_ups = ups, result.expert_outs = outs;
  return result;
}
constexpr TensorNames qwen_mixture =
    mixture(names, "mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj");
constexpr TensorNames mixtral = mixture(names, "block_sparse_moe.gate", "block_sparse_moe.experts.*.w1",
                                        "block_sparse_moe.experts.*.w3", "block_sparse_moe.experts.*.w2");
// With norms behind attention and gated products.
constexpr TensorNames post_norm_names = [] {
  TensorNames result = names;
  result.inner_norm = "pre_feedforward_layernorm", result.post_attention_norm = "post_attention_layernorm";
  result.post_inner_norm = "post_feedforward_layernorm";
  return result;
}();

[[noreturn]] void refuse(const std::string& what) {
  throw NotImplementedError("[config.json] " + what + " not supported");
}

// What is null is left to the default, too.
Json without_nulls(const Json& object) {
  Json result = object;
  for (auto at = result.begin(); at != result.end();) at = at->is_null() ? result.erase(at) : std::next(at);
  return result;
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

// What `rope` says, `config` where it is silent.
Rotation read_rotation(const Json& parameters, Fields& rope, Fields& config, std::int64_t rotated) {
  Rotation rotation;
  rotation.base = real(parameters.contains("rope_theta") ? rope : config, "rope_theta", 1, 1e12, 10000);
  for (Fields* fields : {&rope, &config})
    if (fields->real("partial_rotary_factor", 1) != 1) refuse("heads that rotate in part are");
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "linear") {
    rotation.scale = 1 / real(rope, "factor", 1e-3, 1e6);
  } else if (type == "llama3") {
    const double low = real(rope, "low_freq_factor", 1e-6, 1e6), high = real(rope, "high_freq_factor", 1e-6, 1e6);
    if (high <= low) rope.fail("expected 'high_freq_factor' above 'low_freq_factor'");
    const bool own = parameters.contains("original_max_position_embeddings");
    const std::int64_t trained = integer(own ? rope : config, "original_max_position_embeddings", most_positions);
    rotation.factors =
        llama3_factors(rotated, rotation.base, real(rope, "factor", 1e-3, 1e6), low, high, double(trained));
  } else if (type != "default") {
    refuse("positions scaled by '" + type + "' are");
  }
  return rotation;
}

// rope_parameters, perhaps of each type of layer, or rope_scaling beside rope_theta as older versions wrote them.
void read_rotations(const Json& json, Fields& config, LanguageShape& shape) {
  const bool joined = json.contains("rope_parameters");
  const auto found = json.find(joined ? "rope_parameters" : "rope_scaling");
  const Json parameters = found == json.end() ? Json::object() : without_nulls(*found);
  const std::string source = joined ? "config.json rope_parameters" : "config.json rope_scaling";
  shape.rotated = shape.head_width;
  const auto of_layers = [&](const char* type) {
    const Json own = parameters.contains(type) ? without_nulls(parameters[type]) : parameters;
    Fields rope(own, source);
    return read_rotation(own, rope, config, shape.rotated);
  };
  shape.rotation = of_layers("full_attention");
  if (shape.local.empty()) return;
  if (parameters.contains("sliding_attention") || !shape.post_norms)
    shape.local_rotation = of_layers("sliding_attention");
  else shape.local_rotation.base = real(config, "rope_local_base_freq", 1, 1e12, 10000);
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

void read_window(const Json& config, Fields& fields, LanguageShape& shape, const std::string& model) {
  const bool mistral = model == "mistral" || model == "mixtral";
  const bool absent = !config.contains("sliding_window");  // which is not the same as null
  const bool may_have = (mistral || (model.starts_with("qwen") && fields.flag("use_sliding_window", false))) &&
                        (absent || fields.has("sliding_window"));
  const std::int64_t first = mistral ? 0 : fields.integer("max_window_layers", 28, 0);
  read_local_layers(fields, shape, may_have, [&](std::int64_t i) { return i >= first; });
  if (may_have) shape.window = integer(fields, "sliding_window", most_positions, 4096);
}

// Of Gemma 3, beside what all models have.
void read_gemma3(Fields& config, LanguageShape& shape) {
  shape.names = &post_norm_names, shape.post_norms = true;
  for (const char* option : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (config.has(option)) refuse(std::string("'") + option + "' is");
  shape.score_scale = 1 / std::sqrt(real(config, "query_pre_attn_scalar", 1e-6, 1e9, 256));
  shape.window = integer(config, "sliding_window", most_positions, 4096);
  const std::int64_t pattern = integer(config, "sliding_window_pattern", most, 6);
  read_local_layers(config, shape, true, [&](std::int64_t i) { return (i + 1) % pattern != 0; });
}

void read_experts(Fields& config, LanguageShape& shape, const std::string& model) {
  const bool qwen = model == "qwen3_moe";
  shape.names = qwen ? &qwen_mixture : &mixtral;
  shape.experts = integer(config, config.has("num_local_experts") ? "num_local_experts" : "num_experts", 4096);
  shape.experts_used = integer(config, "num_experts_per_tok", shape.experts);
  if (!qwen) return;
  shape.inner = integer(config, "moe_intermediate_size", most);
  shape.normalized_experts = config.flag("norm_topk_prob", false);
  if (config.integer("decoder_sparse_step", 1) != 1 ||
      (config.has("mlp_only_layers") && !config.integers("mlp_only_layers").empty()))
    refuse("layers without experts beside those with them are");
}

void check_options(Fields& config) {
  if (config.has("quantization_config")) refuse("weights that are packed by a 'quantization_config' are");
  for (const char* option : {"use_bidirectional_attention", "add_cross_attention", "is_encoder_decoder"})
    if (config.flag(option, false)) refuse(std::string("'") + option + "' is");
}

bool gelu(Fields& config, const Architecture& a) {
  const std::string name =
      config.text("hidden_activation", config.text("hidden_act", a.gelu ? "gelu_pytorch_tanh" : "silu"));
  // Gemma's first files say gelu and mean its approximation.
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || (a.gelu && name == "gelu")) return true;
  if (name != "silu" && name != "swish") refuse("the activation '" + name + "' is");
  return false;
}

}  // namespace

LanguageShape read_shape(const Json& json, const WeightFile& file) {
  const Json present = without_nulls(json);
  Fields config(present, "config.json");
  const std::string model = config.text("model_type");
  const bool gemma3 = model == "gemma3_text", gemma = gemma3 || model == "gemma";
  if (model == "gemma3") refuse("models of texts and images are");
  const bool mistral = model == "mistral" || model == "mixtral", experts = model == "mixtral" || model == "qwen3_moe";
  const Architecture& a = architecture_of(mistral                ? "llama"
                                          : gemma3               ? "gemma3"
                                          : model == "qwen3_moe" ? "qwen3moe"
                                                                 : model);
  check_options(config);
  LanguageShape shape;
  shape.architecture = model, shape.names = &names;
  shape.head_norms = a.head_norms, shape.scaled_embeddings = a.scaled_embeddings, shape.gelu = gelu(config, a);
  shape.norm_offset = gemma ? 1 : 0;
  shape.tied = config.flag("tie_word_embeddings", gemma);
  shape.layers = integer(config, "num_hidden_layers", 4096), shape.width = integer(config, "hidden_size", most);
  shape.heads = integer(config, "num_attention_heads", 4096);
  shape.key_heads = integer(config, "num_key_value_heads", 4096, shape.heads);
  shape.head_width = integer(config, "head_dim", 256, std::max<std::int64_t>(1, shape.width / shape.heads));
  shape.inner = integer(config, "intermediate_size", most);
  if (experts) read_experts(config, shape, model);
  shape.context = integer(config, "max_position_embeddings", most_positions, 4096);
  if (gemma3) read_gemma3(config, shape);
  else read_window(json, config, shape, model);
  shape.norm_eps = real(config, "rms_norm_eps", 0, 1);
  read_rotations(present, config, shape);
  check_shape(shape, file);
  if (const std::int64_t size = integer(config, "vocab_size", std::int64_t(1) << 31); size != shape.vocabulary)
    config.fail("'vocab_size' is " + std::to_string(size) + ", with embeddings of " + std::to_string(shape.vocabulary));
  return shape;
}

}  // namespace dlprim
