// SPDX-License-Identifier: MIT
#include <dlprim/primitives/scan.hpp>

#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

Tensor reversed(Call& call, const Tensor& x, int dim) {
  std::vector<std::int64_t> index;
  for (std::int64_t i = x.shape()[dim] - 1; i >= 0; i--) index.push_back(i);
  return call.run("Gather", {x, Tensor::from_integers(index)}, {{"axis", std::int64_t(dim)}})[0];
}

// Running sums or products; `exclusive` leaves the element itself out.
void cumulate(Call& call, ScanId id, double identity) {
  Queue& queue = call.queue();
  Tensor x = call.input(0);
  const auto axis = call.read_integers(1);
  if (axis.size() != 1) call.fail("expected one axis");
  const int dim = x.shape().axis(axis[0]);
  const bool reverse = call.integer("reverse", 0);
  if (x.numel() == 0) return call.set(0, x);
  if (reverse) x = reversed(call, x, dim);
  x = contiguous(queue, x);
  if (call.integer("exclusive", 0)) {
    Shape one = x.shape();
    one[dim] = 1;
    const Tensor parts[] = {filled(queue, x.dtype(), one, identity), narrow(x, dim, 0, x.shape()[dim] - 1)};
    x = concat(queue, parts, dim);
  }
  Tensor y(queue, x.dtype(), x.shape());
  scan(queue, id, y.view(queue), x.view(queue), dim);
  call.set(0, reverse ? reversed(call, y, dim) : y);
}

void cum_sum(Call& call) { cumulate(call, ScanId::sum, 0); }
void cum_prod(Call& call) { cumulate(call, ScanId::prod, 1); }

}  // namespace

void scan(Registry& registry) {
  registry.add("CumSum", cum_sum, "exclusive reverse");
  registry.add("CumProd", cum_prod, "exclusive reverse");
}

}  // namespace dlprim::operators
