// SPDX-License-Identifier: MIT
// Matrices of a language model on the device, in as few bits as their file has where a layout for that exists.
#pragma once
#include <dlprim/net/tensor.hpp>
#include <dlprim/primitives/quantized.hpp>

#include <vector>

#include "tensors.hpp"

namespace dlprim {

/// A matrix of weights [n, k]. F32, F16 and BF16 become `dtype`. Packed types are held in 8 or 4 bits in groups that share
/// a scale (packed_layout of blocks.hpp), without another rounding but that of scales to float16 where `dtype` has 16
/// bits.
class Weights {
 public:
  Weights() = default;
  /// The rows of all `tensors`, of whatever leading dimensions, below each other; they have one type and equal k.
  Weights(Queue& queue, const WeightFile& file, const std::vector<const WeightTensor*>& tensors, DataType dtype);

  std::int64_t n() const noexcept { return n_; }
  std::int64_t k() const noexcept { return k_; }
  bool defined() const noexcept { return n_ > 0; }
  std::size_t bytes() const noexcept;
  /// out [m, n] = x [m, k] w^T + addend, contiguous matrices; the addend, where defined, is [n] or as `out`.
  void multiply(Queue& queue, const Tensor& x, const Tensor& out, const Tensor& addend = {}) const;
  /// Rows of the given numbers (int64 [m]) as `dtype` [m, k].
  Tensor rows(Queue& queue, const Tensor& numbers) const;
  /// `count` rows from `first` on; no copy.
  Weights narrowed(std::int64_t first, std::int64_t count) const;
  /// Copies of blocks of `each` rows, of the given numbers (int64 [count]), below each other.
  Weights chosen(Queue& queue, const Tensor& numbers, std::int64_t each) const;

 private:
  void read_dense(Queue& queue, const WeightFile& file, const WeightTensor& tensor, std::int64_t first);
  void read_packed(Queue& queue, const WeightFile& file, const WeightTensor& tensor, std::int64_t first);
  PackedWeights packed(Queue& queue, const Tensor& data, const Tensor& scales, const Tensor& zeros) const;

  std::int64_t n_ = 0, k_ = 0;
  DataType dtype_ = DataType::float32;
  WeightType type_ = WeightType::f32;
  Tensor data_;  // [n, k] of dtype_, or bytes [n, row]
  Tensor scales_, zeros_;  // [n, groups]
  Tensor table_;  // of types that have one
};

/// A tensor of one dimension, `size` long, plus `offset` as `dtype`. Throws ValidationError where the file has another.
Tensor read_vector(Queue& queue, const WeightFile& file, const WeightTensor& tensor, std::int64_t size, DataType dtype,
                   double offset = 0);
/// A tensor's numbers, for few of them; F32, F16 and BF16.
std::vector<float> read_numbers(const WeightFile& file, const WeightTensor& tensor);

}  // namespace dlprim
