// SPDX-License-Identifier: MIT
#include <dlprim/primitives/softmax.hpp>

#include "../array.hpp"
#include "../checked.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

struct SoftmaxAttributes {
  explicit SoftmaxAttributes(const AttributeReader& reader) : axis(reader.find<std::int64_t>("axis")) {}
  std::optional<std::int64_t> axis;
};

const SoftmaxAttributes& attributes_of(const Call& call) { return call.attributes<SoftmaxAttributes>(); }

// Up to operator set 12 all dimensions from the axis on are one row.
void along_axis(Call& call, void (*row_operator)(Call&, const Tensor&, int)) {
  const Tensor& x = call.input(0);
  const bool rows = call.version() < 13;
  const int axis =
      x.shape().axis(attributes_of(call).axis.value_or(rows ? 1 : -1), rows && x.shape().size() < 2 ? 1 : 0);
  if (!rows) return row_operator(call, contiguous(call.queue(), x), axis);
  const Shape flat{x.shape().product(0, axis), x.shape().product(axis, x.shape().size())};
  row_operator(call, reshape(call.queue(), contiguous(call.queue(), x), flat), 1);
}

void run(Call& call, const Tensor& x, int dim, SoftmaxKind kind) {
  const TensorView y = call.out(0, x.dtype(), call.input(0).shape());
  if (x.numel() == 0) return;
  softmax(call.queue(), kind, TensorView(y.data, y.dtype, x.shape()), x.view(call.queue()), dim);
}

void softmax_rows(Call& call, const Tensor& x, int dim) { run(call, x, dim, SoftmaxKind::softmax); }
void log_softmax_rows(Call& call, const Tensor& x, int dim) { run(call, x, dim, SoftmaxKind::log_softmax); }

// 1 at the first largest element of each row, else 0.
void hardmax_rows(Call& call, const Tensor& x, int dim) {
  Queue& queue = call.queue();
  const Tensor place = reduce(queue, ReduceId::argmax, x, {dim}, DataType::int64);
  std::vector<std::int64_t> indices(host_elements(x.shape()[dim], "a number of classes"));
  for (std::size_t i = 0; i < indices.size(); i++) indices[i] = std::int64_t(i);
  Tensor positions = Tensor::from_integers(indices);
  for (int d = dim + 1; d < x.shape().size(); d++) positions = unsqueeze(positions, positions.shape().size());
  const Tensor hot[] = {place, positions};
  call.set(0,
           reshape(queue, apply(queue, "y0 = x0 == x1;", hot, {}, x.dtype(), DataType::int64), call.input(0).shape()));
}

void softmax_op(Call& call) { along_axis(call, softmax_rows); }
void log_softmax_op(Call& call) { along_axis(call, log_softmax_rows); }
void hardmax_op(Call& call) { along_axis(call, hardmax_rows); }

}  // namespace

void softmax(Registry& registry) {
  registry.add<SoftmaxAttributes>("Softmax", softmax_op, "axis");
  registry.add<SoftmaxAttributes>("LogSoftmax", log_softmax_op, "axis");
  registry.add<SoftmaxAttributes>("Hardmax", hardmax_op, "axis");
}

}  // namespace dlprim::operators
