// SPDX-License-Identifier: MIT
// Operations of a program's own on tensors, in OpenCL C.
#pragma once
#include <dlprim/net/tensor.hpp>
#include <dlprim/primitives/pointwise_reduce.hpp>

namespace dlprim {

/// What a tensor is, without its elements.
struct TensorSpecs {
  Shape shape;
  DataType dtype = DataType::float32;
};

/// Runs statements that set y0, y1 .. from x0, x1 .. and the weights w0, w1 ..., element by element; xs broadcast to
/// the one shape of all ys by NumPy's rules. Everything is computed in the type that the xs convert to (`dtype`,
/// `target_type`, typeof_x0 .. are its names; float for 16-bit floats) and converted to each y's type. Throws
/// ValidationError for shapes, BuildError for code that does not compile.
///   pointwise_operation_broadcast({a, b}, {c}, {0.5}, "y0 = w0 * x0 + x1;", ec);
void pointwise_operation_broadcast(const std::vector<Tensor>& xs, const std::vector<Tensor>& ys,
                                   const std::vector<double>& weights, const std::string& code,
                                   const ExecutionContext& context);
/// The same for tensors of one shape and dtype. Throws ValidationError for others.
void pointwise_operation(const std::vector<Tensor>& xs, const std::vector<Tensor>& ys,
                         const std::vector<double>& weights, const std::string& code, const ExecutionContext& context);

}  // namespace dlprim
