// SPDX-License-Identifier: MIT
#include <dlprim/primitives/conv.hpp>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/primitives/reduce.hpp>
#include <dlprim/runtime/custom_kernel.hpp>

#include <cstdio>
#include <memory>
#include <set>

#include "commands.hpp"
#include "measure.hpp"
#include "model.hpp"
#include "roofline.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::tools;

struct FlopsOptions {
  std::string device, csv, plot;
  std::vector<std::string> parts{"memory", "peak", "gemm", "conv"};
  double scale = 1, seconds = 0.2;
  std::int64_t batch = 8;
};

// Layers of well-known networks.
struct Layer {
  const char* name;
  std::int64_t in, out, kernel, stride, padding, groups, size;
};
constexpr Layer layers[] = {
    {"alexnet 11x11", 3, 64, 11, 4, 2, 1, 224},
    {"alexnet 5x5", 64, 192, 5, 1, 2, 1, 27},
    {"resnet 7x7", 3, 64, 7, 2, 3, 1, 224},
    {"resnet 3x3 64", 64, 64, 3, 1, 1, 1, 56},
    {"resnet 3x3 256", 256, 256, 3, 1, 1, 1, 14},
    {"resnet 1x1 64-256", 64, 256, 1, 1, 0, 1, 56},
    {"resnet 1x1 1024-256", 1024, 256, 1, 1, 0, 1, 14},
    {"resnext 3x3 grouped", 128, 128, 3, 1, 1, 32, 56},
    {"mobilenet depthwise", 96, 96, 3, 1, 1, 96, 56},
};

class Report {
 public:
  explicit Report(const FlopsOptions& options)
      : options_(options), context_(make_context(options.device)), ec_(context_.make_execution_context()) {
    roofline_.title = context_.name();
    std::printf("%s\n", context_.name().c_str());
  }

  void run() {
    const std::set<std::string> parts(options_.parts.begin(), options_.parts.end());
    // The roof is needed to judge the others by.
    memory();
    for (DataType dtype : types()) peak(dtype);
    if (parts.contains("gemm")) matrices();
    if (parts.contains("conv")) convolutions();
    table_.print();
    if (!options_.csv.empty()) table_.save_csv(options_.csv);
    if (!options_.plot.empty()) write_file(options_.plot, roofline_svg(roofline_));
  }

 private:
  std::vector<DataType> types() const {
    std::vector<DataType> result{DataType::float32};
    if (context_.device().info().fp16) result.push_back(DataType::float16);
    if (context_.device().info().fp64) result.push_back(DataType::float64);
    return result;
  }
  std::int64_t scaled(double n) const { return std::max<std::int64_t>(16, std::int64_t(n * options_.scale) / 16 * 16); }
  Queue& queue() const { return ec_.queue(); }

  Tensor tensor(const Shape& shape, DataType dtype = DataType::float32) const {
    Tensor result(context_, shape, dtype);
    fill(queue(), result.view(queue()), 0.5);
    return result;
  }

  void moved(const char* name, double bytes, double ms) {
    const double rate = bytes / ms * 1e-6;
    roofline_.bandwidth = std::max(roofline_.bandwidth, rate);
    table_.add({"memory", name, text(ms, 3), text(rate, 1), "", "", ""});
  }

  template <class F>
  double time(F&& work) {
    return best_milliseconds(ec_, options_.seconds, work);
  }

  void memory() {
    const std::int64_t n = scaled(1 << 24), channels = 64;
    const Tensor a = tensor({n / channels, channels, 1}), b = tensor({n / channels, channels, 1}),
                 bias = tensor({1, channels, 1});
    const Tensor sum = tensor({1, 1, 1});
    const TensorView av = a.view(queue()), bv = b.view(queue()), biasv = bias.view(queue()), sumv = sum.view(queue());
    moved("copy", 8. * double(n), time([&] { copy(queue(), bv, av); }));
    moved("fill", 4. * double(n), time([&] { fill(queue(), bv, 1.); }));
    moved("add with broadcast", 8. * double(n),
          time([&] { pointwise_operation(queue(), std::vector{av, biasv}, std::vector{bv}, {}, "y0 = x0 + x1;"); }));
    moved("sum", 4. * double(n),
          time([&] { reduce(queue(), ReduceId::sum, ReduceOperands{std::span(&sumv, 1), std::span(&av, 1)}); }));
  }

  // Independent chains of multiply-add, enough to hide their latency.
  void peak(DataType dtype) {
    constexpr int chains = 16, steps = 512;
    const std::string type = dtype == DataType::float16 ? "half" : dtype == DataType::float64 ? "double" : "float";
    std::string source = dtype == DataType::float16 ? "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" : "";
    source += "__kernel void chains(__global " + type + "* out, float fa, float fb) {\n  const " + type +
              " a = fa, b = fb;\n";
    std::string step, sum = "0";
    for (int i = 0; i < chains; i++) {
      const std::string x = "x" + std::to_string(i);
      source += "  " + type + " " + x + " = get_global_id(0) + " + std::to_string(i) + ";\n";
      step += " " + x + " = fma(" + x + ", a, b);", sum += " + " + x;
    }
    source += "  for (int i = 0; i < " + std::to_string(steps) + "; i++) {" + step +
              " }\n  out[get_global_id(0)] = " + sum + ";\n}\n";
    CustomKernel kernel(context_.device(), source, "chains", "");
    const std::int64_t items =
        std::int64_t(context_.device().info().compute_units) * (context_.device().info().gpu ? 2048 : 512);
    const Tensor out = tensor({items}, dtype);
    const CustomKernel::Argument arguments[] = {out.view(queue()).data, 0.5, 0.25};
    const double ms = time([&] { kernel.run(queue(), arguments, std::span(&items, 1), {}); });
    const double gflops = 2. * chains * steps * double(items) / ms * 1e-6;
    roofline_.peaks.emplace_back(name(dtype), gflops);
    table_.add({"peak", std::string("fma ") + name(dtype), text(ms, 3), "", text(gflops, 1), "", ""});
  }

  void computed(const char* kind, const std::string& what, DataType dtype, double flops, double bytes, double ms) {
    const double gflops = flops / ms * 1e-6, intensity = flops / bytes;
    double most = 0;
    for (const auto& [type, peak] : roofline_.peaks)
      if (type == name(dtype) ||
          (type == "float32" && size_of(dtype) == 2))  // 16-bit floats may be computed as float32
        most = std::max(most, peak);
    const double roof = std::min(most, intensity * roofline_.bandwidth);
    table_.add({kind, what, text(ms, 3), text(bytes / ms * 1e-6, 1), text(gflops, 1), text(intensity, 1),
                text(100 * gflops / roof, 0) + "%"});
    roofline_.points.push_back({kind, what, intensity, gflops});
  }

  void matrix(std::int64_t m, std::int64_t n, std::int64_t k, DataType dtype, bool transposed = false) {
    const Tensor a = tensor({m, k}, dtype), b = tensor(transposed ? Shape{n, k} : Shape{k, n}, dtype),
                 c = tensor({m, n}, dtype);
    TensorView bv = b.view(queue());
    if (transposed) std::swap(bv.sizes[0], bv.sizes[1]), std::swap(bv.strides[0], bv.strides[1]);
    const double ms = time([&] { gemm(queue(), a.view(queue()), bv, c.view(queue())); });
    const std::string what =
        std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + (transposed ? "T " : " ") + name(dtype);
    computed("gemm", what, dtype, 2. * double(m) * double(n) * double(k),
             double(m * k + k * n + m * n) * double(size_of(dtype)), ms);
  }

  void matrices() {
    for (DataType dtype : types())
      for (double n : {256., 512., 1024.}) matrix(scaled(n), scaled(n), scaled(n), dtype);
    matrix(scaled(1024), scaled(1024), scaled(1024), DataType::float32, true);
    matrix(options_.batch, scaled(4096), scaled(1024), DataType::float32);
  }

  void convolutions() {
    for (const Layer& l : layers) {
      const std::int64_t n = options_.batch, out = (l.size + 2 * l.padding - l.kernel) / l.stride + 1;
      const Tensor x = tensor({n, l.in, l.size, l.size}), y = tensor({n, l.out, out, out});
      const Tensor w = tensor({l.out, l.in / l.groups, l.kernel, l.kernel});
      const TensorView xv = x.view(queue()), yv = y.view(queue()), wv = w.view(queue());
      ConvOptions geometry;
      geometry.stride = {l.stride, l.stride, 1}, geometry.padding = {l.padding, l.padding, 0},
      geometry.groups = l.groups;
      const double flops = 2. * double(y.numel()) * double(w.numel() / l.out),
                   bytes = 4. * double(x.numel() + y.numel() + w.numel());
      const std::string layer = l.name;
      auto add = [&](const char* pass, double ms) {
        computed("conv", layer + " " + pass, DataType::float32, flops, bytes, ms);
      };
      add("forward", time([&] { conv_forward(queue(), xv, wv, {}, yv, geometry); }));
      add("to data", time([&] { conv_backward_data(queue(), yv, wv, {}, xv, geometry); }));
      add("to weights", time([&] { conv_backward_weights(queue(), xv, yv, wv, geometry); }));
    }
  }

  const FlopsOptions& options_;
  Context context_;
  ExecutionContext ec_;
  Roofline roofline_;
  Table table_{{"kind", "what", "ms", "GB/s", "GFLOP/s", "FLOP/byte", "of roof"}};
};

}  // namespace

void flops(CLI::App& program) {
  auto options = std::make_shared<FlopsOptions>();
  CLI::App* command =
      program.add_subcommand("flops", "Measures a device: memory, arithmetic, matrix products, convolutions");
  dlprim::tools::add_device_option(*command, options->device);
  command->add_option("--parts", options->parts, "memory and peak are always measured; gemm, conv")
      ->delimiter(',')
      ->check(CLI::IsMember({"memory", "peak", "gemm", "conv"}));
  command->add_option("-s,--scale", options->scale, "Larger or smaller matrices and arrays")
      ->check(CLI::Range(0.01, 16.));
  command->add_option("-b,--batch", options->batch, "Images of the convolutions")->check(CLI::PositiveNumber);
  command->add_option("-t,--seconds", options->seconds, "Time for each measurement")->check(CLI::Range(0.001, 60.));
  command->add_option("--csv", options->csv, "File for the table");
  command->add_option("--plot", options->plot, "File for the roofline plot (SVG)");
  command->callback([options] { Report(*options).run(); });
}
