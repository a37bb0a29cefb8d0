// SPDX-License-Identifier: MIT
#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

struct LinearAttributes {
  explicit LinearAttributes(const AttributeReader& reader)
      : alpha(reader.real("alpha", 1)), beta(reader.real("beta", 1)), transA(reader.integer("transA", 0)),
        transB(reader.integer("transB", 0)) {}
  double alpha, beta;
  std::int64_t transA, transB;
};

const LinearAttributes& attributes_of(const Call& call) { return call.attributes<LinearAttributes>(); }

Tensor scaled(Queue& queue, const Tensor& x, double factor) {
  return factor == 1 ? x : apply(queue, "y0 = x0 * w0;", {x}, {factor});
}

void mat_mul(GradientCall& call) {
  Queue& queue = call.queue();
  Tensor a = call.input(0), b = call.input(1), dy = call.gradient();
  const bool row = a.shape().size() == 1, column = b.shape().size() == 1;
  if (row) a = unsqueeze(a, 0), dy = unsqueeze(dy, column ? dy.shape().size() : dy.shape().size() - 1);
  if (column) b = unsqueeze(b, 1), dy = unsqueeze(dy, dy.shape().size());
  if (call.needs(0)) {
    Tensor da = matmul(queue, dy, transpose(b));
    if (row) da = reshape(queue, sum_to(queue, da, a.shape()), call.shape(0));
    call.add(0, da);
  }
  if (!call.needs(1)) return;
  Tensor db;
  if (b.shape().size() == 2) {  // one product over all rows
    const std::int64_t k = b.shape()[0], n = b.shape()[1];
    if (row) a = expand(a, {1, k});
    db = matmul(queue, transpose(reshape(queue, a, {a.numel() / std::max<std::int64_t>(1, k), k})),
                reshape(queue, dy, {dy.numel() / std::max<std::int64_t>(1, n), n}));
  } else {
    db = matmul(queue, transpose(a), dy);
  }
  if (column) db = reshape(queue, sum_to(queue, db, b.shape()), call.shape(1));
  call.add(1, db);
}

// y = alpha a' b' + beta c
void gemm(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor dy = call.gradient(), scaled_dy = scaled(queue, dy, attributes_of(call).alpha);
  const bool flip_a = attributes_of(call).transA, flip_b = attributes_of(call).transB;
  if (call.needs(0)) {
    const Tensor b = flip_b ? transpose(call.input(1)) : call.input(1), da = matmul(queue, scaled_dy, transpose(b));
    call.add(0, flip_a ? transpose(da) : da);
  }
  if (call.needs(1)) {
    const Tensor a = flip_a ? transpose(call.input(0)) : call.input(0);
    call.add(1, flip_b ? matmul(queue, transpose(scaled_dy), a) : matmul(queue, transpose(a), scaled_dy));
  }
  if (call.needs(2)) call.add(2, scaled(queue, dy, attributes_of(call).beta));
}

}  // namespace

void linear(GradientRegistry& registry) {
  registry.add<LinearAttributes>("MatMul", mat_mul, "x0 x1");
  registry.add<LinearAttributes>("Gemm", gemm, "x0 x1");
}

}  // namespace dlprim::gradients
