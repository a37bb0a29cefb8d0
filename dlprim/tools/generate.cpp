// SPDX-License-Identifier: MIT
#include <dlprim/net/language.hpp>

#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "model.hpp"
#include "profile.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::tools;

struct GenerateOptions {
  std::string model, prompt, device, dtype;
  GeneratorOptions generator;
  SamplingOptions sampling;
  bool all = false, quiet = false, profile = false;
};

double rate(std::int64_t tokens, double seconds) { return seconds > 0 ? double(tokens) / seconds : 0; }

// The text up to its first token, and the rest of it, twice: kernels are built and tuned the first time.
void show_profiles(Generator& generator, const GenerateOptions& o) {
  const std::vector<std::int64_t> prompt = generator.encode(o.prompt);
  const auto begin = [&] { generator.start(prompt, o.sampling), generator.next(); };
  const auto go_on = [&] {
    while (generator.next()) continue;
  };
  begin(), go_on();
  profile("prompt", begin);
  profile("text", go_on);
}

void run(GenerateOptions& o) {
  if (!o.dtype.empty()) o.generator.dtype = parse_data_type(o.dtype);
  o.sampling.stop = !o.all;
  const Context context = make_context(o.device);
  Generator generator(context, o.model, o.generator);
  const ModelSummary model = generator.summary();
  if (!o.quiet)
    std::fprintf(stderr, "%s%s%s, %lld layers, %.0f MiB of weights, %s on %s\n", model.name.c_str(),
                 model.name.empty() ? "" : ": ", model.architecture.c_str(), static_cast<long long>(model.layers),
                 double(model.weight_bytes) / (1 << 20), name(model.dtype), context.name().c_str());
  if (o.profile) return show_profiles(generator, o);
  generator.generate(o.prompt, o.sampling, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0;
  });
  std::printf("\n");
  const GenerationTimes t = generator.times();
  if (!o.quiet)
    std::fprintf(stderr, "prompt: %lld tokens, %.1f tokens/s; text: %lld tokens, %.2f tokens/s\n",
                 static_cast<long long>(t.prompt_tokens), rate(t.prompt_tokens, t.prompt_seconds),
                 static_cast<long long>(t.tokens), rate(t.tokens - 1, t.seconds));
}

}  // namespace

void generate(CLI::App& program) {
  auto options = std::make_shared<GenerateOptions>();
  SamplingOptions& sampling = options->sampling;
  CLI::App* command = program.add_subcommand(
      "generate", "Goes on with a text by a language model: GGUF, a folder of transformers, or ONNX");
  command
      ->add_option(
          "model", options->model,
          "Language model: .gguf, a folder with model.safetensors, one with an ONNX decoder, or that .onnx file")
      ->required()
      ->check(CLI::ExistingPath);
  command->add_option("-p,--prompt", options->prompt, "The text to go on with")->required();
  command->add_option("-n,--tokens", sampling.tokens, "Tokens to add at most; default 128")
      ->check(CLI::NonNegativeNumber);
  command->add_option("-t,--temperature", sampling.temperature, "Of the choice; default 0: always the most probable")
      ->check(CLI::NonNegativeNumber);
  command->add_option("-k,--top-k", sampling.top_k, "Choose among that many tokens; default 40, 0: all")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--top-p", sampling.top_p, "Choose among the tokens that have this probability; default 0.95");
  command->add_option("-s,--seed", sampling.seed, "Of the choice; default 0");
  command->add_flag("-a,--all", options->all, "Do not end where the model ends the text");
  command->add_option("-c,--context", options->generator.context,
                      "Tokens that there is room for; default: the model's, at most 4096");
  command->add_option(
      "--dtype", options->dtype,
      "float32, float16 or bfloat16; default: float32 on CPUs, bfloat16 elsewhere; ONNX: what the file has");
  command->add_flag("--profile", options->profile, "Print what kernels take, of the prompt and of the text");
  command->add_flag("-q,--quiet", options->quiet, "Print the text only");
  add_device_option(*command, options->device);
  command->callback([options] { run(*options); });
}
