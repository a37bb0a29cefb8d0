// SPDX-License-Identifier: MIT
// config.json of transformers.
#include <dlprim/error.hpp>

#include <algorithm>

#include "../checked.hpp"
#include "checkpoint.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t most = 1 << 20, most_positions = std::int64_t(1) << 30;

constexpr TensorNames names = {
    "model.embed_tokens",       "model.norm",       "lm_head",          "model.layers.",    "input_layernorm",
    "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_norm",
    "self_attn.k_norm",         "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

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

// rope_parameters, or rope_scaling beside rope_theta as older versions wrote them.
void read_rotation(const Json& json, Fields& config, LanguageShape& shape) {
  const bool joined = json.contains("rope_parameters");
  const auto found = json.find(joined ? "rope_parameters" : "rope_scaling");
  const Json parameters = found == json.end() ? Json::object() : without_nulls(*found);
  Fields rope(parameters, joined ? "config.json rope_parameters" : "config.json rope_scaling");
  shape.rotated = shape.head_width;
  shape.rope_base = real(parameters.contains("rope_theta") ? rope : config, "rope_theta", 1, 1e12, 10000);
  for (Fields* fields : {&rope, &config})
    if (fields->real("partial_rotary_factor", 1) != 1) refuse("heads that rotate in part are");
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "linear") {
    shape.rope_scale = 1 / real(rope, "factor", 1e-3, 1e6);
  } else if (type == "llama3") {
    const double low = real(rope, "low_freq_factor", 1e-6, 1e6), high = real(rope, "high_freq_factor", 1e-6, 1e6);
    if (high <= low) rope.fail("expected 'high_freq_factor' above 'low_freq_factor'");
    const bool own = parameters.contains("original_max_position_embeddings");
    const std::int64_t trained = integer(own ? rope : config, "original_max_position_embeddings", most_positions);
    shape.rope_factors =
        llama3_factors(shape.rotated, shape.rope_base, real(rope, "factor", 1e-3, 1e6), low, high, double(trained));
  } else if (type != "default") {
    refuse("positions scaled by '" + type + "' are");
  }
}

// Positions that attention in full sees as well: as many as the smallest window of any layer.
void read_window(const Json& config, Fields& fields, LanguageShape& shape, const std::string& model) {
  const bool may_have = model == "mistral" || (model.starts_with("qwen") && fields.flag("use_sliding_window", false));
  if (fields.has("layer_types"))
    for (const std::string& type : fields.texts("layer_types"))
      if (type != "full_attention" && !(type == "sliding_attention" && may_have))
        refuse("layers of the type '" + type + "' are");
  if (!may_have) return;
  const bool absent = !config.contains("sliding_window");  // which is not the same as null
  if (absent || fields.has("sliding_window"))
    shape.context = std::min(shape.context, integer(fields, "sliding_window", most_positions, 4096));
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
  const Architecture& a = architecture_of(model == "mistral" ? "llama" : model);
  check_options(config);
  LanguageShape shape;
  shape.architecture = model, shape.names = &names;
  shape.head_norms = a.head_norms, shape.scaled_embeddings = a.scaled_embeddings, shape.gelu = gelu(config, a);
  shape.norm_offset = model == "gemma" ? 1 : 0;
  shape.tied = config.flag("tie_word_embeddings", model == "gemma");
  shape.layers = integer(config, "num_hidden_layers", 4096), shape.width = integer(config, "hidden_size", most);
  shape.heads = integer(config, "num_attention_heads", 4096);
  shape.key_heads = integer(config, "num_key_value_heads", 4096, shape.heads);
  shape.head_width = integer(config, "head_dim", 256, std::max<std::int64_t>(1, shape.width / shape.heads));
  shape.inner = integer(config, "intermediate_size", most);
  shape.context = integer(config, "max_position_embeddings", most_positions, 4096);
  read_window(json, config, shape, model);
  shape.norm_eps = real(config, "rms_norm_eps", 0, 1);
  read_rotation(present, config, shape);
  check_shape(shape, file);
  if (const std::int64_t size = integer(config, "vocab_size", std::int64_t(1) << 31); size != shape.vocabulary)
    config.fail("'vocab_size' is " + std::to_string(size) + ", with embeddings of " + std::to_string(shape.vocabulary));
  return shape;
}

}  // namespace dlprim
