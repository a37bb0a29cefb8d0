// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/graph.hpp>
#include <dlprim/net/parameters.hpp>

namespace dlprim {

/// Training keeps what gradients need, normalizes by the batch and drops out; prediction fuses what it can.
enum class CalculationsMode { train, predict };

/// A network on a device. Not thread-safe; several nets may run side by side.
///
/// Parameters are the floating constants of an ONNX model that it names, or what JSON operators declare; trainable are
/// those with dimensions, but for running statistics. A net whose parameters were handed out (param, backward) reads
/// them anew in every run; otherwise prediction may fold them into each other.
class Net {
 public:
  struct State;  ///< private to dlprim
  explicit Net(const Context& context);
  ~Net();
  Net(Net&&) noexcept;
  Net& operator=(Net&&) noexcept;

  const Context& context() const noexcept;
  void mode(CalculationsMode mode);
  CalculationsMode mode() const noexcept;

  /// Takes over a model's network. Throws NotImplementedError that lists every node that no operator serves.
  void load_model(const ModelBase& model);
  /// The same for JSON (see JSONModel), as text or in a file.
  void load_from_json(const std::string& text);
  void load_from_json_file(const std::string& path);
  const Network& network() const noexcept;

  int inputs() const noexcept;
  int outputs() const noexcept;
  const ValueInfo& input_info(int i) const;
  const ValueInfo& output_info(int i) const;
  /// The number of an input or output. Throws ValidationError that lists the names.
  int input_index(const std::string& name) const;
  int output_index(const std::string& name) const;

  /// Memory of an input, to be filled. Throws ValidationError while its sizes are open.
  Tensor& input(int i);
  Tensor& input(const std::string& name) { return input(input_index(name)); }
  /// Gives an input other sizes; its elements are zeros then.
  void reshape_input(int i, const Shape& shape);
  /// Gives every input another first dimension.
  void set_batch(std::int64_t size);
  /// Uses a tensor as input from now on. Throws ValidationError for a dtype or sizes that the network does not accept.
  void set_input(int i, const Tensor& tensor);
  /// The same for a sequence of tensors, or for an optional input that stays empty.
  void set_input_sequence(int i, std::vector<Tensor> tensors);
  void set_input_empty(int i);

  /// Enqueues the whole network.
  void forward(const ExecutionContext& context);
  /// An output after forward (which runs first if it never ran). Throws ValidationError when it is no tensor.
  const Tensor& output(int i);
  const Tensor& output(const std::string& name) { return output(output_index(name)); }
  /// The tensors of an output that is a sequence, or null; and whether the output is present at all.
  const std::vector<Tensor>* output_sequence(int i) const;
  bool output_present(int i) const;

  /// Keeps all values for tensor(); prediction fuses nothing then.
  void keep_intermediate_tensors(bool keep = true);
  /// A value by its name, after forward. Throws ValidationError when there is none or it was not kept.
  const Tensor& tensor(const std::string& name);

  // Parameters. Functions that take a name throw ValidationError for unknown ones.
  std::vector<std::string> param_names() const;
  /// The parameter's memory, to be read or written.
  Tensor& param(const std::string& name);
  bool trainable(const std::string& name) const;
  void freeze(const std::string& name, bool frozen = true);
  /// Sets all parameters that came without elements (JSON) to their initial distribution, equal for equal seeds.
  /// Loading does so with seed 0.
  void initialize_parameters(std::uint64_t seed);
  /// Reads parameters from a DLP, HDF5 or safetensors file, told apart by its first bytes. Throws ValidationError for
  /// shapes that differ and, unless `allow_missing`, for parameters that the file lacks.
  void load_parameters(const std::string& path, bool allow_missing = false);
  void load_parameters(const NamedTensors& tensors, bool allow_missing = false);
  /// Writes the current values; the name's end chooses the format (see parameter_format).
  void save_parameters(const std::string& path);
  NamedTensors parameters();  ///< copies on the host

  // Training. Gradients exist for what trainable parameters and wanted values lead to, only where they reach a loss.
  /// How much an output counts as a loss; 0: not at all. JSON's losses count by themselves.
  void set_loss_weight(const std::string& output, double weight);
  double loss_weight(const std::string& output) const;
  /// Asks for the gradient of an input or another value.
  void want_gradient(const std::string& name);
  /// The gradient that backward() starts from at an output that is no loss (or in a loss's place): of its shape, zeros
  /// at first, to be filled after forward().
  Tensor& output_diff(const std::string& output);
  /// Enqueues the gradients of the last forward(), which ran in mode train; adds to those of parameters since
  /// zero_grad(). Throws NotImplementedError that lists the operators on the way which have no gradient.
  void backward(const ExecutionContext& context);
  void zero_grad();
  /// Gradient of a parameter; not defined() before backward(), or when the parameter reaches no loss.
  const Tensor& param_diff(const std::string& name) const;
  /// Gradient of a value asked for with want_gradient, of the last backward().
  const Tensor& tensor_diff(const std::string& name) const;

 private:
  friend class JsonExporter;
  std::unique_ptr<State> state_;
};

}  // namespace dlprim
