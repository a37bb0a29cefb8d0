// SPDX-License-Identifier: MIT
#include <dlprim/runtime/memory.hpp>

#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "measure.hpp"
#include "model.hpp"
#include "profile.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::tools;

struct BenchmarkOptions : ModelOptions {
  std::vector<std::string> models, devices;
  std::string csv, solver;
  int runs = 20, warm_up = 5;
  bool backward = false, profile = false;
};

std::unique_ptr<Solver> make_solver(Net& net, const std::string& name) {
  if (name == "sgd") return std::make_unique<SGD>(net);
  if (name == "adam") return std::make_unique<Adam>(net);
  if (name == "adamw") return std::make_unique<AdamW>(net);
  return nullptr;
}

// Without a loss, training starts from zeros at the first output: the same work.
void seed_gradients(Net& net) {
  for (int i = 0; i < net.outputs(); i++)
    if (net.loss_weight(net.output_info(i).name) != 0) return;
  net.output_diff(net.output_info(0).name);
}

// One network on one device: a row of the table.
void run(const BenchmarkOptions& o, const std::string& model, const std::string& device, Table& table) {
  const Context context = make_context(device);
  const ExecutionContext queue = context.make_execution_context();
  ModelOptions chosen = o;
  chosen.model = model;
  Net net(context);
  const bool training = o.backward || !o.solver.empty();
  net.mode(training ? CalculationsMode::train : CalculationsMode::predict);
  load(net, chosen);
  fill_inputs(net, queue);
  context.device().allocator().reset_peak_stats();
  const Times forward = measure(queue, o.warm_up, o.runs, [&] { net.forward(queue); });
  std::vector<std::string> row{
      model,
      context.name(),
      std::to_string(net.inputs() && net.input(0).shape().size() ? net.input(0).shape()[0] : 1),
      text(forward.first, 1),
      text(forward.median, 2),
      text(forward.best, 2),
      text(forward.worst, 2)};
  auto backward = [&] { net.zero_grad(), net.forward(queue), seed_gradients(net), net.backward(queue); };
  const std::unique_ptr<Solver> solver = make_solver(net, o.solver);
  auto step = [&] { backward(), solver->step(queue); };
  row.push_back(training ? text(measure(queue, o.warm_up, o.runs, backward).median, 2) : "");
  row.push_back(solver ? text(measure(queue, o.warm_up, o.runs, step).median, 2) : "");
  row.push_back(text(double(context.device().allocator().stats().allocated_bytes.peak) / (1 << 20), 1));
  table.add(row);
  if (!o.profile) return;
  std::printf("%s on %s\n", model.c_str(), context.name().c_str());
  profile("forward", [&] { net.forward(queue); });
  if (training)
    net.zero_grad(), net.forward(queue), seed_gradients(net), profile("backward", [&] { net.backward(queue); });
  if (solver) profile("update", [&] { solver->step(queue); });
}

}  // namespace

void benchmark(CLI::App& program) {
  auto options = std::make_shared<BenchmarkOptions>();
  CLI::App* command = program.add_subcommand("benchmark", "Times networks: forward, with gradients, training steps");
  command->add_option("models", options->models, "Networks: .onnx or .json")->required()->check(CLI::ExistingFile);
  command->add_option("-P,--parameters", options->parameters, "Parameters of a JSON network")->check(CLI::ExistingFile);
  command->add_option("-b,--batch", options->batch, "First dimension of the inputs")->check(CLI::PositiveNumber);
  command->add_option("--axis", options->axes, "Size that an ONNX model leaves open, name=size; may be repeated");
  command->add_option("-d,--device", options->devices,
                      "platform:device, an index, cpu, gpu or part of a name; may be repeated");
  command->add_option("-i,--runs", options->runs, "Runs that are timed")->check(CLI::PositiveNumber);
  command->add_option("-w,--warm-up", options->warm_up, "Runs before them")->check(CLI::PositiveNumber);
  command->add_flag("-B,--backward", options->backward, "Time forward and backward, too");
  command->add_option("-s,--solver", options->solver, "Time training steps, too: sgd, adam, adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  command->add_flag("-p,--profile", options->profile, "Show the time of every operator and every kernel");
  command->add_option("--csv", options->csv, "File for the table");
  command->callback([options] {
    Table table({"network", "device", "batch", "first ms", "forward ms", "best", "worst", "+ backward ms",
                 "training step ms", "peak MiB"});
    if (options->devices.empty()) options->devices.emplace_back();
    for (const std::string& model : options->models)
      for (const std::string& device : options->devices) run(*options, model, device, table);
    table.print();
    if (!options->csv.empty()) table.save_csv(options->csv);
  });
}
