// SPDX-License-Identifier: MIT
#include "onnx_decoder.hpp"

#include <dlprim/error.hpp>
#include <dlprim/primitives/range.hpp>

#include <algorithm>

#include "../array.hpp"

namespace dlprim {

namespace {

// The layer that a name is of, by a pattern with %d; nothing where it is of none.
std::optional<std::string> layer_of(const std::string& name, const std::string& pattern) {
  const std::size_t at = pattern.find("%d");
  if (at == std::string::npos) return {};
  const std::string head = pattern.substr(0, at), tail = pattern.substr(at + 2);
  if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail)) return {};
  const std::string number = name.substr(head.size(), name.size() - head.size() - tail.size());
  if (number.find_first_not_of("0123456789") != number.npos) return {};
  return number;
}

std::string with_layer(std::string pattern, const std::string& layer) {
  if (const std::size_t at = pattern.find("%d"); at != std::string::npos) pattern.replace(at, 2, layer);
  return pattern;
}

}  // namespace

OnnxDecoder::OnnxDecoder(const Context& context, DecoderNetwork network, std::int64_t positions,
                         std::optional<DataType> dtype)
    : net_(context), execution_(context.make_execution_context()), positions_(positions) {
  net_.load_model(network.model);
  for (const auto& [id, tensor] : net_.network().constants) weight_bytes_ += tensor.bytes();
  find_inputs(network);
  scores_ = net_.output_index(network.names.scores);
  dtype_ = net_.output_info(scores_).dtype;
  if (!kept_.empty()) dtype_ = net_.input_info(kept_[0].input).dtype;
  if (dtype && *dtype != dtype_)
    throw ValidationError(std::string("[language] the network computes in ") + name(dtype_) + ", not in " +
                          name(*dtype) + ": its file says so");
  restart(0);
}

void OnnxDecoder::find_inputs(const DecoderNetwork& network) {
  const DecoderNames& names = network.names;
  std::string others;
  for (int i = 0; i < net_.inputs(); i++) {
    const ValueInfo& info = net_.input_info(i);
    if (info.name == names.tokens) tokens_ = i;
    else if (info.name == names.mask) mask_ = i;
    else if (info.name == names.positions) numbers_ = i;
    else if (info.name == "use_cache_branch") cached_ = i;
    else if (info.name == "num_logits_to_keep") rows_ = i;
    else if (const auto keys = layer_of(info.name, names.past_keys))
      find_kept(network, with_layer(names.present_keys, *keys), i);
    else if (const auto values = layer_of(info.name, names.past_values))
      find_kept(network, with_layer(names.present_values, *values), i);
    else others += (others.empty() ? "'" : ", '") + info.name + "'";
  }
  if (!others.empty())
    throw NotImplementedError("[language] a network with the inputs " + others + " is not supported");
  if (tokens_ < 0) throw ValidationError("[language] the network has no input '" + names.tokens + "'");
  if (kept_.empty())
    throw NotImplementedError("[language] the network has no inputs '" + names.past_keys +
                              "' for keys and values of past tokens: export it with a cache");
}

void OnnxDecoder::find_kept(const DecoderNetwork& network, const std::string& name, int input) {
  const ValueInfo& info = net_.input_info(input);
  if (!info.ranked || info.shape.size() != 4)
    throw ValidationError("[language] expected [batch, heads, tokens, width] for '" + info.name + "'");
  const auto size = [&](int d, std::int64_t otherwise) {
    const std::int64_t value = info.shape[d] >= 0 ? info.shape[d] : otherwise;
    if (value < 1)
      throw ValidationError("[language] neither the configuration nor the network has the sizes of '" + info.name +
                            "'");
    return value;
  };
  if (info.shape[0] > 1 || info.shape[2] > 0)
    throw NotImplementedError("[language] networks with a fixed number of sequences or past tokens, as '" + info.name +
                              "' has, are not supported");
  kept_.push_back({input, net_.output_index(name), {1, size(1, network.heads), 0, size(3, network.head_width)}});
}

void OnnxDecoder::restart(std::int64_t) {
  length_ = 0;
  for (const Kept& kept : kept_)
    net_.set_input(kept.input, Tensor(execution_.queue(), net_.input_info(kept.input).dtype, kept.empty));
}

// The input [1, count] of numbers from `from` on.
void OnnxDecoder::set_numbers(int input, std::int64_t from, std::int64_t count) {
  const Tensor numbers(execution_.queue(), net_.input_info(input).dtype, {1, count});
  sequence(execution_.queue(), numbers.view(execution_.queue()), from, 1);
  net_.set_input(input, numbers);
}

Tensor OnnxDecoder::run(const Tensor& tokens, bool all) {
  Queue& queue = execution_.queue();
  const std::int64_t count = tokens.numel(), total = length_ + count;
  if (total > positions_)
    throw ValidationError("[language] " + std::to_string(total) + " tokens do not fit a context of " +
                          std::to_string(positions_));
  net_.set_input(tokens_, reshape(queue, cast(queue, tokens, net_.input_info(tokens_).dtype), {1, count}));
  if (mask_ >= 0) net_.set_input(mask_, filled(queue, net_.input_info(mask_).dtype, {1, total}, 1));
  if (numbers_ >= 0) set_numbers(numbers_, length_, count);
  if (cached_ >= 0) {
    const bool cached = length_ > 0;
    net_.set_input(cached_, Tensor::from_host(DataType::boolean, {1}, &cached));
  }
  if (rows_ >= 0) {
    const std::int64_t rows = all ? count : 1;
    net_.set_input(rows_, Tensor::from_host(DataType::int64, net_.input_info(rows_).shape, &rows));
  }
  net_.forward(execution_);
  const Tensor scores = net_.output(scores_);
  const Shape& shape = scores.shape();
  if (shape.size() != 3 || shape[0] != 1 || (shape[1] != count && (all || shape[1] != 1)))
    throw ValidationError("[language] expected scores of " + std::to_string(all ? count : 1) + " tokens, got " +
                          shape.text());
  for (const Kept& kept : kept_) net_.set_input(kept.input, net_.output(kept.output));
  length_ = total;
  return reshape(queue, all ? scores : narrow(scores, 1, shape[1] - 1, 1), {all ? count : 1, shape[2]});
}

}  // namespace dlprim
