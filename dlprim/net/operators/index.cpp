// SPDX-License-Identifier: MIT
#include <dlprim/primitives/index.hpp>

#include <dlprim/primitives/copy.hpp>

#include "../array.hpp"
#include "../checked.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

struct IndexAttributes {
  explicit IndexAttributes(const AttributeReader& reader)
      : axis(reader.integer("axis", 0)), batch_dims(reader.integer("batch_dims", 0)),
        reduction(reader.text("reduction", "none")) {}
  std::int64_t axis, batch_dims;
  std::string reduction;
};

const IndexAttributes& attributes_of(const Call& call) { return call.attributes<IndexAttributes>(); }

constexpr IndexOptions wrapping{true};

Tensor index_tensor(Call& call, int i) {
  const Tensor& index = call.input(i);
  if (index.dtype() != DataType::int64 && index.dtype() != DataType::int32)
    call.fail(std::string("expected indices of int64 or int32, got ") + name(index.dtype()));
  return index;
}

void gather_op(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const Tensor index = index_tensor(call, 1);
  const int axis = x.shape().axis(attributes_of(call).axis);
  if (index.on_host() && index.numel() == 1 && index.shape().size() <= 1) {  // a view
    std::int64_t at = to_integers(queue, index)[0];
    const std::int64_t size = x.shape()[axis];
    if (at < -size || at >= size)
      call.fail("index " + std::to_string(at) + " is out of bounds for " + x.shape().text());
    at += at < 0 ? size : 0;
    return call.set(0, index.shape().size() ? narrow(x, axis, at, 1) : select(x, axis, at));
  }
  Shape shape(std::vector<std::int64_t>(x.shape().begin(), x.shape().begin() + axis));
  for (std::int64_t size : index.shape()) shape.push_back(size);
  for (int d = axis + 1; d < x.shape().size(); d++) shape.push_back(x.shape()[d]);
  const TensorView y = call.out(0, x.dtype(), shape);
  if (y.numel() == 0) return;
  Shape flat = x.shape();
  flat[axis] = index.numel();
  index_select(queue, TensorView(y.data, y.dtype, flat), x.view(queue), axis,
               reshape(queue, index, {index.numel()}).view(queue), wrapping);
}

void gather_elements(Call& call) {
  const Tensor& x = call.input(0);
  const Tensor index = index_tensor(call, 1);
  const int axis = x.shape().axis(attributes_of(call).axis);
  const TensorView y = call.out(0, x.dtype(), index.shape());
  if (y.numel()) gather(call.queue(), y, call.in(0), axis, index.view(call.queue()), wrapping);
}

// Views of the loop over index tuples and the rest of x: x with stride 0 under the tuples, and one index for each
// element of a tuple.
struct TupleLoop {
  Shape shape;
  TensorView x;
  std::vector<IndexedDim> dims;
};

TupleLoop tuple_loop(Call& call, const Tensor& x, const Tensor& index, int batch) {
  const Shape& tuples = index.shape();
  const int last = tuples.size() - 1;
  if (last < 0 || batch < 0 || batch > last || batch + tuples[last] > x.shape().size())
    call.fail("indices " + tuples.text() + " do not fit " + x.shape().text());
  const int k = int(tuples[last]);
  TupleLoop loop;
  std::vector<std::int64_t> strides, index_strides;
  for (int d = 0; d < last; d++) {
    if (d < batch && tuples[d] != x.shape()[d])
      call.fail("indices " + tuples.text() + " do not fit " + x.shape().text());
    loop.shape.push_back(tuples[d]);
    strides.push_back(d < batch ? x.strides()[std::size_t(d)] : 0);
    index_strides.push_back(index.strides()[std::size_t(d)]);
  }
  for (int d = batch + k; d < x.shape().size(); d++) {
    loop.shape.push_back(x.shape()[d]), strides.push_back(x.strides()[std::size_t(d)]), index_strides.push_back(0);
  }
  Queue& queue = call.queue();
  loop.x = TensorView(x.view(queue).data, x.dtype(), loop.shape, strides);
  for (int j = 0; j < k; j++) {
    const Tensor column = select(index, last, j);
    const TensorView view(column.view(queue).data, index.dtype(), loop.shape, index_strides);
    loop.dims.push_back({view, x.shape()[batch + j], x.strides()[std::size_t(batch + j)]});
  }
  return loop;
}

void gather_nd(Call& call) {
  const Tensor& x = call.input(0);
  const int batch = checked_int(attributes_of(call).batch_dims, "batch_dims");
  const TupleLoop loop = tuple_loop(call, x, index_tensor(call, 1), batch);
  const TensorView y = call.out(0, x.dtype(), loop.shape);
  if (y.numel()) indexed_read(call.queue(), y, loop.x, loop.dims, wrapping);
}

Update update_of(Call& call) {
  const std::string text = attributes_of(call).reduction;
  return text == "add"   ? Update::add
         : text == "mul" ? Update::multiply
         : text == "max" ? Update::maximum
         : text == "min" ? Update::minimum
                         : Update::assign;
}

Tensor copy_of(Queue& queue, const Tensor& x) {
  Tensor y(queue, x.dtype(), x.shape());
  copy(queue, y.view(queue), x.view(queue));
  return y;
}

void scatter_elements(Call& call) {
  const Tensor y = copy_of(call.queue(), call.input(0));
  const Tensor index = index_tensor(call, 1);
  const int axis = y.shape().axis(attributes_of(call).axis);
  if (index.numel())
    scatter(call.queue(), y.view(call.queue()), axis, index.view(call.queue()), call.in(2), update_of(call), wrapping);
  call.set(0, y);
}

void scatter_nd(Call& call) {
  const Tensor y = copy_of(call.queue(), call.input(0));
  const TupleLoop loop = tuple_loop(call, y, index_tensor(call, 1), 0);
  if (!(call.input(2).shape() == loop.shape))
    call.fail("expected updates of shape " + loop.shape.text() + ", got " + call.input(2).shape().text());
  if (loop.shape.total_size()) indexed_write(call.queue(), loop.x, call.in(2), loop.dims, update_of(call), wrapping);
  call.set(0, y);
}

}  // namespace

void index(Registry& registry) {
  constexpr const char* reduction = "axis reduction=none|add|mul|max|min";
  registry.add<IndexAttributes>("Gather", gather_op, "axis");
  registry.add<IndexAttributes>("GatherElements", gather_elements, "axis");
  registry.add<IndexAttributes>("GatherND", gather_nd, "batch_dims");
  registry.add<IndexAttributes>("Scatter", scatter_elements, "axis");
  registry.add<IndexAttributes>("ScatterElements", scatter_elements, reduction);
  registry.add<IndexAttributes>("ScatterND", scatter_nd, reduction);
}

}  // namespace dlprim::operators
