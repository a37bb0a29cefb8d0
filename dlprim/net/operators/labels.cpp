// SPDX-License-Identifier: MIT
#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

// Labels [N] or [N, 1] of any number type, for scores [N, C], as int64 [N]; those outside 0 ... C - 1 become -1, which
// losses ignore.
void class_labels(Call& call) {
  const Tensor x = contiguous(call.queue(), call.input(0));
  if (call.input(1).shape().size() != 2) call.fail("expected scores [N, C], got " + call.input(1).shape().text());
  const Tensor inputs[] = {reshape(call.queue(), x, {x.numel()})};
  const Scalar scalars[] = {call.input(1).shape()[1]};
  call.set(0, apply(call.queue(), "y0 = x0 >= 0 && x0 < w0 ? x0 : -1;", inputs, scalars, DataType::int64,
                    is_floating(x.dtype()) ? x.dtype() : DataType::int64));
}

}  // namespace

void labels(Registry& registry) { registry.add("ClassLabels", class_labels, "", "dlprim"); }

}  // namespace dlprim::operators
