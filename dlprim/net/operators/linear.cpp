// SPDX-License-Identifier: MIT
#include <dlprim/primitives/gemm.hpp>

#include "../array.hpp"
#include "../optimize.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

// A bias as third input and an activation come from optimize().
void mat_mul(Call& call) {
  call.set(0, matmul(call.queue(), call.input(0), call.input(1), call.has(2) ? call.input(2) : Tensor(),
                     fused_activation(call)));
}

void gemm_op(Call& call) {
  auto matrix = [&](int i, const char* flag) {
    const Tensor& x = call.input(i);
    if (x.shape().size() != 2) call.fail("expected matrices, got " + x.shape().text());
    return call.integer(flag, 0) ? transpose(x) : x;
  };
  const Tensor a = matrix(0, "transA"), b = matrix(1, "transB");
  if (b.shape()[0] != a.shape()[1])
    call.fail("matrices " + a.shape().text() + " and " + b.shape().text() + " do not match");
  const Shape shape{a.shape()[0], b.shape()[1]};
  GemmOptions options;
  options.alpha = call.real("alpha", 1);
  options.activation = fused_activation(call);
  if (call.has(2)) {
    options.beta = call.real("beta", 1);
    options.addend = expand(call.input(2), shape).view(call.queue());
  }
  gemm(call.queue(), a.view(call.queue()), b.view(call.queue()), call.out(0, a.dtype(), shape), options);
}

}  // namespace

void linear(Registry& registry) {
  registry.add("MatMul", mat_mul);
  registry.add("Gemm", gemm_op, "alpha beta transA transB broadcast");
}

}  // namespace dlprim::operators
