// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "commands.hpp"
#include "image.hpp"
#include "model.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::tools;

struct PredictOptions : ModelOptions {
  std::string config, labels, csv;
  std::vector<std::string> images;
  std::vector<float> mean, deviation;
  int top = 5;
  double margin = 256. / 224;
};

// What images become and what the scores mean.
struct Setting {
  Normalization normalization;
  std::vector<std::string> names;
  std::string name(std::size_t i) const { return i < names.size() ? names[i] : "class " + std::to_string(i); }
};

void read_config(const std::string& path, Setting& setting) {
  const auto json = nlohmann::json::parse(read_file(path), nullptr, false, true);
  if (!json.is_object()) throw ValidationError("[config] " + path + " is no JSON object");
  try {
    for (const auto& [key, value] : json.items()) {
      if (key == "mean") setting.normalization.mean = value.get<std::vector<float>>();
      else if (key == "std") setting.normalization.deviation = value.get<std::vector<float>>();
      else if (key == "class_names") setting.names = value.get<std::vector<std::string>>();
      else throw ValidationError("[config] expected mean, std or class_names in " + path + ", got " + key);
    }
  } catch (const nlohmann::json::exception& error) {
    throw ValidationError("[config] " + path + ": " + error.what());
  }
}

Setting make_setting(const PredictOptions& o, int channels) {
  Setting setting;
  if (channels == 3) setting.normalization = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};  // ImageNet
  else setting.normalization = {{0}, {1}};
  if (!o.config.empty()) read_config(o.config, setting);
  if (!o.mean.empty()) setting.normalization.mean = o.mean;
  if (!o.deviation.empty()) setting.normalization.deviation = o.deviation;
  if (!o.labels.empty()) {
    std::istringstream lines(read_file(o.labels));
    for (std::string line; std::getline(lines, line);) setting.names.push_back(line);
  }
  return setting;
}

// Probabilities as they are; other scores through softmax.
void to_probabilities(std::vector<float>& scores) {
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.);
  const auto [low, high] = std::minmax_element(scores.begin(), scores.end());
  if (*low >= 0 && std::abs(sum - 1) < 1e-2) return;
  const float most = *high;
  double total = 0;
  for (float& score : scores) total += score = std::exp(score - most);
  for (float& score : scores) score = float(score / total);
}

struct Input {
  bool channels_last;
  int channels, height, width;
};

Input image_input(const Net& net) {
  const ValueInfo& info = net.input_info(0);
  const Shape& s = info.shape;
  const bool last = s.size() == 4 && (s[3] == 1 || s[3] == 3) && s[1] != 1 && s[1] != 3;
  const std::int64_t channels = s.size() == 4 ? s[last ? 3 : 1] : 0;
  if (net.inputs() < 1 || info.dtype != DataType::float32 || (channels != 1 && channels != 3))
    throw ValidationError(
        "[predict] expected a network of grey or RGB images, [N, 1 or 3, H, W] or [N, H, W, 1 or 3]; '" + info.name +
        "' is " + s.text() + " " + name(info.dtype));
  auto size = [&](std::int64_t n) {
    if (n > 1 << 15) throw ValidationError("[predict] expected images of at most 32768 x 32768, got " + s.text());
    return n > 0 ? int(n) : 224;
  };
  return {last, int(channels), size(s[last ? 1 : 2]), size(s[last ? 2 : 3])};
}

void run(PredictOptions& o) {
  const Context context = make_context(o.device);
  const ExecutionContext queue = context.make_execution_context();
  Net net(context);
  load(net, o);
  const Input input = image_input(net);
  const Setting setting = make_setting(o, input.channels);
  const Shape shape = input.channels_last ? Shape{1, input.height, input.width, input.channels}
                                          : Shape{1, input.channels, input.height, input.width};
  net.reshape_input(0, shape);
  std::vector<float> values(std::size_t(shape.total_size()));
  Table table({"image", "rank", "class", "name", "probability"});
  for (const std::string& path : o.images) {
    setting.normalization.apply(centre_crop(read_image(path, input.channels), input.width, input.height, o.margin),
                                input.channels_last, values.data());
    net.input(0).to_device(queue, values);
    net.forward(queue);
    const Tensor& output = net.output(0);
    if (output.dtype() != DataType::float32 || output.numel() < 1)
      throw ValidationError("[predict] expected float32 scores, got " + output.shape().text() + " " +
                            name(output.dtype()));
    std::vector<float> scores(std::size_t(output.numel()));
    output.to_host(queue, scores);
    to_probabilities(scores);
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const std::size_t top = std::min(order.size(), std::size_t(o.top));
    std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(top), order.end(),
                      [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    for (std::size_t i = 0; i < top; i++)
      table.add(
          {path, std::to_string(i + 1), std::to_string(order[i]), setting.name(order[i]), text(scores[order[i]], 4)});
  }
  table.print();
  if (!o.csv.empty()) table.save_csv(o.csv);
}

}  // namespace

void predict(CLI::App& program) {
  auto options = std::make_shared<PredictOptions>();
  options->batch = 1;
  CLI::App* command = program.add_subcommand("predict", "Classifies images: PNG, JPEG, PPM");
  add_model_options(*command, *options);
  command->add_option("images", options->images, "Images")->required()->check(CLI::ExistingFile);
  command->add_option("-c,--config", options->config, "JSON file with mean, std, class_names")
      ->check(CLI::ExistingFile);
  command->add_option("-l,--labels", options->labels, "Text file with a class name on each line")
      ->check(CLI::ExistingFile);
  command
      ->add_option("--mean", options->mean, "Mean of each channel of pixels in 0..1; default: ImageNet's, 0 for grey")
      ->delimiter(',');
  command->add_option("--std", options->deviation, "Standard deviation of each channel")->delimiter(',');
  command->add_option("-k,--top", options->top, "Classes to show")->check(CLI::PositiveNumber);
  command
      ->add_option("--margin", options->margin, "Size of the scaled image relative to the part cut out of its centre")
      ->check(CLI::Range(1., 10.));
  command->add_option("--csv", options->csv, "File for the table");
  command->callback([options] { run(*options); });
}
