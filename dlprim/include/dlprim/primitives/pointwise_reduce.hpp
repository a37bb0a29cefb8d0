// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/reduce.hpp>

#include <memory>
#include <string>
#include <vector>

namespace dlprim {

class Context;
class ExecutionContext;
class Tensor;
struct TensorSpecs;

/// A pointwise computation over broadcast inputs whose results are reduced over the dims in which the outputs
/// broadcast: with xs broadcast (as NumPy) to one shape S and ys all of one shape that broadcasts to S, each
///   y = alpha * (reduction over the broadcast dims of the computed y) + beta * y     (beta 0: y is not read)
///
/// The code is OpenCL C: `compute` sets y0, y1.. from x0, x1.. and the weights w0, w1..; `init` sets the accumulators
/// reduce_y0, reduce_y1.. to what leaves a result unchanged; `combine` merges y0, y1.. into them and must be
/// associative and commutative, as it also merges partial results. Types are typeof_x0.., typeof_y0.., typeof_w and
/// typeof_w0.. (float for 16-bit floats); accumulators have their output's type.
///
///   PointwiseOperationBroadcastReduce norm({x}, {y}, 1, DataType::float32,
///                                          "y0 = w0 * x0 * x0;", "reduce_y0 = 0;", "reduce_y0 += y0;");
///   norm.enqueue(queue, {x}, {y}, {2.0});
class PointwiseOperationBroadcastReduce {
 public:
  /// `xs` and `ys` give dtypes; memory and sizes come with each call. At most 8 operands, and 2 * ys + weights <= 16.
  PointwiseOperationBroadcastReduce(const std::vector<TensorView>& xs, const std::vector<TensorView>& ys, int weights,
                                    DataType weight_type, const std::string& compute, const std::string& init,
                                    const std::string& combine);
  /// alpha and beta: one for each y, or none for 1 and 0. Throws ValidationError naming what does not fit.
  void enqueue(Queue& queue, const std::vector<TensorView>& xs, const std::vector<TensorView>& ys,
               const std::vector<double>& weights = {}, const std::vector<double>& alpha = {},
               const std::vector<double>& beta = {}) const;

  /// The same for tensors of networks (dlprim/net/operations.hpp). Throws also for shapes that do not broadcast.
  static std::unique_ptr<PointwiseOperationBroadcastReduce> create(const Context& context,
                                                                   const std::vector<TensorSpecs>& xs,
                                                                   const std::vector<TensorSpecs>& ys, int weights,
                                                                   DataType weight_type, const std::string& compute,
                                                                   const std::string& init, const std::string& combine);
  void enqueue(const std::vector<Tensor>& xs, const std::vector<Tensor>& ys, const std::vector<double>& weights,
               const std::vector<double>& alpha, const std::vector<double>& beta,
               const ExecutionContext& context) const;

 private:
  std::vector<DataType> x_types_, y_types_;
  int weights_;
  ReduceProgram program_;
};

}  // namespace dlprim
