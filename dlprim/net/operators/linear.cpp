// SPDX-License-Identifier: MIT
#include <dlprim/primitives/gemm.hpp>

#include "../array.hpp"
#include "../optimize.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

struct LinearAttributes {
  explicit LinearAttributes(const AttributeReader& reader)
      : activation(fused_activation(reader)), alpha(reader.real("alpha", 1)), beta(reader.real("beta", 1)),
        transpose_a(reader.integer("transA", 0)), transpose_b(reader.integer("transB", 0)) {
    if (reader.given("constant_weights")) kept = std::make_shared<std::optional<Workspace>>();
  }
  Activation activation;
  double alpha, beta;
  bool transpose_a, transpose_b;
  std::shared_ptr<std::optional<Workspace>> kept;  // of constant weights
};

const LinearAttributes& attributes_of(const Call& call) { return call.attributes<LinearAttributes>(); }

// A bias as third input and an activation come from optimize().
void mat_mul(Call& call) {
  call.set(0, matmul(call.queue(), call.input(0), call.input(1), call.has(2) ? call.input(2) : Tensor(),
                     attributes_of(call).activation, attributes_of(call).kept.get()));
}

void gemm_op(Call& call) {
  auto matrix = [&](int i, bool transposed) {
    const Tensor& x = call.input(i);
    if (x.shape().size() != 2) call.fail("expected matrices, got " + x.shape().text());
    return transposed ? transpose(x) : x;
  };
  const Tensor a = matrix(0, attributes_of(call).transpose_a), b = matrix(1, attributes_of(call).transpose_b);
  if (b.shape()[0] != a.shape()[1])
    call.fail("matrices " + a.shape().text() + " and " + b.shape().text() + " do not match");
  const Shape shape{a.shape()[0], b.shape()[1]};
  GemmOptions options;
  options.alpha = attributes_of(call).alpha;
  options.activation = attributes_of(call).activation;
  options.kept = attributes_of(call).kept.get();
  if (call.has(2)) {
    options.beta = attributes_of(call).beta;
    options.addend = expand(call.input(2), shape).view(call.queue());
  }
  gemm(call.queue(), a.view(call.queue()), b.view(call.queue()), call.out(0, a.dtype(), shape), options);
}

}  // namespace

void linear(Registry& registry) {
  registry.add<LinearAttributes>("MatMul", mat_mul);
  registry.add<LinearAttributes>("Gemm", gemm_op, "alpha beta transA transB broadcast");
}

}  // namespace dlprim::operators
