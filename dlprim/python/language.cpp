// SPDX-License-Identifier: MIT
#include <dlprim/net/language.hpp>

#include "bindings.hpp"

namespace dlprim::python {

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using Tokens = std::vector<std::int64_t>;

SamplingOptions sampling(std::int64_t tokens, double temperature, std::int64_t top_k, double top_p, std::uint64_t seed,
                         bool stop) {
  return {tokens, temperature, top_k, top_p, seed, stop};
}

nb::dict summary(const Generator& generator) {
  const ModelSummary s = generator.summary();
  nb::dict result;
  result["architecture"] = s.architecture, result["name"] = s.name, result["layers"] = s.layers;
  result["width"] = s.width, result["vocabulary"] = s.vocabulary, result["context"] = s.context;
  result["weight_bytes"] = s.weight_bytes, result["dtype"] = name(s.dtype);
  return result;
}

nb::dict times(const Generator& generator) {
  const GenerationTimes t = generator.times();
  nb::dict result;
  result["prompt_tokens"] = t.prompt_tokens, result["tokens"] = t.tokens;
  result["prompt_seconds"] = t.prompt_seconds, result["seconds"] = t.seconds;
  return result;
}

nb::object scores(Generator& generator, const Tokens& tokens) {
  std::vector<float> values;
  {
    nb::gil_scoped_release release;
    values = generator.scores(tokens);
  }
  const auto rows = std::int64_t(tokens.size());
  const Tensor tensor = Tensor::from_host(DataType::float32, {rows, std::int64_t(values.size()) / rows}, values.data());
  return to_array(Context().make_execution_context(), tensor);
}

}  // namespace

void bind_language(nb::module_& m) {
  nb::class_<Generator>(m, "GeneratorCore", "What dlprim.Generator is made of.")
      .def(
          "__init__",
          [](Generator* self, const Context& context, const std::string& path, std::int64_t length,
             const std::optional<std::string>& dtype) {
            GeneratorOptions options{length};
            if (dtype) options.dtype = parse_data_type(*dtype);
            nb::gil_scoped_release release;
            new (self) Generator(context, path, options);
          },
          "device"_a, "path"_a, "context"_a = 0, "dtype"_a = nb::none())
      .def_prop_ro("summary", &summary)
      .def_prop_ro("times", &times)
      .def(
          "encode", [](const Generator& g, const std::string& text, bool begin) { return g.encode(text, begin); },
          "text"_a, "begin"_a = true)
      .def(
          "piece",
          [](const Generator& g, std::int64_t token) {
            const std::string piece = g.piece(token);
            return nb::bytes(piece.data(), piece.size());
          },
          "token"_a)
      .def(
          "decode",
          [](const Generator& g, const Tokens& tokens) {
            const std::string text = g.decode(tokens);
            return nb::bytes(text.data(), text.size());
          },
          "tokens"_a)
      .def(
          "start",
          [](Generator& g, const Tokens& prompt, std::int64_t tokens, double temperature, std::int64_t top_k,
             double top_p, std::uint64_t seed,
             bool stop) { g.start(prompt, sampling(tokens, temperature, top_k, top_p, seed, stop)); },
          "prompt"_a, "tokens"_a, "temperature"_a, "top_k"_a, "top_p"_a, "seed"_a, "stop"_a, Release())
      .def("next", &Generator::next, Release())
      .def("scores", &scores, "tokens"_a);
}

}  // namespace dlprim::python
