// SPDX-License-Identifier: MIT
#include "model.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace dlprim::tools {

void add_device_option(CLI::App& command, std::string& device) {
  command.add_option("-d,--device", device,
                     "platform:device, an index, cpu, gpu or part of a name; default: the first");
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  command.add_option("model", options.model, "Network: .onnx or .json")->required()->check(CLI::ExistingFile);
  command.add_option("-P,--parameters", options.parameters, "Parameters of a JSON network: DLP, HDF5 or safetensors")
      ->check(CLI::ExistingFile);
  command.add_option("-b,--batch", options.batch, "First dimension of the inputs")->check(CLI::PositiveNumber);
  command.add_option("--axis", options.axes, "Size that an ONNX model leaves open, name=size; may be repeated");
  add_device_option(command, options.device);
}

Context make_context(const std::string& device) {
  if (Device::count() == 0) throw Error(Device::missing_reason());
  return device.empty() ? Context() : Context(device);
}

bool is_json(const std::string& path) { return path.ends_with(".json"); }

namespace {

void load_onnx(Net& net, const ModelOptions& options) {
  ONNXModel model;
  model.load(options.model);
  for (const std::string& axis : options.axes) {
    const auto equals = axis.find('=');
    std::int64_t size = 0;
    std::istringstream number(equals == std::string::npos ? "" : axis.substr(equals + 1));
    if (!(number >> size) || size < 0 || !number.eof())
      throw ValidationError("[--axis] expected name=size, got " + axis);
    model.set_dynamic_axis(axis.substr(0, equals), size);
  }
  const auto& inputs = model.network().inputs;
  const bool open = std::any_of(inputs.begin(), inputs.end(),
                                [](const ValueInfo& v) { return v.ranked && v.shape.size() && v.shape[0] < 0; });
  if (options.batch > 0 || open) model.set_batch(std::max<std::int64_t>(1, options.batch));
  net.load_model(model);
}

}  // namespace

void load(Net& net, const ModelOptions& options) {
  if (!is_json(options.model)) {
    if (!options.parameters.empty()) throw ValidationError("[--parameters] is for JSON networks; ONNX files have them");
    return load_onnx(net, options);
  }
  if (!options.axes.empty()) throw ValidationError("[--axis] is for ONNX models");
  net.load_from_json_file(options.model);
  if (options.batch > 0) net.set_batch(options.batch);
  if (!options.parameters.empty()) net.load_parameters(options.parameters);
}

void fill_inputs(Net& net, const ExecutionContext& context, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  for (int i = 0; i < net.inputs(); i++) {
    if (net.input_info(i).optional) {
      net.set_input_empty(i);
      continue;
    }
    Tensor& input = net.input(i);
    if (input.dtype() == DataType::float32) {
      std::vector<float> values(std::size_t(input.numel()));
      for (float& value : values) value = normal(engine);
      input.to_device(context, values);
    } else {
      const std::vector<std::byte> zeros(input.bytes());
      input.to_device(context, static_cast<const void*>(zeros.data()));
    }
  }
}

void Table::print() const {
  std::vector<std::size_t> widths(rows_[0].size());
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); c++) widths[c] = std::max(widths[c], row[c].size());
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); c++) {
      const std::string& cell = row[c];
      const bool number = !cell.empty() && cell.find_first_not_of("0123456789.-+e%") == std::string::npos;
      const std::string space(widths[c] - cell.size(), ' ');
      line += (c ? "  " : "") + (number ? space + cell : cell + space);
    }
    std::printf("%s\n", line.substr(0, line.find_last_not_of(' ') + 1).c_str());
  }
}

void Table::save_csv(const std::string& path) const {
  std::string all;
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); c++) {
      std::string cell = row[c];
      if (cell.find_first_of(",\"\n") != std::string::npos) {
        for (std::size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2) cell.insert(at, 1, '"');
        cell = '"' + cell + '"';
      }
      all += (c ? "," : "") + cell;
    }
    all += '\n';
  }
  write_file(path, all);
}

std::string text(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

void write_file(const std::string& path, const std::string& contents) {
  std::ofstream file(path, std::ios::binary);
  file << contents;
  file.close();
  if (!file) throw Error("cannot write " + path);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ValidationError("cannot read " + path);
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

}  // namespace dlprim::tools
