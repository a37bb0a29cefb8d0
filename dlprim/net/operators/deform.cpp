// SPDX-License-Identifier: MIT
#include "../checked.hpp"
#include "../composition.hpp"
#include "../window.hpp"

namespace dlprim::operators {

namespace {

using Part = Composition::Part;

struct DeformAttributes {
  explicit DeformAttributes(const AttributeReader& reader)
      : window(reader), group(reader.integer("group", 1)), offset_group(reader.integer("offset_group", 1)) {}
  WindowAttributes window;
  std::int64_t group, offset_group;
};

const DeformAttributes& attributes_of(const Call& call) { return call.attributes<DeformAttributes>(); }

// Where each tap of each window stands without offsets, as y and x: [taps, 2, height, width].
Tensor places(DataType type, const Window& w) {
  const Shape shape{w.kernel[0] * w.kernel[1], 2, w.out[0], w.out[1]};
  std::vector<double> values;
  values.reserve(host_elements(shape.total_size(), "a number of positions"));
  for (std::int64_t tap = 0; tap < w.kernel[0] * w.kernel[1]; tap++)
    for (std::size_t d = 0; d < 2; d++)
      for (std::int64_t y = 0; y < w.out[0]; y++)
        for (std::int64_t x = 0; x < w.out[1]; x++) {
          const std::int64_t step = d == 0 ? tap / w.kernel[1] : tap % w.kernel[1];
          values.push_back(double((d == 0 ? y : x) * w.stride[d] + step * w.dilation[d] - w.before[d]));
        }
  if (type == DataType::float64) return Tensor::from_host(type, shape, values.data());
  const std::vector<float> floats(values.begin(), values.end());
  return Tensor::from_host(DataType::float32, shape, floats.data());
}

// The grid that GridSample takes, [N * groups, taps * height, width, 2], of offsets [N, groups * taps * 2, height,
// width].
Part grid_of(Composition& c, const Part& offset, const Window& w, std::int64_t groups, const Shape& image) {
  const DataType type = offset.tensor.dtype();
  const std::int64_t n = offset.shape()[0], taps = w.kernel[0] * w.kernel[1];
  const Part at =
      c("Add"_op, {c.reshape(offset, {n, groups, taps, 2, w.out[0], w.out[1]}), c.constant(places(type, w))});
  auto along = [&](int d) {  // from elements to -1 ... 1
    const double size = double(image[d + 2]);
    return c("Add"_op,
             {c("Mul"_op, {c.narrow(at, 3, d, 1), c.constant(2 / size, type)}), c.constant(1 / size - 1, type)});
  };
  const Part xy = c(inner<"Concat", "axis">(3), {along(1), along(0)});
  return c.reshape(c.transpose(xy, {0, 1, 2, 4, 5, 3}), {n * groups, taps * w.out[0], w.out[1], 2});
}

// Convolution whose taps read the image beside their positions, by offsets of each window (J. Dai et al., "Deformable
// convolutional networks", ICCV 2017), weighted by a mask (X. Zhu et al., CVPR 2019): sampled columns and a product.
void deform_conv(Composition& c) {
  Call& call = c.call;
  const DataType type = call.input(0).dtype(), wide = type == DataType::float64 ? type : DataType::float32;
  const Shape s = call.input(0).shape(), weights = call.input(1).shape();
  if (s.size() != 4 || weights.size() != 4) throw NotImplementedError("two spatial dimensions are supported");
  const Window w = read_window(call, attributes_of(call).window, s, {weights[2], weights[3]});
  const std::int64_t n = s[0], groups = attributes_of(call).group, parts = attributes_of(call).offset_group;
  const std::int64_t taps = w.kernel[0] * w.kernel[1], area = w.out[0] * w.out[1];
  if (groups < 1 || parts < 1 || s[1] % parts || weights[0] % groups || weights[1] * groups != s[1])
    call.fail("the groups do not fit channels and weights");
  if (!(call.input(2).shape() == Shape{n, parts * taps * 2, w.out[0], w.out[1]}))
    call.fail("expected offsets for every tap and window, got " + call.input(2).shape().text());
  const Part image = c.reshape(c.cast(c.input(0), wide), {n * parts, s[1] / parts, s[2], s[3]});
  Part columns = c("GridSample"_op, {image, grid_of(c, c.cast(c.input(2), wide), w, parts, s)});
  if (call.has(4))
    columns = c("Mul"_op, {columns, c.reshape(c.cast(c.input(4), wide), {n * parts, 1, taps * w.out[0], w.out[1]})});
  columns = c.reshape(columns, {n, groups, s[1] / groups * taps, area});
  const Part kernel = c.reshape(c.cast(c.input(1), wide), {1, groups, weights[0] / groups, weights[1] * taps});
  Part y = c.reshape(c("MatMul"_op, {kernel, columns}), {n, weights[0], w.out[0], w.out[1]});
  if (call.has(3)) y = c("Add"_op, {y, c.reshape(c.cast(c.input(3), wide), {weights[0], 1, 1})});
  c.set(0, c.cast(y, type));
}

}  // namespace

void deform(Registry& registry) {
  compose<DeformAttributes, deform_conv>(registry, "DeformConv",
                                         "dilations group kernel_shape offset_group pads strides");
}

}  // namespace dlprim::operators
