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

constexpr Architecture architectures[] = {
    {"llama", false, false, false, false}, {"qwen2", false, false, false, false},
    {"qwen3", true, false, false, false},  {"qwen3moe", true, false, false, false},
    {"gemma", false, true, true, false},   {"gemma3", true, true, true, true}};

constexpr TensorNames gguf_names = {"token_embd",    "output_norm",  "output",        "blk.",
                                    "attn_norm",     "ffn_norm",     "attn_q",        "attn_k",
                                    "attn_v",        "attn_q_norm",  "attn_k_norm",   "attn_output",
                                    "ffn_gate",      "ffn_up",       "ffn_down",      "post_attention_norm",
                                    "post_ffw_norm", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps",
                                    "ffn_down_exps"};

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

void read_rotation(const Keys& keys, LanguageShape& shape) {
  const GgufFile& file = keys.file;
  shape.rotated = keys.integer("rope.dimension_count", shape.head_width, shape.head_width);
  shape.rotation.base = keys.real("rope.freq_base", 1, 1e12, 10000);
  const std::string* scaling = file.text(keys.prefix + "rope.scaling.type");
  if (scaling && *scaling != "none" && *scaling != "linear")
    throw NotImplementedError("[language] positions scaled by '" + *scaling + "' are not supported; expected linear");
  if (scaling && *scaling == "linear") shape.rotation.scale = 1 / keys.real("rope.scaling.factor", 1e-3, 1e6, 1);
  if (const WeightTensor* factors = file.find("rope_freqs.weight")) {
    if (factors->elements() != shape.rotated / 2)
      throw ValidationError("[language] expected " + std::to_string(shape.rotated / 2) +
                            " factors of frequencies, got " + factors->text());
    const std::vector<float> numbers = read_numbers(file, *factors);
    shape.rotation.factors.assign(numbers.begin(), numbers.end());
    for (double factor : shape.rotation.factors)
      if (!(factor > 1e-6 && factor < 1e9))
        throw ValidationError("[language] a frequency is divided by " + std::to_string(factor));
  }
}

// Experts with one that all tokens share are not among the architectures.
void read_experts(const Keys& keys, LanguageShape& shape) {
  constexpr std::int64_t most = 1 << 20, most_experts = 1 << 12;
  if (keys.file.integer(keys.prefix + "expert_count").value_or(0) > 0) {
    shape.experts = keys.integer("expert_count", most_experts);
    shape.experts_used = keys.integer("expert_used_count", shape.experts);
    if (keys.file.integer(keys.prefix + "expert_feed_forward_length")) {
      shape.inner = keys.integer("expert_feed_forward_length", most);
      return;
    }
  }
  shape.inner = keys.integer("feed_forward_length", most);
}

// Gemma 3: five local layers, then one that sees all. Its largest model scales scores by the width of all heads together.
void read_local_layers(const Keys& keys, LanguageShape& shape) {
  constexpr std::int64_t pattern = 6, layers_of_largest = 62;
  shape.window = keys.integer("attention.sliding_window", std::int64_t(1) << 30);
  shape.local_rotation.base = keys.real("rope.freq_base_swa", 1, 1e12, 10000);
  for (std::int64_t i = 0; i < shape.layers; i++) shape.local.push_back(i % pattern != pattern - 1);
  if (shape.layers == layers_of_largest) shape.score_scale = 1 / std::sqrt(double(shape.width) / double(shape.heads));
}

}  // namespace

const Architecture& architecture_of(const std::string& name) {
  std::string known;
  for (const Architecture& a : architectures) {
    if (name == a.name) return a;
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  throw NotImplementedError("[language] models of the architecture '" + name + "' are not supported; expected " +
                            known);
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

void check_shape(LanguageShape& shape, const WeightFile& file) {
  if (shape.heads % shape.key_heads)
    throw ValidationError("[language] " + std::to_string(shape.heads) + " heads do not share " +
                          std::to_string(shape.key_heads) + " heads of keys");
  if (shape.rotated % 2) throw ValidationError("[language] an odd number of elements rotate with the position");
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
  const Architecture& a = architecture_of(*name);
  const Keys keys{file, std::string(a.name) + "."};
  LanguageShape shape;
  shape.architecture = a.name, shape.neighbours = shape.architecture == "llama", shape.head_norms = a.head_norms;
  shape.names = &gguf_names, shape.tied = !file.find("output.weight");
  shape.gelu = a.gelu, shape.scaled_embeddings = a.scaled_embeddings, shape.post_norms = a.post_norms;
  shape.layers = keys.integer("block_count", 4096), shape.width = keys.integer("embedding_length", most);
  shape.heads = keys.integer("attention.head_count", 4096);
  shape.key_heads = keys.integer("attention.head_count_kv", 4096, shape.heads);
  shape.head_width = keys.integer("attention.key_length", 256, std::max<std::int64_t>(1, shape.width / shape.heads));
  if (keys.integer("attention.value_length", most, shape.head_width) != shape.head_width)
    throw NotImplementedError("[language] keys and values of unequal width are not supported");
  read_experts(keys, shape);
  shape.context = keys.integer("context_length", std::int64_t(1) << 30, 4096);
  if (shape.architecture == "gemma3") read_local_layers(keys, shape);
  else  // positions that attention in full sees as well
    shape.context =
        std::min(shape.context, keys.integer("attention.sliding_window", std::int64_t(1) << 30, shape.context));
  shape.norm_eps = keys.real("attention.layer_norm_rms_epsilon", 0, 1);
  read_rotation(keys, shape);
  check_shape(shape, file);
  return shape;
}

}  // namespace dlprim
