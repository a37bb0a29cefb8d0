// SPDX-License-Identifier: MIT
#include <dlprim/primitives/conv.hpp>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/runtime/cache.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>

#include "../primitives/gemm/shapes.hpp"
#include "commands.hpp"
#include "measure.hpp"
#include "model.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::tools;

struct TuneOptions {
  std::string device;
  std::vector<std::string> dtypes{"float32", "float64"};
  double seconds = 0.3, scale = 1;
  bool reset = false;
};

// Products and convolutions that a shape is judged by.
class Workload {
 public:
  Workload(const Context& context, DataType dtype, const TuneOptions& o)
      : context_(context), queue_(context.make_execution_context()), dtype_(dtype), seconds_(o.seconds) {
    const bool gpu = context.device().info().gpu;
    const std::int64_t n = std::max<std::int64_t>(64, std::int64_t((gpu ? 4096 : 768) * o.scale) / 64 * 64);
    a_ = tensor({n, n}), b_ = tensor({n, n}), c_ = tensor({n, n});
    const std::int64_t images = gpu ? 64 : 2,
                       channels = std::max<std::int64_t>(16, std::int64_t(128 * o.scale) / 16 * 16);
    x_ = tensor({images, channels, 28, 28}), y_ = tensor({images, channels, 28, 28}),
    w_ = tensor({channels, channels, 3, 3}), dw_ = tensor(w_.shape());
    geometry_.padding = {1, 1, 0};
  }

  double product() {
    return rate(2. * std::pow(double(a_.shape()[0]), 3), [&] { gemm(queue(), view(a_), view(b_), view(c_)); });
  }
  double convolution() {
    return rate(flops(), [&] { conv_forward(queue(), view(x_), view(w_), {}, view(y_), geometry_); });
  }
  double weights() {
    return rate(flops(), [&] { conv_backward_weights(queue(), view(x_), view(y_), view(dw_), geometry_); });
  }

  /// Whether all results are those of the first time, but for rounding.
  bool right() {
    const std::vector<std::vector<double>> got{read(c_), read(y_), read(dw_)};
    if (expected_.empty()) expected_ = got;
    for (std::size_t t = 0; t < got.size(); t++)
      for (std::size_t i = 0; i < got[t].size(); i++)
        if (!(std::abs(got[t][i] - expected_[t][i]) < 1e-2)) return false;
    return true;
  }

 private:
  Queue& queue() const { return queue_.queue(); }
  TensorView view(const Tensor& tensor) const { return tensor.view(queue()); }
  Tensor tensor(const Shape& shape) const {
    std::mt19937 engine(1);
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<double> values(std::size_t(shape.total_size()));
    for (double& value : values) value = uniform(engine);
    Tensor result(context_, shape, dtype_);
    if (dtype_ == DataType::float64) result.to_device(queue_, values);
    else result.to_device(queue_, std::vector<float>(values.begin(), values.end()));
    return result;
  }
  std::vector<double> read(const Tensor& tensor) const {
    std::vector<double> wide(std::size_t(tensor.numel()));
    std::vector<float> narrow(wide.size());
    if (dtype_ == DataType::float64) tensor.to_host(queue_, wide);
    else tensor.to_host(queue_, narrow), wide.assign(narrow.begin(), narrow.end());
    return wide;
  }
  double flops() const { return 2. * double(y_.numel()) * double(w_.numel() / w_.shape()[0]); }
  double rate(double flops, const std::function<void()>& work) const {
    return flops / best_milliseconds(queue_, seconds_, work) * 1e-6;
  }

  Context context_;
  ExecutionContext queue_;
  DataType dtype_;
  double seconds_;
  Tensor a_, b_, c_, x_, y_, w_, dw_;
  std::vector<std::vector<double>> expected_;
  ConvOptions geometry_;
};

// The relative speed of every tile, which the engine's model of a device's time goes by.
std::vector<std::string> tune_tiles(const DeviceInfo& info, const std::string& key, Workload& workload) {
  std::vector<TileShape> all;
  double best = 0, best_weights = 0;
  Table table({"tile", "product GFLOP/s", "weights GFLOP/s"});
  for (const std::string& line : tuning::shipped_values(info, key)) {
    tuning::set(info, key, {line});
    TileShape measured = read_tiles(info, key.substr(std::strlen("gemm.tiles.")), "tiled").shapes[0];
    try {
      measured.speed = float(std::max(workload.product(), workload.convolution())),
      measured.weights_speed = float(workload.weights());
    } catch (const DeviceError&) {
      continue;  // too large for the device
    }
    if (!workload.right()) continue;
    best = std::max(best, double(measured.speed)),
    best_weights = std::max(best_weights, double(measured.weights_speed));
    table.add({text_of(measured), text(measured.speed, 1), text(measured.weights_speed, 1)});
    all.push_back(measured);
  }
  std::vector<std::string> lines;
  for (TileShape& tile : all) {
    tile.speed /= float(best), tile.weights_speed /= float(best);
    lines.push_back(line_of(tile));
  }
  table.print();
  return lines;
}

// The panels, the fastest first.
std::vector<std::string> tune_panels(const DeviceInfo& info, const std::string& key, Workload& workload) {
  std::vector<std::pair<double, std::string>> timed;
  Table table({"panel", "product GFLOP/s", "convolution GFLOP/s", "weights GFLOP/s"});
  for (const std::string& line : tuning::shipped_values(info, key)) {
    tuning::set(info, key, {line});
    const std::string name = line.substr(0, line.find(' '));
    try {
      const double rates[] = {workload.product(), workload.convolution(), workload.weights()};
      if (!workload.right()) continue;
      table.add({name, text(rates[0], 1), text(rates[1], 1), text(rates[2], 1)});
      timed.emplace_back(-std::cbrt(rates[0] * rates[1] * rates[2]), line);
    } catch (const Error&) {
      table.add({name, "too large for the device"});
    }
  }
  table.print();
  std::ranges::sort(timed);
  std::vector<std::string> lines;
  for (const auto& [rate, line] : timed) lines.push_back(line);
  return lines;
}

void run(const TuneOptions& o) {
  const Context context = make_context(o.device);
  const DeviceInfo& info = context.device().info();
  for (const std::string& type : o.dtypes) {
    const DataType dtype = parse_data_type(type);
    const std::string key = (info.cpu ? "gemm.panels." : "gemm.tiles.tiled.") + type;
    tuning::forget(info, key);
    if (o.reset || (dtype == DataType::float64 && !info.fp64)) continue;
    std::printf("%s, %s\n", context.name().c_str(), name(dtype));
    Workload workload(context, dtype, o);
    const auto lines = info.cpu ? tune_panels(info, key, workload) : tune_tiles(info, key, workload);
    tuning::forget(info, key);
    if (!lines.empty()) tuning::keep(info, key, lines);
  }
  std::printf("%s %s\n", o.reset ? "forgotten in" : "kept in", program_cache_summary().file.c_str());
}

}  // namespace

void tune(CLI::App& program) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command = program.add_subcommand(
      "tune", "Measures the tile sizes of matrix products and convolutions and remembers the best");
  add_device_option(*command, options->device);
  command->add_option("-t,--seconds", options->seconds, "Time for each measurement")->check(CLI::Range(0.001, 60.));
  command->add_option("-s,--scale", options->scale, "Larger or smaller problems")->check(CLI::Range(0.01, 16.));
  command->add_option("--dtypes", options->dtypes, "float32, float64; 16-bit floats go with float32")
      ->delimiter(',')
      ->check(CLI::IsMember({"float32", "float64"}));
  command->add_flag("--reset", options->reset, "Go back to the defaults");
  command->callback([options] { run(*options); });
}
