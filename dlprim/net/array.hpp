// SPDX-License-Identifier: MIT
// Arithmetic on whole tensors by primitives, for operators that are made of others. All functions broadcast by NumPy's
// rules where two tensors meet, and throw ValidationError.
#pragma once
#include <dlprim/net/tensor.hpp>
#include <dlprim/primitives/gemm.hpp>
#include <dlprim/primitives/reduce.hpp>
#include <dlprim/scalar.hpp>

#include <optional>
#include <string_view>

namespace dlprim {

// Views: no work on the device.
Tensor permute(const Tensor& x, const std::vector<std::int64_t>& order);
Tensor transpose(const Tensor& x);  ///< the last two dimensions
Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length, std::int64_t step = 1);
Tensor select(const Tensor& x, int dim, std::int64_t index);  ///< drops the dimension
Tensor unsqueeze(const Tensor& x, int dim);
Tensor expand(const Tensor& x, const Shape& shape);

/// Row-major memory; the tensor itself when it is so already.
Tensor contiguous(Queue& queue, const Tensor& x);
/// A view where the strides allow, else a copy.
Tensor reshape(Queue& queue, const Tensor& x, const Shape& shape);
Tensor cast(Queue& queue, const Tensor& x, DataType dtype);
/// An image tensor whose channels lie side by side in memory.
Tensor channels_last(Queue& queue, DataType dtype, const Shape& shape);
/// Of x's sizes; an image tensor whose channels lie side by side if x is one.
Tensor empty_like(Queue& queue, DataType dtype, const Tensor& x);
Tensor filled(Queue& queue, DataType dtype, const Shape& shape, Scalar value);

/// A row of the pointwise table, or OpenCL C statements "y0 = ..." over x0, x1 .. and w0, w1 ...; computed in
/// `compute` (default: what the inputs convert to), stored as `result` (default: as the first input). On CPUs images
/// whose channels lie side by side give such results.
Tensor apply(Queue& queue, std::string_view code, std::initializer_list<Tensor> inputs,
             std::initializer_list<Scalar> scalars = {}, std::optional<DataType> result = {},
             std::optional<DataType> compute = {});
Tensor apply(Queue& queue, std::string_view code, std::span<const Tensor> inputs, std::span<const Scalar> scalars,
             DataType result, std::optional<DataType> compute = {});

/// A row of the reduce table over `dims`, kept as size 1.
Tensor reduce(Queue& queue, ReduceId id, const Tensor& x, const std::vector<int>& dims,
              std::optional<DataType> result = {}, std::span<const double> scalars = {});
/// The sum of x over the dimensions in which `shape` broadcasts to x's.
Tensor sum_to(Queue& queue, const Tensor& x, const Shape& shape);
/// As sum_to of apply(code, inputs), in one pass.
Tensor apply_sum_to(Queue& queue, const std::string& code, const std::vector<Tensor>& inputs,
                    const std::vector<double>& scalars, const Shape& shape, DataType result);
Tensor softmax(Queue& queue, const Tensor& x, int dim);
/// Matrix product with NumPy's rules for vectors and batches; `bias` [columns of b] is added where defined.
Tensor matmul(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& bias = {},
              Activation activation = Activation::none, std::optional<Workspace>* kept = nullptr);
/// `inputs` joined along `dim`.
Tensor concat(Queue& queue, std::span<const Tensor> inputs, int dim);

/// The elements of a tensor that on_host(), of float32, int32, uint8 or int8, in row-major order. Throws
/// ValidationError.
std::vector<double> host_numbers(const Tensor& x);
/// The one element of such a tensor; nothing of others, for which one would have to wait.
std::optional<double> known_number(const Tensor& x);
std::vector<std::int64_t> to_integers(Queue& queue, const Tensor& x);
std::vector<double> to_reals(Queue& queue, const Tensor& x);
std::vector<TensorView> views(Queue& queue, std::span<const Tensor> tensors);

}  // namespace dlprim
