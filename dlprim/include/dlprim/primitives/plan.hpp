// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/scalar.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

inline constexpr int max_operands = 16;
/// One dimension more than tensors have: numbers as pairs of words.
inline constexpr int max_plan_dims = max_dims + 1;

/// One tensor, or one constant, of an elementwise operation. Strides are in elements, fastest dimension first, as many
/// as the plan has dimensions; 0 broadcasts.
struct Operand {
  BufferRef data;  ///< null: `value` stands for every element
  DataType dtype;
  Scalar value;
  std::int64_t strides[max_plan_dims];

  bool constant() const noexcept { return data.memory == nullptr; }
};

/// What an elementwise kernel works on, without a device: operands over one index space, outputs first, dimensions
/// ordered from the fastest to the slowest. Operands in use are operands[0 .. outputs + inputs).
struct Plan {
  int dims = 0;
  int outputs = 0;
  int inputs = 0;
  std::int64_t sizes[max_plan_dims];
  Operand operands[max_operands];

  Plan() = default;
  Plan(const Plan& other) noexcept { *this = other; }
  Plan& operator=(const Plan& other) noexcept;  ///< copies what is in use

  int count() const noexcept { return outputs + inputs; }
  std::int64_t numel() const noexcept;
  /// Appends an operand without strides. Outputs come before inputs. Throws ValidationError above max_operands.
  Operand& add(BufferRef data, DataType dtype, bool output);
  void add_constant(Scalar value, DataType dtype);
  /// Orders dimensions by the operands' strides, drops those of size 1 and joins those that are one stretch of memory
  /// in every operand. A plan always keeps one dimension.
  void coalesce() noexcept;
  /// Cuts elements of the first `count` operands into `words` words, which become the fastest dimension; the others do
  /// not move along it. Dtypes stay as they are. Once for each plan.
  void split_elements(int words, int count) noexcept;
  /// True when no index and offset of an element is above settings.index_limit.
  bool fits_32bit() const noexcept;
  /// Cuts the index space in two along the dimension that reaches farthest: this plan keeps the first part.
  Plan split() noexcept;
};

/// A plan of outputs of one common shape and inputs broadcast to it by NumPy's rules. Throws ValidationError, naming
/// `op`, for shapes that do not broadcast.
Plan make_plan(std::span<const TensorView> outputs, std::span<const TensorView> inputs, const char* op);

}  // namespace dlprim
