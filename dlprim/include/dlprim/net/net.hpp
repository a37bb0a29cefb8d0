// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/graph.hpp>

namespace dlprim {

enum class CalculationsMode { train, predict };

/// A network on a device. Not thread-safe; several nets may run side by side.
class Net {
 public:
  explicit Net(const Context& context);
  ~Net();
  Net(Net&&) noexcept;
  Net& operator=(Net&&) noexcept;

  const Context& context() const noexcept;
  void mode(CalculationsMode mode);
  CalculationsMode mode() const noexcept;

  /// Takes over a model's network. Throws NotImplementedError that lists every node that no operator serves.
  void load_model(const ModelBase& model);

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
  /// Gives an input other sizes; its elements are lost.
  void reshape_input(int i, const Shape& shape);
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

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlprim
