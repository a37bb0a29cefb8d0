// SPDX-License-Identifier: MIT
// Gradients that are other operators of ONNX: running sums, triangles, gathering.
#include <numeric>

#include "../checked.hpp"
#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

struct LinearMapsAttributes {
  explicit LinearMapsAttributes(const AttributeReader& reader)
      : reverse(reader.integer("reverse", 0)), batch_dims(reader.integer("batch_dims", 0)) {}
  std::int64_t reverse, batch_dims;
};

const LinearMapsAttributes& attributes_of(const Call& call) { return call.attributes<LinearMapsAttributes>(); }

void cum_sum(GradientCall& call) {
  std::map<std::string, Attribute> attributes = call.named_attributes();
  attributes["reverse"] = std::int64_t(!attributes_of(call).reverse);
  call.add(0, call.run("CumSum", {call.gradient(), call.input(1)}, attributes)[0]);
}

// The same elements are left out of the gradient.
void trilu(GradientCall& call) { call.add(0, call.run_again(call.gradient())[0]); }

// Scattered where it came from, with the places of batches before the indices.
void gather_nd(GradientCall& call) {
  Queue& queue = call.queue();
  Tensor index = cast(queue, call.input(1), DataType::int64);
  const int batch = checked_int(attributes_of(call).batch_dims, "batch_dims"), last = index.shape().size() - 1;
  for (int d = batch - 1; d >= 0; d--) {
    std::vector<std::int64_t> places(static_cast<std::size_t>(index.shape()[d]));
    std::iota(places.begin(), places.end(), 0);
    Shape along(std::vector<std::int64_t>(std::size_t(last + 1), 1)), whole = index.shape();
    along[d] = index.shape()[d], whole[last] = 1;
    const Tensor parts[] = {expand(reshape(queue, Tensor::from_integers(places), along), whole), index};
    index = concat(queue, parts, last);
  }
  const Tensor zeros = filled(queue, call.dtype(0), call.shape(0), 0);
  call.add(0, call.run("ScatterND", {zeros, index, call.gradient()}, {{"reduction", std::string("add")}})[0]);
}

}  // namespace

void linear_maps(GradientRegistry& registry) {
  registry.add<LinearMapsAttributes>("CumSum", cum_sum, "x1");
  registry.add<LinearMapsAttributes>("Trilu", trilu, "x1");
  registry.add<LinearMapsAttributes>("GatherND", gather_nd, "x1");
}

}  // namespace dlprim::gradients
