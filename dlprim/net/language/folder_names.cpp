// SPDX-License-Identifier: MIT
#include "folder_names.hpp"

#include <utility>

namespace dlprim {

namespace {

constexpr TensorNames names = {
    "model.embed_tokens",       "model.norm",       "lm_head",          "model.layers.",    "input_layernorm",
    "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_norm",
    "self_attn.k_norm",         "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj",
    "self_attn.qkv_proj",       "mlp.gate_up_proj"};
constexpr TensorNames mixture(TensorNames result, const char* router, const char* gates, const char* ups,
                              const char* outs) {
  result.router = router, result.expert_gates = gates, result.expert_ups = ups, result.expert_outs = outs;
  return result;
}
constexpr TensorNames qwen_mixture =
    mixture(names, "mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj");
constexpr TensorNames mixtral = mixture(names, "block_sparse_moe.gate", "block_sparse_moe.experts.*.w1",
                                        "block_sparse_moe.experts.*.w3", "block_sparse_moe.experts.*.w2");
// What all tokens take beside the experts.
constexpr TensorNames shared_mixture = [] {
  TensorNames result = qwen_mixture;
  result.shared_router = "mlp.shared_expert_gate", result.shared_gate = "mlp.shared_expert.gate_proj";
  result.shared_up = "mlp.shared_expert.up_proj", result.shared_out = "mlp.shared_expert.down_proj";
  return result;
}();
// Rows of gates and of the rest take turns; matrices of floats lie transposed, MXFP4 in two tensors.
constexpr Part oss_parts[] = {
    {.stored = "self_attn.sinks", .name = "self_attn.sinks.weight"},
    {.stored = "mlp.experts.gate_up_proj",
     .name = "mlp.experts.gate_proj.weight",
     .axis = 2,
     .step = 2,
     .transposed = true},
    {.stored = "mlp.experts.gate_up_proj",
     .name = "mlp.experts.up_proj.weight",
     .axis = 2,
     .step = 2,
     .first = 1,
     .transposed = true},
    {.stored = "mlp.experts.down_proj", .name = "mlp.experts.down_proj.weight", .axis = 2, .transposed = true},
    {.stored = "mlp.experts.gate_up_proj_blocks",
     .name = "mlp.experts.gate_proj.weight",
     .axis = 1,
     .step = 2,
     .scales = "mlp.experts.gate_up_proj_scales"},
    {.stored = "mlp.experts.gate_up_proj_blocks",
     .name = "mlp.experts.up_proj.weight",
     .axis = 1,
     .step = 2,
     .first = 1,
     .scales = "mlp.experts.gate_up_proj_scales"},
    {.stored = "mlp.experts.down_proj_blocks",
     .name = "mlp.experts.down_proj.weight",
     .axis = 1,
     .scales = "mlp.experts.down_proj_scales"},
    {.stored = "mlp.experts.gate_up_proj_bias", .name = "mlp.experts.gate_proj.bias", .axis = 1, .step = 2},
    {.stored = "mlp.experts.gate_up_proj_bias", .name = "mlp.experts.up_proj.bias", .axis = 1, .step = 2, .first = 1},
    {.stored = "mlp.experts.down_proj_bias", .name = "mlp.experts.down_proj.bias"}};
constexpr TensorNames oss_names = [] {
  TensorNames result =
      mixture(names, "mlp.router", "mlp.experts.gate_proj", "mlp.experts.up_proj", "mlp.experts.down_proj");
  result.sinks = "self_attn.sinks", result.parts = oss_parts;
  return result;
}();
constexpr TensorNames starcoder_names = [] {
  TensorNames result = names;
  result.up = "mlp.c_fc", result.inner_out = "mlp.c_proj";
  return result;
}();
constexpr TensorNames phi_names = [] {
  TensorNames result = names;
  result.output_norm = "model.final_layernorm", result.attention_out = "self_attn.dense";
  result.up = "mlp.fc1", result.inner_out = "mlp.fc2";
  return result;
}();
// Of each head the queries, the keys and the values; masks that old files have.
constexpr Part neox_parts[] = {
    {.stored = "attention.query_key_value.weight", .name = "attention.query.weight", .step = 3, .heads = true},
    {.stored = "attention.query_key_value.weight",
     .name = "attention.key.weight",
     .step = 3,
     .first = 1,
     .heads = true},
    {.stored = "attention.query_key_value.weight",
     .name = "attention.value.weight",
     .step = 3,
     .first = 2,
     .heads = true},
    {.stored = "attention.query_key_value.bias", .name = "attention.query.bias", .step = 3, .heads = true},
    {.stored = "attention.query_key_value.bias", .name = "attention.key.bias", .step = 3, .first = 1, .heads = true},
    {.stored = "attention.query_key_value.bias", .name = "attention.value.bias", .step = 3, .first = 2, .heads = true},
    {.stored = "attention.bias", .name = nullptr},
    {.stored = "attention.masked_bias", .name = nullptr}};
constexpr TensorNames neox_names = [] {
  TensorNames result = names;
  result.embeddings = "gpt_neox.embed_in", result.output_norm = "gpt_neox.final_layer_norm";
  result.output = "embed_out", result.layer = "gpt_neox.layers.";
  result.queries = "attention.query", result.keys = "attention.key", result.values = "attention.value";
  result.attention_out = "attention.dense";
  result.up = "mlp.dense_h_to_4h", result.inner_out = "mlp.dense_4h_to_h";
  result.parts = neox_parts;
  return result;
}();
// Matrices that lie transposed, and masks. The first files lack the prefix.
constexpr Part gpt2_parts[] = {
    {.stored = "attn.c_attn.weight", .name = "attn.c_attn.weight", .axis = 1, .transposed = true},
    {.stored = "attn.c_proj.weight", .name = "attn.c_proj.weight", .axis = 1, .transposed = true},
    {.stored = "mlp.c_fc.weight", .name = "mlp.c_fc.weight", .axis = 1, .transposed = true},
    {.stored = "mlp.c_proj.weight", .name = "mlp.c_proj.weight", .axis = 1, .transposed = true},
    {.stored = "attn.bias", .name = nullptr},
    {.stored = "attn.masked_bias", .name = nullptr}};
constexpr TensorNames bare_gpt2_names = [] {
  TensorNames result = names;
  result.embeddings = "wte", result.positions = "wpe", result.output_norm = "ln_f", result.layer = "h.";
  result.attention_norm = "ln_1", result.inner_norm = "ln_2";
  result.qkv = "attn.c_attn", result.attention_out = "attn.c_proj";
  result.up = "mlp.c_fc", result.inner_out = "mlp.c_proj";
  result.parts = gpt2_parts;
  return result;
}();
constexpr TensorNames gpt2_names = [] {
  TensorNames result = bare_gpt2_names;
  result.embeddings = "transformer.wte", result.positions = "transformer.wpe";
  result.output_norm = "transformer.ln_f", result.layer = "transformer.h.";
  return result;
}();
// With norms behind attention and gated products, and before the latter perhaps.
constexpr TensorNames with_post_norms(const char* inner, const char* attention, const char* post_inner) {
  TensorNames result = names;
  result.inner_norm = inner, result.post_attention_norm = attention, result.post_inner_norm = post_inner;
  return result;
}
constexpr TensorNames gemma_names =
    with_post_norms("pre_feedforward_layernorm", "post_attention_layernorm", "post_feedforward_layernorm");
constexpr TensorNames olmo_names = with_post_norms(nullptr, "post_attention_layernorm", "post_feedforward_layernorm");
constexpr TensorNames glm_names =
    with_post_norms("post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm");

}  // namespace

const TensorNames& folder_names(const std::string& model, const WeightFile& file) {
  if (model == "gpt2") return file.find("wte.weight") ? bare_gpt2_names : gpt2_names;
  constexpr std::pair<const char*, const TensorNames*> others[] = {
      {"qwen3_moe", &qwen_mixture}, {"mixtral", &mixtral},
      {"gemma2", &gemma_names},     {"gemma3_text", &gemma_names},
      {"olmo2", &olmo_names},       {"olmo3", &olmo_names},
      {"exaone4", &olmo_names},     {"glm4", &glm_names},
      {"olmoe", &qwen_mixture},     {"qwen2_moe", &shared_mixture},
      {"gpt_oss", &oss_names},      {"starcoder2", &starcoder_names},
      {"phi", &phi_names},          {"gpt_neox", &neox_names}};
  for (const auto& [name, own] : others)
    if (model == name) return *own;
  return names;
}

}  // namespace dlprim
