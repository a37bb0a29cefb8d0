// SPDX-License-Identifier: MIT
#include "../image.hpp"

#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/range.hpp>

#include "../array.hpp"
#include "../checked.hpp"
#include "../composition.hpp"
#include "../window.hpp"

#include <algorithm>

namespace dlprim {

GridSampleAttributes::GridSampleAttributes(const AttributeReader& reader) {
  const std::string mode = reader.text("mode", "linear"), padding = reader.text("padding_mode", "zeros");
  GridSampling& how = sampling;
  how.mode = mode == "nearest"                      ? GridSampling::nearest
             : mode == "cubic" || mode == "bicubic" ? GridSampling::cubic
                                                    : GridSampling::bilinear;
  how.padding = padding == "border"       ? GridSampling::border
                : padding == "reflection" ? GridSampling::reflection
                                          : GridSampling::zeros;
  how.align_corners = reader.integer("align_corners", 0);
}

ImageColumns read_image_columns(Call& call, const Shape& x) {
  const std::vector<std::int64_t> image = call.read_integers(1), block = call.read_integers(2);
  const auto& attributes = call.attributes<ColumnsAttributes>();
  const std::size_t axes = image.size();
  ImageColumns c{block,
                 integer_list(call, "strides", attributes.strides, axes, 1),
                 integer_list(call, "dilations", attributes.dilations, axes, 1),
                 integer_list(call, "pads", attributes.pads, 2 * axes, 0),
                 image,
                 {},
                 {}};
  if (axes < 1 || block.size() != axes || x.size() != 3)
    call.fail("expected columns [N, C, L], an image and a block of one rank");
  const std::int64_t taps = Shape(block).total_size();
  const auto small = [](std::int64_t size) { return size < 1; };
  if (std::any_of(block.begin(), block.end(), small) || std::any_of(image.begin(), image.end(), small) || x[1] % taps)
    call.fail("columns " + x.text() + " do not hold blocks of " + Shape(block).text());
  c.shape = {x[0], x[1] / taps, taps}, c.padded = {x[0], x[1] / taps};
  for (std::size_t d = 0; d < axes; d++) {
    c.padded.push_back(checked_add(image[d], checked_add(c.pads[d], c.pads[d + axes])));
    const std::int64_t room =
        checked_subtract(c.padded[int(d) + 2], checked_add(checked_multiply(block[d] - 1, c.dilations[d]), 1));
    if (room < 0 || c.strides[d] < 1 || c.dilations[d] < 1 || c.pads[d] < 0 || c.pads[d + axes] < 0)
      call.fail("the block does not fit the image " + Shape(image).text());
    c.shape.push_back(room / c.strides[d] + 1);
  }
  if (c.shape.product(3, c.shape.size()) != x[2]) call.fail("expected a column for each window, got " + x.text());
  return c;
}

Tensor ImageColumns::places(const Tensor& padded, std::int64_t tap) const {
  Tensor result = padded;
  for (std::size_t d = block.size(); d-- > 0; tap /= block[d])
    result = narrow(result, int(d) + 2, tap % block[d] * dilations[d], shape[int(d) + 3], strides[d]);
  return result;
}

Tensor ImageColumns::image(const Tensor& padded) const {
  Tensor result = padded;
  for (std::size_t d = 0; d < block.size(); d++) result = narrow(result, int(d) + 2, pads[d], sizes[d]);
  return result;
}

namespace operators {

namespace {

// Of an AffineGrid.
struct GridAttributes {
  explicit GridAttributes(const AttributeReader& reader) : align_corners(reader.integer("align_corners", 0)) {}
  bool align_corners;
};

void grid_sample_op(Call& call) {
  const Tensor &x = call.input(0), &grid = call.input(1);
  if (grid.shape().size() != x.shape().size() || x.shape().size() < 4) call.fail("expected images and a grid for them");
  Shape shape{x.shape()[0], x.shape()[1]};
  for (int d = 1; d < grid.shape().size() - 1; d++) shape.push_back(grid.shape()[d]);
  const TensorView y = call.out(0, x.dtype(), shape);
  if (y.numel())
    grid_sample(call.queue(), x.view(call.queue()), grid.view(call.queue()), y,
                call.attributes<GridSampleAttributes>().sampling);
}

// The coordinates -1 ... 1 of an axis: its ends, or the centres of its elements.
Tensor coordinates(Queue& queue, DataType type, std::int64_t size, bool ends) {
  Tensor result(queue, type, {size});
  if (ends) spaced(queue, result.view(queue), -1, 1);
  else sequence(queue, result.view(queue), -1 + 1 / double(size), 2 / double(size));
  return result;
}

// theta [N, 2, 3] or [N, 3, 4] applied to the coordinates of an image.
void affine_grid(Composition& c) {
  Call& call = c.call;
  Queue& queue = call.queue();
  const Composition::Part theta = c.input(0);
  const std::vector<std::int64_t> size = call.read_integers(1);
  const int axes = int(size.size()) - 2;
  const DataType type = theta.tensor.dtype();
  if ((axes != 2 && axes != 3) || !(theta.shape() == Shape{size[0], axes, axes + 1}))
    call.fail("theta does not fit the size");
  Shape shape(std::vector<std::int64_t>(size.begin() + 2, size.end()));
  shape.push_back(axes + 1);
  const Tensor points(queue, type, shape);
  for (int a = 0; a < axes; a++) {  // x belongs to the last axis
    Tensor at = coordinates(queue, type, size[std::size_t(a + 2)], call.attributes<GridAttributes>().align_corners);
    for (int d = a + 1; d < axes; d++) at = unsqueeze(at, at.shape().size());
    const Tensor to = select(points, axes, axes - 1 - a);
    copy(queue, to.view(queue), expand(at, to.shape()).view(queue));
  }
  fill(queue, select(points, axes, axes).view(queue), 1);
  const Tensor flat = reshape(queue, points, {1, shape.product(0, axes), axes + 1});
  Shape result{size[0]};
  for (int d = 0; d < axes; d++) result.push_back(shape[d]);
  result.push_back(axes);
  c.set(0, c.reshape(c("MatMul"_op, {c.constant(flat), c.transpose(theta, {0, 2, 1})}), result));
}

// Sums of columns over the windows of images, tap by tap.
void col2im(Call& call) {
  Queue& queue = call.queue();
  const ImageColumns columns = read_image_columns(call, call.input(0).shape());
  const Tensor x = reshape(queue, call.input(0), columns.shape), padded = filled(queue, x.dtype(), columns.padded, 0);
  for (std::int64_t tap = 0; x.numel() && tap < columns.shape[2]; tap++) {
    const Tensor place = columns.places(padded, tap);
    copy(queue, place.view(queue), apply(queue, "y0 = x0 + x1;", {place, select(x, 2, tap)}).view(queue));
  }
  call.set(0, columns.image(padded));
}

}  // namespace

void image(Registry& registry) {
  registry.add<GridSampleAttributes>("GridSample", grid_sample_op,
                                     "align_corners mode=linear|bilinear|nearest|cubic|bicubic "
                                     "padding_mode=zeros|border|reflection");
  compose<GridAttributes, affine_grid>(registry, "AffineGrid", "align_corners");
  registry.add<ColumnsAttributes>("Col2Im", col2im, "dilations pads strides");
}

}  // namespace operators
}  // namespace dlprim
