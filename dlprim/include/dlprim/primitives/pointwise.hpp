// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/plan.hpp>
#include <dlprim/runtime/queue.hpp>

#include <optional>

namespace dlprim {

/// The elementwise operators: the rows of pointwise_table.inc and special_table.inc.
enum class PointwiseId : std::uint16_t {
#define ROW(name, result, expression, complex_expression) name,
#include "pointwise_table.inc"
#include "special_table.inc"
#undef ROW
};

/// Type of the value a row's expression gives.
enum class ResultType : std::uint8_t {
  same,   ///< the type computed in
  truth,  ///< 0 or 1
  real,   ///< the real part's type of a complex type
  pair,   ///< complex of a real type
};

/// One elementwise operator in OpenCL C: an expression (or statements that assign y0, y1, ...) over the inputs x0, x1,
/// ... and the scalars w0, w1, ..., all of the type computed in. An empty complex expression: none for complex types.
struct PointwiseRow {
  const char* name;
  ResultType result;
  const char* expression;
  const char* complex_expression;
  bool special;  ///< uses kernels/lib/special.clh
};

int pointwise_row_count() noexcept;
const PointwiseRow& pointwise_row(PointwiseId id) noexcept;
std::optional<PointwiseId> find_pointwise(std::string_view name) noexcept;

/// Runs a row over a plan. Inputs are converted to `compute` first, results to the outputs' types. An output may be the
/// same tensor as an input, but must not overlap one otherwise. Does nothing for an empty plan. Throws
/// NotImplementedError for complex types without a complex expression and for float64 on devices without it.
void pointwise(Queue& queue, PointwiseId id, const Plan& plan, DataType compute, std::span<const Scalar> scalars = {});

/// As above over tensors: inputs broadcast to the outputs' common shape. Computes in the type that all inputs convert
/// to, or in the first output's when only that is floating. Throws ValidationError for shapes that do not broadcast.
void pointwise(Queue& queue, PointwiseId id, std::span<const TensorView> outputs, std::span<const TensorView> inputs,
               std::span<const Scalar> scalars = {});
inline void pointwise(Queue& queue, PointwiseId id, std::initializer_list<TensorView> outputs,
                      std::initializer_list<TensorView> inputs, std::initializer_list<Scalar> scalars = {}) {
  pointwise(queue, id, std::span<const TensorView>(outputs.begin(), outputs.size()),
            std::span<const TensorView>(inputs.begin(), inputs.size()),
            std::span<const Scalar>(scalars.begin(), scalars.size()));
}

/// Runs any OpenCL C statements that assign y0, y1, ... (outputs) from x0, x1, ... (inputs, broadcast to the outputs'
/// shape) and w0, w1, ... (scalars), computing in `compute` (default: as above), e.g. "y0 = x0 + x1 * w0;".
/// Kernels are compiled once per text and types. Errors as above; BuildError for text that does not compile.
void pointwise_operation(Queue& queue, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                         std::span<const Scalar> scalars, std::string_view statements,
                         std::optional<DataType> compute = {});
inline void pointwise_operation(Queue& queue, std::initializer_list<TensorView> inputs,
                                std::initializer_list<TensorView> outputs, std::initializer_list<Scalar> scalars,
                                std::string_view statements, std::optional<DataType> compute = {}) {
  pointwise_operation(queue, std::span<const TensorView>(inputs.begin(), inputs.size()),
                      std::span<const TensorView>(outputs.begin(), outputs.size()),
                      std::span<const Scalar>(scalars.begin(), scalars.size()), statements, compute);
}
/// The same over a plan.
void pointwise_operation(Queue& queue, const Plan& plan, DataType compute, std::span<const Scalar> scalars,
                         std::string_view statements);

/// The type to which two operands' types convert, as PyTorch's promote_types for tensors with dimensions.
DataType promote(DataType a, DataType b) noexcept;

}  // namespace dlprim
