// SPDX-License-Identifier: MIT
// What the subcommands share: networks named on the command line, their inputs, tables and numbers as text.
#pragma once
#include <dlprim/dlprim.hpp>

#include <CLI/CLI.hpp>

#include <random>

namespace dlprim::tools {

/// A network as the command line describes it.
struct ModelOptions {
  std::string model;       ///< .onnx or .json
  std::string parameters;  ///< file for a JSON network; none: its initial ones
  std::string device;
  std::int64_t batch = 0;         ///< 0: as the file says, 1 where it is open
  std::vector<std::string> axes;  ///< "name=size" for open sizes of ONNX models
};

/// --device
void add_device_option(CLI::App& command, std::string& device);
/// The model, --parameters, --batch, --axis and --device.
void add_model_options(CLI::App& command, ModelOptions& options);

Context make_context(const std::string& device);
bool is_json(const std::string& path);
/// Loads what the options name into a net.
void load(Net& net, const ModelOptions& options);
/// Numbers of a normal distribution for floating inputs, zeros for others.
void fill_inputs(Net& net, const ExecutionContext& context, unsigned seed = 1);

/// Columns of text, as wide as they need to be; numbers are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print() const;
  /// Comma-separated values. Throws Error when the file cannot be written.
  void save_csv(const std::string& path) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A number with as many digits behind the point.
std::string text(double value, int digits);
/// Writes a file at once. Throws Error.
void write_file(const std::string& path, const std::string& contents);
/// Throws ValidationError when there is no such file.
std::string read_file(const std::string& path);

}  // namespace dlprim::tools
