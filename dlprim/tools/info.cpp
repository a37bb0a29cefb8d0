// SPDX-License-Identifier: MIT
#include <dlprim/net/operators.hpp>

#include <cstdio>
#include <map>
#include <memory>

#include "commands.hpp"
#include "model.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::tools;

void show_devices() {
  if (Device::count() == 0) throw Error(Device::missing_reason());
  for (int i = 0; i < Device::count(); i++) {
    const DeviceInfo& d = Device::get(i).info();
    std::printf("%d  %-5s %s on %s\n", i, d.id.c_str(), d.name.c_str(), d.platform.c_str());
    std::printf("         %s, driver %s, %u compute units, %.1f GiB%s%s\n", d.version.c_str(), d.driver.c_str(),
                d.compute_units, double(d.global_memory) / (1 << 30), d.fp16 ? ", float16" : "",
                d.fp64 ? ", float64" : "");
  }
}

void show_value(const char* what, const ValueInfo& value) {
  std::string shape;
  for (int d = 0; d < value.shape.size(); d++) {
    const std::string& size = value.names[std::size_t(d)];
    shape += (d ? ", " : "") + (value.shape[d] >= 0 ? std::to_string(value.shape[d]) : size.empty() ? "?" : size);
  }
  std::printf("%-7s %s: %s%s\n", what, value.name.c_str(), name(value.dtype),
              value.ranked ? (" [" + shape + "]").c_str() : "");
}

void show(const Network& network) {
  for (const ValueInfo& value : network.inputs) show_value("input", value);
  for (const ValueInfo& value : network.outputs) show_value("output", value);
  std::int64_t constants = 0, parameters = 0;
  for (const auto& [id, tensor] : network.constants) constants += tensor.numel();
  for (const Parameter& parameter : network.parameters) {
    parameters += parameter.shape.total_size();
    if (network.constants.contains(parameter.value)) constants -= parameter.shape.total_size();
  }
  std::map<std::string, int> types;
  for (const Node& node : network.graph.nodes) types[node.type]++;
  std::printf("%zu nodes, %lld parameters in %zu tensors, %lld numbers in other constants\n",
              network.graph.nodes.size(), static_cast<long long>(parameters), network.parameters.size(),
              static_cast<long long>(constants));
  for (const auto& [type, count] : types) std::printf("  %5d %s\n", count, type.c_str());
}

void show_operators() {
  constexpr const char* gradients[] = {"no gradient", "gradient 0", "gradient"};
  for (const OperatorInfo& info : supported_operators())
    std::printf("%-13s %-32s %-12s %s\n", info.domain.empty() ? "onnx" : info.domain.c_str(), info.type.c_str(),
                gradients[info.gradient], info.attributes.c_str());
}

void show_model(const std::string& path) {
  if (is_json(path)) {
    JSONModel model;
    model.load(path);
    return show(model.network());
  }
  ONNXModel model;
  model.load(path);
  show(model.network());
}

}  // namespace

void info(CLI::App& program) {
  auto path = std::make_shared<std::string>();
  auto operators = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand("info", "Lists devices, or what a network takes, gives and is made of");
  command->add_option("model", *path, "Network: .onnx or .json")->check(CLI::ExistingFile);
  command->add_flag("--operators", *operators, "List the operators that networks may hold, and which have gradients");
  command->callback([path, operators] {
    *operators ? show_operators() : path->empty() ? show_devices() : show_model(*path);
  });
}
