// SPDX-License-Identifier: MIT
#include "onnx_folder.hpp"

#include <dlprim/error.hpp>

#include <algorithm>

#include "checkpoint.hpp"

namespace dlprim {

namespace {

namespace fs = std::filesystem;

constexpr const char *genai_file = "genai_config.json", *config_file = "config.json", *inner_folder = "onnx";
constexpr std::int64_t most = 1 << 20, most_positions = std::int64_t(1) << 30, usual_context = 4096;

// What exporters call the network, those with a cache in the one file first.
constexpr const char* network_files[] = {"decoder_model_merged.onnx", "model.onnx"};

// The number of any of `keys` that a configuration has, or 0.
std::int64_t number(Fields& config, std::initializer_list<const char*> keys, std::int64_t largest) {
  for (const char* key : keys) {
    if (!config.has(key)) continue;
    const std::int64_t value = config.integer(key);
    if (value < 1 || value > largest)
      config.fail(std::string("expected 1 to ") + std::to_string(largest) + " for '" + key + "', got " +
                  std::to_string(value));
    return value;
  }
  return 0;
}

// What onnxruntime-genai's configuration says of the model: names and sizes. Gives the name of the network's file.
std::string read_genai(const Json& json, LanguageSource& source) {
  Fields model(json, std::string(genai_file) + " model");
  for (const char* part : {"encoder", "vision", "speech", "embedding"})
    if (model.has(part))
      throw NotImplementedError(std::string("[") + genai_file + "] models with the part '" + part +
                                "' are not supported");
  const Json& decoder_json = model.at("decoder");
  Fields decoder(decoder_json, std::string(genai_file) + " decoder");
  if (decoder.has("pipeline"))
    throw NotImplementedError(std::string("[") + genai_file + "] decoders of several networks are not supported");
  LanguageShape& shape = source.shape;
  shape.architecture = model.text("type", "");
  shape.vocabulary = number(model, {"vocab_size"}, std::int64_t(1) << 31);
  shape.context = number(model, {"context_length"}, most_positions);
  shape.width = number(decoder, {"hidden_size"}, most), shape.layers = number(decoder, {"num_hidden_layers"}, most);
  source.network->heads = number(decoder, {"num_key_value_heads", "num_attention_heads"}, most);
  source.network->head_width = number(decoder, {"head_size"}, most);
  DecoderNames& names = source.network->names;
  const std::pair<const char*, std::string*> inputs[] = {{"input_ids", &names.tokens},
                                                         {"attention_mask", &names.mask},
                                                         {"position_ids", &names.positions},
                                                         {"past_key_names", &names.past_keys},
                                                         {"past_value_names", &names.past_values}};
  const std::pair<const char*, std::string*> outputs[] = {{"logits", &names.scores},
                                                          {"present_key_names", &names.present_keys},
                                                          {"present_value_names", &names.present_values}};
  const auto read = [&](const char* group, const auto& members) {
    if (!decoder.has(group)) return;
    Fields fields(decoder.at(group), std::string(genai_file) + " " + group);
    for (const auto& [key, name] : members) *name = fields.text(key, *name);
  };
  read("inputs", inputs), read("outputs", outputs);
  return decoder.text("filename", "model.onnx");
}

// The configuration of transformers, as far as generators need it.
void read_config(const Json& json, LanguageSource& source) {
  Fields config(json, config_file);
  LanguageShape& shape = source.shape;
  shape.architecture = config.text("model_type", "");
  if (config.flag("is_encoder_decoder", false))
    throw NotImplementedError("[config.json] 'is_encoder_decoder' is not supported");
  shape.vocabulary = number(config, {"vocab_size"}, std::int64_t(1) << 31);
  shape.context = number(config, {"max_position_embeddings", "n_positions", "n_ctx"}, most_positions);
  shape.width = number(config, {"hidden_size", "n_embd"}, most);
  shape.layers = number(config, {"num_hidden_layers", "n_layer"}, most);
  const std::int64_t heads = number(config, {"num_attention_heads", "n_head"}, most);
  source.network->heads = number(config, {"num_key_value_heads"}, most);
  if (!source.network->heads) source.network->heads = heads;
  source.network->head_width = number(config, {"head_dim"}, most);
  if (!source.network->head_width && heads) source.network->head_width = shape.width / heads;
}

// The network by its usual name, in the folder or in the one within.
fs::path usual_network(const ModelFolder& folder) {
  for (const bool inner : {false, true}) {
    if (inner && !folder.has(inner_folder)) break;
    const ModelFolder place = inner ? folder.inner(inner_folder) : folder;
    for (const char* name : network_files)
      if (place.has(name)) return place.locate(name);
  }
  throw ValidationError("[language] '" + folder.name() + "' has no network of a usual name, " + network_files[0] +
                        " or " + network_files[1] + ": name the .onnx file instead of the folder");
}

}  // namespace

bool has_onnx_network(const ModelFolder& folder) {
  if (folder.has(genai_file)) return true;
  if (folder.has("model.safetensors") || folder.has("model.safetensors.index.json")) return false;
  return folder.has(inner_folder) ||
         std::ranges::any_of(network_files, [&](const char* name) { return folder.has(name); });
}

LanguageSource open_onnx_folder(const ModelFolder& folder, std::optional<fs::path> network) {
  LanguageSource source;
  source.name = folder.name();
  source.network = std::make_unique<DecoderNetwork>();
  const bool genai = folder.has(genai_file);
  const char* file = genai ? genai_file : config_file;
  Json config = folder.json(file, largest_config);
  if (genai) {
    config = Json(Fields(config, file).at("model"));
    const std::string name = read_genai(config, source);
    if (!network) network = folder.locate(name);
  } else {
    read_config(config, source);
    if (!network) network = usual_network(folder);
  }
  const Json tokenizer = folder.json("tokenizer.json", largest_vocabulary);
  source.network->model.load(network->string());
  LanguageShape& shape = source.shape;
  for (const ValueInfo& output : source.network->model.network().outputs)
    if (output.name == source.network->names.scores && output.ranked && output.shape.size() == 3 && output.shape[2] > 0)
      shape.vocabulary = output.shape[2];
  if (!shape.vocabulary)
    throw ValidationError("[language] neither the configuration nor the network has a 'vocab_size'");
  if (!shape.context) shape.context = usual_context;
  source.vocabulary = read_vocabulary(tokenizer, shape.vocabulary);
  read_ends(config, file, source);
  read_generation_ends(folder, source);
  return source;
}

}  // namespace dlprim
