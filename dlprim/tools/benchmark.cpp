// SPDX-License-Identifier: MIT
#include <dlprim/dlprim.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/profile.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <random>

#include "commands.hpp"

namespace {

using namespace dlprim;

struct Options {
  std::string model, device;
  std::int64_t batch = 1;
  int runs = 20, warm_up = 5;
  bool profile = false;
};

// Numbers of a normal distribution for floats, zeros for others.
void fill_inputs(Net& net, const ExecutionContext& context) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (int i = 0; i < net.inputs(); i++) {
    Tensor& input = net.input(i);
    if (input.dtype() == DataType::float32) {
      std::vector<float> values(std::size_t(input.numel()));
      for (float& value : values) value = normal(engine);
      input.to_device(context, values);
    } else {
      const std::vector<std::byte> zeros(input.bytes());
      input.to_device(context, zeros.data());
    }
  }
}

double milliseconds(Net& net, const ExecutionContext& context) {
  const auto start = std::chrono::steady_clock::now();
  net.forward(context);
  context.finish();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void show_profile(Net& net, const ExecutionContext& context) {
  struct Row {
    std::uint64_t nanoseconds = 0, bytes = 0;
    int count = 0;
  };
  std::map<std::string, Row> rows;
  std::uint64_t total = 0;
  const std::size_t start = Profiler::start();
  net.forward(context);
  for (const ProfiledCommand& command : Profiler::stop(start)) {
    Row& row = rows[command.name];
    row.nanoseconds += command.end - command.start, row.bytes += command.bytes, row.count++;
    total += command.end - command.start;
  }
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.nanoseconds > b.second.nanoseconds; });
  std::printf("%-36s %6s %10s %6s %8s\n", "kernel", "count", "ms", "%", "GB/s");
  for (const auto& [kernel, row] : sorted)
    std::printf("%-36s %6d %10.3f %6.1f %8.1f\n", kernel.c_str(), row.count, double(row.nanoseconds) * 1e-6,
                100. * double(row.nanoseconds) / double(total), double(row.bytes) / double(std::max<std::uint64_t>(1, row.nanoseconds)));
}

void run(const Options& o) {
  ONNXModel model;
  model.load(o.model);
  model.set_batch(o.batch);
  const Context context = o.device.empty() ? Context() : Context(o.device);
  Net net(context);
  net.load_model(model);
  const ExecutionContext queue = context.make_execution_context();
  fill_inputs(net, queue);
  const double first = milliseconds(net, queue);
  for (int i = 1; i < o.warm_up; i++) milliseconds(net, queue);
  std::vector<double> times;
  for (int i = 0; i < o.runs; i++) times.push_back(milliseconds(net, queue));
  std::sort(times.begin(), times.end());
  std::printf("%s\nbatch %lld: first run %.1f ms, then median %.2f ms, best %.2f ms, worst %.2f ms\n", context.name().c_str(),
              static_cast<long long>(o.batch), first, times[times.size() / 2], times.front(), times.back());
  std::printf("device memory: peak %.1f MiB\n", double(context.device().allocator().stats().allocated_bytes.peak) / (1 << 20));
  if (o.profile) show_profile(net, queue);
}

}  // namespace

void benchmark(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("benchmark", "Times a network");
  command->add_option("model", options->model, "ONNX file")->required()->check(CLI::ExistingFile);
  command->add_option("-d,--device", options->device, "platform:device, an index, cpu, gpu or part of a name");
  command->add_option("-b,--batch", options->batch, "size of the first dimension where it is open")->check(CLI::PositiveNumber);
  command->add_option("-i,--runs", options->runs, "runs that are timed")->check(CLI::PositiveNumber);
  command->add_option("-w,--warm-up", options->warm_up, "runs before them")->check(CLI::PositiveNumber);
  command->add_flag("-p,--profile", options->profile, "show the time of every kernel");
  command->callback([options] { run(*options); });
}
