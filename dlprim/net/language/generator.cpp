// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/net/language.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "../array.hpp"
#include "decoder.hpp"
#include "onnx_decoder.hpp"
#include "sampler.hpp"
#include "source.hpp"
#include "tokenizer.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t usual_context = 4096;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Bytes at the end of a text that begin a character whose rest is yet to come.
std::size_t open_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); back++) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t wanted = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return wanted > back ? back : 0;
  }
  return 0;
}

// The same with U+FFFD for each byte that belongs to no character.
std::string repaired(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t count = character_bytes(text);
    result += count ? text.substr(0, count) : "\xef\xbf\xbd";
    text.remove_prefix(std::max<std::size_t>(1, count));
  }
  return result;
}

DataType computed_type(const Context& context, const GeneratorOptions& options) {
  const DataType type = options.dtype.value_or(context.device().info().cpu ? DataType::float32 : DataType::bfloat16);
  if (!is_floating(type) || type == DataType::float64)
    throw ValidationError(std::string("[language] expected float32, float16 or bfloat16, got ") + name(type));
  return type;
}

std::int64_t room(const LanguageShape& shape, const GeneratorOptions& options) {
  if (options.context < 0 || options.context > shape.context)
    throw ValidationError("[language] expected a context of 1 to " + std::to_string(shape.context) + ", got " +
                          std::to_string(options.context));
  return options.context ? options.context : std::min(usual_context, shape.context);
}

std::unique_ptr<TokenModel> model_of(const Context& context, LanguageSource& source, const GeneratorOptions& options) {
  const std::int64_t positions = room(source.shape, options);
  if (source.network)
    return std::make_unique<OnnxDecoder>(context, std::move(*source.network), positions, options.dtype);
  return std::make_unique<Decoder>(context.device().default_queue(), *source.weights, source.shape, positions,
                                   computed_type(context, options));
}

}  // namespace

struct Generator::State {
  State(const Context& context, LanguageSource source, const GeneratorOptions& options)
      : queue(context.device().default_queue()), shape(source.shape), tokenizer(std::move(source.vocabulary)),
        model(model_of(context, source, options)), name(source.name) {
    if (tokenizer.size() > shape.vocabulary)
      throw ValidationError("[language] a vocabulary of " + std::to_string(tokenizer.size()) +
                            " pieces, with scores of " + std::to_string(shape.vocabulary));
  }

  void check(std::span<const std::int64_t> tokens) const {
    if (tokens.empty()) throw ValidationError("[language] expected at least one token of a prompt");
    for (std::int64_t token : tokens)
      if (token < 0 || token >= shape.vocabulary)
        throw ValidationError("[language] token " + std::to_string(token) + " of a vocabulary of " +
                              std::to_string(shape.vocabulary));
  }

  // Begins to move the token that is on the device to the host.
  void fetch(const Tensor& token) {
    on_device = token;
    queue.read(&on_host, token.view(queue).data, sizeof on_host, false);
    fetched = queue.record();
    queue.flush();
  }

  Queue& queue;
  LanguageShape shape;
  Tokenizer tokenizer;
  std::unique_ptr<TokenModel> model;
  std::string name;
  SamplingOptions options;
  std::optional<Sampler> sampler;
  GenerationTimes times;
  Tensor scores, on_device;
  std::int64_t on_host = 0;
  Event fetched;
  std::int64_t left = 0;
  double begun = 0;
};

Generator::Generator(const Context& context, const std::string& path, const GeneratorOptions& options)
    : state_(std::make_unique<State>(context, open_language_model(path), options)) {}
Generator::Generator(Generator&&) noexcept = default;

Generator::~Generator() {
  if (!state_) return;
  try {
    state_->queue.finish();  // a token may be on its way into the state
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): nobody is left to hear of it
  }
}

ModelSummary Generator::summary() const {
  const LanguageShape& s = state_->shape;
  return {s.architecture,
          state_->name,
          s.layers,
          s.width,
          s.vocabulary,
          state_->model->context(),
          state_->model->weight_bytes(),
          state_->model->dtype()};
}

std::vector<std::int64_t> Generator::encode(std::string_view text, bool begin) const {
  return state_->tokenizer.encode(text, begin);
}
std::string Generator::decode(std::span<const std::int64_t> tokens) const { return state_->tokenizer.decode(tokens); }
std::string Generator::piece(std::int64_t token) const {
  return token >= state_->tokenizer.size() ? "" : state_->tokenizer.piece(token);
}
GenerationTimes Generator::times() const { return state_->times; }

void Generator::start(std::span<const std::int64_t> tokens, const SamplingOptions& options) {
  State& s = *state_;
  s.check(tokens);
  s.sampler.emplace(options), s.options = options;
  const auto count = std::int64_t(tokens.size());
  if (count > s.model->context())
    throw ValidationError("[language] a prompt of " + std::to_string(count) + " tokens does not fit a context of " +
                          std::to_string(s.model->context()));
  s.begun = now();
  s.times = {count, 0, 0, 0};
  s.model->restart(count);
  // A token is chosen from the scores behind each position of the context, the last one included.
  s.left = std::min(options.tokens, s.model->context() - count + 1);
  const std::int64_t part = s.model->part();
  for (std::int64_t at = 0; at < count; at += part)
    s.scores =
        s.model->run(Tensor::from_integers(tokens.subspan(std::size_t(at), std::size_t(std::min(part, count - at)))));
  if (s.sampler->greedy() && s.left > 0) s.fetch(Sampler::best(s.queue, s.scores));
}

// With the best token always, the device goes on with it while the host learns of it.
std::optional<std::int64_t> Generator::next() {
  State& s = *state_;
  if (s.left <= 0 || !s.sampler) return {};
  Sampler& sampler = *s.sampler;
  s.left--;
  std::int64_t token = 0;
  if (sampler.greedy()) {
    const Event arrives = s.fetched;
    if (s.left > 0) s.scores = s.model->run(s.on_device);
    s.queue.flush();
    arrives.wait();
    token = s.on_host;
    if (s.left > 0) s.fetch(Sampler::best(s.queue, s.scores));
  } else {
    token = sampler.draw(s.queue, s.scores);
    if (s.left > 0) s.scores = s.model->run(Tensor::from_integers(std::span(&token, 1)));
    s.queue.flush();
  }
  if (s.times.tokens == 0) s.times.prompt_seconds = now() - s.begun, s.begun = now();
  else s.times.seconds = now() - s.begun;
  if (s.options.stop && s.tokenizer.ends(token)) {
    s.left = 0;
    return {};
  }
  s.times.tokens++;
  return token;
}

std::string Generator::generate(std::string_view prompt, const SamplingOptions& options,
                                const std::function<bool(std::string_view)>& take) {
  start(encode(prompt), options);
  std::string text, rest;
  const auto give = [&](std::size_t count) {
    const std::string part = repaired(std::string_view(rest).substr(0, count));
    rest.erase(0, count), text += part;
    return part.empty() || !take || take(part);
  };
  while (const std::optional<std::int64_t> token = next()) {
    rest += piece(*token);
    if (!give(rest.size() - open_bytes(rest))) {
      state_->left = 0;
      return text;
    }
  }
  give(rest.size());
  return text;
}

std::vector<float> Generator::scores(std::span<const std::int64_t> tokens) {
  State& s = *state_;
  s.check(tokens);
  s.left = 0;
  s.model->restart(std::int64_t(tokens.size()));
  const Tensor all = cast(s.queue, s.model->run(Tensor::from_integers(tokens), true), DataType::float32);
  std::vector<float> result(std::size_t(all.numel()));
  s.queue.read(result.data(), all.view(s.queue).data, all.bytes(), true);
  s.queue.finish();
  return result;
}

}  // namespace dlprim
