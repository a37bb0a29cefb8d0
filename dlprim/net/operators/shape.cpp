// SPDX-License-Identifier: MIT
// Operators that look at tensors in another shape: most enqueue nothing.
#include <algorithm>

#include "../array.hpp"
#include "../checked.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

using Integers = std::vector<std::int64_t>;

struct ShapeAttributes {
  explicit ShapeAttributes(const AttributeReader& reader)
      : shape(reader.integers("shape")), axes(reader.integers("axes")), perm(reader.integers("perm")),
        starts(reader.integers("starts")), ends(reader.integers("ends")), split(reader.integers("split")),
        has_shape(reader.given("shape")), has_axes(reader.given("axes")), has_perm(reader.given("perm")),
        allowzero(reader.integer("allowzero", 0)), blocksize(reader.integer("blocksize", 0)),
        axis(reader.find<std::int64_t>("axis")), start(reader.find<std::int64_t>("start")),
        end(reader.find<std::int64_t>("end")), num_outputs(reader.find<std::int64_t>("num_outputs")),
        mode(reader.text("mode", "DCR")) {}
  std::vector<std::int64_t> shape, axes, perm, starts, ends, split;
  bool has_shape, has_axes, has_perm;
  std::int64_t allowzero, blocksize;
  std::optional<std::int64_t> axis, start, end, num_outputs;
  std::string mode;
};

const ShapeAttributes& attributes_of(const Call& call) { return call.attributes<ShapeAttributes>(); }

void shape_of(Call& call) {
  const Shape& shape = call.input(0).shape();
  const std::int64_t rank = shape.size();
  auto bound = [&](std::int64_t value) { return std::clamp<std::int64_t>(value < 0 ? value + rank : value, 0, rank); };
  const std::int64_t start = bound(attributes_of(call).start.value_or(0));
  const std::int64_t end = std::max(start, bound(attributes_of(call).end.value_or(rank)));
  const auto& sizes = shape.sizes();
  call.set(0, Tensor::from_integers({sizes.data() + start, std::size_t(end - start)}), call.value(0).shape);
}

void size_of_tensor(Call& call) {
  const std::int64_t numel = call.input(0).numel();
  call.set(0, Tensor::from_host(DataType::int64, {}, &numel), call.value(0).shape);
}

void identity(Call& call) { call.set(0, Value{call.value(0).tensor, call.value(0).sequence}); }

// The size at `open` that keeps the number of elements. Where another size is 0, any would: then it is the one that keeps
// the product of the sizes that are not, so that an empty batch is reshaped as a full one.
std::int64_t open_size(Call& call, const Shape& from, Shape shape, int open) {
  shape[open] = 1;
  if (const std::int64_t rest = shape.total_size()) return from.total_size() / rest;
  auto counted = [](const Shape& sizes) {
    std::int64_t product = 1;
    for (std::int64_t size : sizes)
      if (size != 0) product = checked_multiply(product, size);
    return product;
  };
  const std::int64_t all = counted(from), rest = counted(shape);
  if (all % rest) call.fail("shape " + shape.text() + " does not fit " + from.text());
  return all / rest;
}

void reshape_op(Call& call) {
  const Tensor& x = call.input(0);
  Shape shape(attributes_of(call).has_shape ? attributes_of(call).shape : call.read_integers(1));
  const bool allow_zero = attributes_of(call).allowzero;
  int open = -1;
  for (int d = 0; d < shape.size(); d++) {
    if (shape[d] == 0 && !allow_zero) {
      if (d >= x.shape().size()) call.fail("shape " + shape.text() + " keeps a size that the input lacks");
      shape[d] = x.shape()[d];
    }
    if (shape[d] == -1) {
      if (open >= 0) call.fail("shape " + shape.text() + " leaves two sizes open");
      open = d;
    }
  }
  if (open >= 0) shape[open] = open_size(call, x.shape(), shape, open);
  call.set(0, reshape(call.queue(), x, shape));
}

void flatten(Call& call) {
  const Tensor& x = call.input(0);
  const int axis =
      x.shape().axis(attributes_of(call).axis.value_or(1), attributes_of(call).axis.value_or(1) >= 0 ? 1 : 0);
  call.set(0, reshape(call.queue(), x, {x.shape().product(0, axis), x.shape().product(axis, x.shape().size())}));
}

Integers axes_of(Call& call) { return call.has(1) ? call.read_integers(1) : attributes_of(call).axes; }

void squeeze(Call& call) {
  const Tensor& x = call.input(0);
  std::vector<bool> drop(std::size_t(x.shape().size()));
  const Integers axes = axes_of(call);
  const bool all = !call.has(1) && !attributes_of(call).has_axes;
  for (std::int64_t axis : axes) drop[std::size_t(x.shape().axis(axis))] = true;
  Shape shape;
  Integers strides;
  for (int d = 0; d < x.shape().size(); d++) {
    const bool one = x.shape()[d] == 1;
    if (drop[std::size_t(d)] && !one)
      call.fail("dimension " + std::to_string(d) + " of " + x.shape().text() + " is not 1");
    if (!drop[std::size_t(d)] && !(all && one))
      shape.push_back(x.shape()[d]), strides.push_back(x.strides()[std::size_t(d)]);
  }
  call.set(0, x.strided(shape, strides));
}

void unsqueeze_op(Call& call) {
  Tensor x = call.input(0);
  Integers axes = axes_of(call);
  const std::int64_t rank = x.shape().size() + std::int64_t(axes.size());
  for (std::int64_t& axis : axes) {
    if (axis < -rank || axis >= rank) call.fail("expected axes within " + std::to_string(rank) + " dimensions");
    axis += axis < 0 ? rank : 0;
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) call.fail("an axis appears twice");
  for (std::int64_t axis : axes) x = unsqueeze(x, int(axis));
  call.set(0, x);
}

void transpose_op(Call& call) {
  const Tensor& x = call.input(0);
  Integers order = attributes_of(call).perm;
  if (!attributes_of(call).has_perm)
    for (int d = x.shape().size() - 1; d >= 0; d--) order.push_back(d);
  call.set(0, permute(x, order));
}

void expand_op(Call& call) {
  const Tensor& x = call.input(0);
  call.set(0, expand(x, broadcast(x.shape(), Shape(call.read_integers(1)))));
}

// Bounds are attributes up to operator set 9.
void slice(Call& call) {
  const bool inputs = call.has(1);
  const Integers starts = inputs ? call.read_integers(1) : attributes_of(call).starts;
  const Integers ends = inputs ? call.read_integers(2) : attributes_of(call).ends;
  Integers axes = inputs ? (call.has(3) ? call.read_integers(3) : Integers()) : attributes_of(call).axes;
  Integers steps = call.has(4) ? call.read_integers(4) : Integers(starts.size(), 1);
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); i++) axes.push_back(std::int64_t(i));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    call.fail("expected as many starts, ends, axes and steps");
  Tensor x = call.input(0);
  for (std::size_t i = 0; i < axes.size(); i++) {
    const int dim = x.shape().axis(axes[i]);
    const std::int64_t size = x.shape()[dim], step = std::clamp<std::int64_t>(steps[i], -size - 1, size + 1);
    if (step == 0) call.fail("expected steps other than 0");
    auto clamped = [&](std::int64_t at) {
      at = at < 0 ? (at < -size ? -1 : at + size) : at;
      return step > 0 ? std::clamp<std::int64_t>(at, 0, size) : std::clamp<std::int64_t>(at, -1, size - 1);
    };
    const std::int64_t start = clamped(starts[i]), end = clamped(ends[i]);
    const std::int64_t length = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
    x = narrow(x, dim, start, std::max<std::int64_t>(0, length), step);
  }
  call.set(0, x);
}

void split(Call& call) {
  const Tensor& x = call.input(0);
  const int dim = x.shape().axis(attributes_of(call).axis.value_or(0));
  Integers lengths = call.has(1) ? call.read_integers(1) : attributes_of(call).split;
  const std::int64_t size = x.shape()[dim], parts = attributes_of(call).num_outputs.value_or(call.outputs());
  if (lengths.empty()) {
    if (parts <= 0) call.fail("expected at least one output");
    const std::int64_t each = divide_up(size, parts);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(parts, call.outputs()); i++)
      lengths.push_back(std::clamp<std::int64_t>(size - i * each, 0, each));
  }
  std::int64_t start = 0;
  for (int i = 0; i < call.outputs(); i++) {
    if (std::size_t(i) >= lengths.size() || lengths[std::size_t(i)] < 0 || lengths[std::size_t(i)] > size - start)
      call.fail("lengths " + Shape(lengths).text() + " do not fit " + x.shape().text());
    call.set(i, narrow(x, dim, start, lengths[std::size_t(i)]));
    start += lengths[std::size_t(i)];
  }
}

void concat_op(Call& call) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < call.inputs(); i++) inputs.push_back(call.input(i));
  if (inputs.empty()) call.fail("expected at least one input");
  call.set(0, concat(call.queue(), inputs, inputs[0].shape().axis(attributes_of(call).axis.value_or(1))));
}

void tile(Call& call) {
  Tensor x = call.input(0);
  const Integers repeats = call.read_integers(1);
  const int rank = x.shape().size();
  if (int(repeats.size()) != rank) call.fail("expected a repeat for each of " + std::to_string(rank) + " dimensions");
  Shape shape, result;
  for (int d = 0; d < rank; d++) {
    x = unsqueeze(x, 2 * d);
    if (repeats[std::size_t(d)] < 0) call.fail("expected repeats of 0 or more");
    shape.push_back(repeats[std::size_t(d)]), shape.push_back(call.input(0).shape()[d]);
    result.push_back(checked_multiply(repeats[std::size_t(d)], call.input(0).shape()[d]));
  }
  call.set(0, reshape(call.queue(), expand(x, shape), result));
}

void depth_to_space(Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t b = attributes_of(call).blocksize;
  const Shape& s = x.shape();
  if (s.size() != 4 || b <= 0 || s[1] % checked_multiply(b, b))
    call.fail("expected N, C, H, W with C a multiple of blocksize^2, got " + s.text());
  const bool dcr = attributes_of(call).mode == "DCR";
  const std::int64_t c = s[1] / (b * b);
  const Tensor blocks = dcr ? permute(reshape(call.queue(), x, {s[0], b, b, c, s[2], s[3]}), {0, 3, 4, 1, 5, 2})
                            : permute(reshape(call.queue(), x, {s[0], c, b, b, s[2], s[3]}), {0, 1, 4, 2, 5, 3});
  call.set(0, reshape(call.queue(), blocks, {s[0], c, s[2] * b, s[3] * b}));
}

void space_to_depth(Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t b = attributes_of(call).blocksize;
  const Shape& s = x.shape();
  if (s.size() != 4 || b <= 0 || s[2] % b || s[3] % b)
    call.fail("expected N, C, H, W with multiples of blocksize, got " + s.text());
  const std::int64_t channels = checked_product(Integers{s[1], b, b});
  const Tensor blocks = reshape(call.queue(), x, {s[0], s[1], s[2] / b, b, s[3] / b, b});
  const bool dcr = attributes_of(call).mode == "DCR";
  call.set(0, reshape(call.queue(), permute(blocks, dcr ? Integers{0, 3, 5, 1, 2, 4} : Integers{0, 1, 3, 5, 2, 4}),
                      {s[0], channels, s[2] / b, s[3] / b}));
}

}  // namespace

void shape(Registry& registry) {
  registry.add<ShapeAttributes>("Shape", shape_of, "start end");
  registry.add("Size", size_of_tensor);
  registry.add("Identity", identity);
  registry.add<ShapeAttributes>("Reshape", reshape_op, "shape allowzero consumed_inputs");
  registry.add<ShapeAttributes>("Flatten", flatten, "axis");
  registry.add<ShapeAttributes>("Squeeze", squeeze, "axes");
  registry.add<ShapeAttributes>("Unsqueeze", unsqueeze_op, "axes");
  registry.add<ShapeAttributes>("Transpose", transpose_op, "perm");
  registry.add("Expand", expand_op);
  registry.add<ShapeAttributes>("Slice", slice, "starts ends axes");
  registry.add<ShapeAttributes>("Split", split, "axis split num_outputs");
  registry.add<ShapeAttributes>("Concat", concat_op, "axis");
  registry.add("Tile", tile);
  registry.add<ShapeAttributes>("DepthToSpace", depth_to_space, "blocksize mode=DCR|CRD");
  registry.add<ShapeAttributes>("SpaceToDepth", space_to_depth, "blocksize mode=DCR|CRD");
}

}  // namespace dlprim::operators
