// SPDX-License-Identifier: MIT
#include <dlprim/primitives/scan.hpp>

#include "../array.hpp"
#include "../checked.hpp"
#include "../composition.hpp"

namespace dlprim::operators {

namespace {

struct ScanAttributes {
  explicit ScanAttributes(const AttributeReader& reader)
      : reverse(reader.integer("reverse", 0)), exclusive(reader.integer("exclusive", 0)) {}
  std::int64_t reverse, exclusive;
};

const ScanAttributes& attributes_of(const Call& call) { return call.attributes<ScanAttributes>(); }

Tensor reversed(Call& call, const Tensor& x, int dim) {
  return contiguous(call.queue(), narrow(x, dim, x.shape()[dim] - 1, x.shape()[dim], -1));
}

// Running sums or products; `exclusive` leaves the element itself out.
void cumulate(Call& call, ScanId id, double identity) {
  Queue& queue = call.queue();
  Tensor x = call.input(0);
  const auto axis = call.read_integers(1);
  if (axis.size() != 1) call.fail("expected one axis");
  const int dim = x.shape().axis(axis[0]);
  const bool reverse = attributes_of(call).reverse;
  if (x.numel() == 0) return call.set(0, x);
  if (reverse) x = reversed(call, x, dim);
  x = contiguous(queue, x);
  if (attributes_of(call).exclusive) {
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

// The same products one after the other, for the gradient: right where elements are 0, too.
void products_in_turn(Composition& c) {
  Call& call = c.call;
  const Composition::Part x = c.input(0);
  const int dim = x.shape().axis(call.read_integers(1).at(0));
  const std::int64_t size = x.shape()[dim];
  const bool reverse = attributes_of(call).reverse, exclusive = attributes_of(call).exclusive;
  Shape one = x.shape();
  one[dim] = 1;
  Composition::Part product = c.constant(filled(call.queue(), x.tensor.dtype(), one, 1));
  std::vector<Composition::Part> results(host_elements(size, "a size"));
  for (std::int64_t i = 0; i < size; i++) {
    const std::int64_t at = reverse ? size - 1 - i : i;
    const Composition::Part next = c("Mul"_op, {product, c.narrow(x, dim, at, 1)});
    results[std::size_t(at)] = exclusive ? product : next;
    product = next;
  }
  c.set(0, size ? c(inner<"Concat", "axis">(dim), results) : x);
}

}  // namespace

void scan(Registry& registry) {
  registry.add<ScanAttributes>("CumSum", cum_sum, "exclusive reverse");
  registry.add<ScanAttributes>("CumProd", cum_prod, "exclusive reverse", "", products_in_turn);
}

}  // namespace dlprim::operators
