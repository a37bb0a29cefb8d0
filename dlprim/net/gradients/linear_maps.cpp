// SPDX-License-Identifier: MIT
// Gradients that are other operators of ONNX: running sums, triangles, gathering.
#include <numeric>

#include "../checked.hpp"
#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// The sum in the other direction.
struct CumSumGradient {
  explicit CumSumGradient(const AttributeReader& reader) : sum("CumSum", reversed(reader)) {}
  static Inner::Attributes reversed(const AttributeReader& reader) {
    Inner::Attributes attributes = reader.node().attributes;
    attributes["reverse"] = std::int64_t(!reader.integer("reverse", 0));
    return attributes;
  }
  Inner sum;
};

struct GatherNdAttributes {
  explicit GatherNdAttributes(const AttributeReader& reader) : batch_dims(reader.integer("batch_dims", 0)) {}
  std::int64_t batch_dims;
};

void cum_sum(GradientCall& call) {
  call.add(0, call.run(call.attributes<CumSumGradient>().sum, {call.gradient(), call.input(1)})[0]);
}

// The same elements are left out of the gradient.
void trilu(GradientCall& call) { call.add(0, call.run_again(call.gradient())[0]); }

// Scattered where it came from, with the positions of batches before the indices.
void gather_nd(GradientCall& call) {
  Queue& queue = call.queue();
  Tensor index = cast(queue, call.input(1), DataType::int64);
  const int batch = checked_int(call.attributes<GatherNdAttributes>().batch_dims, "batch_dims"),
            last = index.shape().size() - 1;
  for (int d = batch - 1; d >= 0; d--) {
    std::vector<std::int64_t> places(static_cast<std::size_t>(index.shape()[d]));
    std::iota(places.begin(), places.end(), 0);
    Shape along(std::vector<std::int64_t>(std::size_t(last + 1), 1)), whole = index.shape();
    along[d] = index.shape()[d], whole[last] = 1;
    const Tensor parts[] = {expand(reshape(queue, Tensor::from_integers(places), along), whole), index};
    index = concat(queue, parts, last);
  }
  const Tensor zeros = filled(queue, call.dtype(0), call.shape(0), 0);
  static const Inner adding("ScatterND", {{"reduction", std::string("add")}});
  call.add(0, call.run(adding, {zeros, index, call.gradient()})[0]);
}

}  // namespace

void linear_maps(GradientRegistry& registry) {
  registry.add<CumSumGradient>("CumSum", cum_sum, "x1");
  registry.add<Inner>("Trilu", trilu, "x1");
  registry.add<GatherNdAttributes>("GatherND", gather_nd, "x1");
}

}  // namespace dlprim::gradients
