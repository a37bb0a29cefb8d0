// SPDX-License-Identifier: MIT
#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands.hpp"
#include "model.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::tools;

struct ConvertOptions : ModelOptions {
  std::string json, parameters_file;
};

void run(const ConvertOptions& o) {
  const std::string parameters =
      o.parameters_file.empty() ? std::filesystem::path(o.json).replace_extension(".dlp").string() : o.parameters_file;
  Net net(make_context(o.device));
  load(net, o);
  save_json(net, o.json, parameters);
  std::printf("%s and %s\n", o.json.c_str(), parameters.c_str());
}

}  // namespace

void convert(CLI::App& program) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = program.add_subcommand("convert", "Writes an ONNX model as a JSON network and its parameters");
  command->add_option("model", options->model, "ONNX file")->required()->check(CLI::ExistingFile);
  command->add_option("json", options->json, "JSON file to write")->required();
  command->add_option("parameters", options->parameters_file,
                      "File for the parameters: .h5, .safetensors, else DLP; default: beside the JSON file, .dlp");
  command->add_option("-b,--batch", options->batch, "First dimension of the inputs")->check(CLI::PositiveNumber);
  command->add_option("--axis", options->axes, "Size that the model leaves open, name=size; may be repeated");
  add_device_option(*command, options->device);
  command->callback([options] { run(*options); });
}
