// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <span>
#include <string>

namespace dlprim {

/// How a multi-tensor operation uses one of its lists.
enum class ForeachMode : std::uint8_t {
  read,
  write,
  update,  ///< read and written
  broadcast,  ///< one element a tensor, read at index 0
};

/// One operand of every tensor in turn: `data[i]` belongs to tensor i. Elements are dense, in the same order for all
/// lists.
struct ForeachList {
  std::span<const BufferRef> data;
  DataType dtype;
  ForeachMode mode;
};

/// An elementwise operation over lists of tensors, in OpenCL C.
///
/// In `each`, x0, x1, ... are the values of the lists in `compute` type; those of write and update lists are stored
/// afterwards. s0, s1, ... are the scalars and t0, t1, ... the scalars of the tensor at hand. `once` runs first, once a
/// tensor and work-item, and sees only broadcast lists and scalars; it may declare variables or `return`. `name` is for
/// messages. Kernels are kept by the number that a code gets when it is made: make each once and keep it.
struct ForeachCode {
  ForeachCode(std::string name, std::string each, std::string once = "", bool rows = false);
  std::string name, each, once;
  bool rows;  ///< `each` holds rows of the pointwise table (pointwise_code.hpp); `compute` is floating
  std::uint32_t number;  ///< of this code and its copies alone
};

/// Applies `code` to tensors of `sizes[i]` elements in as few launches as kernel parameters allow.
/// `tensor_scalars` holds the t-values, tensor by tensor. Scalars are passed in `compute` type, integers exactly up to
/// 2^53. Throws ValidationError when lists differ in length.
void foreach(Queue& queue, const ForeachCode& code, DataType compute, std::span<const std::int64_t> sizes,
             std::span<const ForeachList> lists, std::span<const double> scalars = {},
             std::span<const double> tensor_scalars = {});

/// A list of tensors of one dtype.
struct TensorList {
  std::span<const BufferRef> data;
  DataType dtype;
};

enum class NormOrder : std::uint8_t { one, two, infinity };

/// Element i of `norms` becomes the norm of tensor i, dense and of `sizes[i]` elements, in the tensors' dtype: the sum of
/// magnitudes, the root of the sum of squares, or the largest magnitude. Launches depend on the largest size alone (two
/// up to 2^26 elements), as far as kernel parameters allow.
void foreach_norm(Queue& queue, NormOrder order, std::span<const std::int64_t> sizes, TensorList tensors,
                  BufferRef norms);

/// Options of adam and adamw (Kingma and Ba 2015; Loshchilov and Hutter 2019).
struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, weight_decay = 0, eps = 1e-8;
  bool decoupled_decay = false;  ///< AdamW
  bool amsgrad = false, maximize = false;
};

/// Options of stochastic gradient descent with momentum.
struct SgdOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false, first_step = false;  ///< first_step: momentum buffers are filled
};

/// Options of adagrad (Duchi, Hazan, Singer 2011).
struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, eps = 1e-10;
  bool maximize = false;
};

/// Scalars that live on the device; a null buffer stands for "not given". All float32.
struct OptimizerInputs {
  BufferRef lr;  ///< takes the place of the option
  BufferRef grad_scale;  ///< gradients are divided by it, in place
  BufferRef found_inf;  ///< 1: the step is left out
};

/// One step of Adam for every parameter; `steps` are float32, one element a tensor, already counted up.
void adam(Queue& queue, std::span<const std::int64_t> sizes, TensorList parameters, TensorList gradients,
          TensorList averages, TensorList square_averages, TensorList max_square_averages, TensorList steps,
          const AdamOptions& options, const OptimizerInputs& inputs);

/// One step of SGD; `momenta` may be empty when the momentum is 0.
void sgd(Queue& queue, std::span<const std::int64_t> sizes, TensorList parameters, TensorList gradients,
         TensorList momenta, const SgdOptions& options, const OptimizerInputs& inputs);

/// One step of Adagrad; `steps` as in adam.
void adagrad(Queue& queue, std::span<const std::int64_t> sizes, TensorList parameters, TensorList gradients,
             TensorList square_sums, TensorList steps, const AdagradOptions& options, const OptimizerInputs& inputs);

}  // namespace dlprim
