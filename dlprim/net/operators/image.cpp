// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/grid_sample.hpp>
#include <dlprim/primitives/pad.hpp>
#include <dlprim/primitives/range.hpp>

#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

void grid_sample_op(Call& call) {
  const Tensor &x = call.input(0), &grid = call.input(1);
  const std::string mode = call.text("mode", "linear"), padding = call.text("padding_mode", "zeros");
  GridSampling how;
  how.mode = mode == "nearest" ? GridSampling::nearest
             : mode == "cubic" || mode == "bicubic" ? GridSampling::cubic : GridSampling::bilinear;
  how.padding = padding == "border" ? GridSampling::border
                : padding == "reflection" ? GridSampling::reflection : GridSampling::zeros;
  how.align_corners = call.integer("align_corners", 0);
  if (grid.shape().size() != x.shape().size() || x.shape().size() < 4) call.fail("expected images and a grid for them");
  Shape shape{x.shape()[0], x.shape()[1]};
  for (int d = 1; d < grid.shape().size() - 1; d++) shape.push_back(grid.shape()[d]);
  const TensorView y = call.out(0, x.dtype(), shape);
  if (y.numel()) grid_sample(call.queue(), x.view(call.queue()), grid.view(call.queue()), y, how);
}

// The coordinates -1 ... 1 of an axis: its ends, or the centres of its elements.
Tensor coordinates(Queue& queue, DataType type, std::int64_t size, bool ends) {
  Tensor result(queue, type, {size});
  if (ends) spaced(queue, result.view(queue), -1, 1);
  else sequence(queue, result.view(queue), -1 + 1 / double(size), 2 / double(size));
  return result;
}

// theta [N, 2, 3] or [N, 3, 4] applied to the coordinates of an image.
void affine_grid(Call& call) {
  Queue& queue = call.queue();
  const Tensor& theta = call.input(0);
  const std::vector<std::int64_t> size = call.read_integers(1);
  const int axes = int(size.size()) - 2;
  const DataType type = theta.dtype();
  if ((axes != 2 && axes != 3) || !(theta.shape() == Shape{size[0], axes, axes + 1})) call.fail("theta does not fit the size");
  Shape shape(std::vector<std::int64_t>(size.begin() + 2, size.end()));
  shape.push_back(axes + 1);
  const Tensor points(queue, type, shape);
  for (int a = 0; a < axes; a++) {  // x belongs to the last axis
    Tensor c = coordinates(queue, type, size[std::size_t(a + 2)], call.integer("align_corners", 0));
    for (int d = a + 1; d < axes; d++) c = unsqueeze(c, c.shape().size());
    const Tensor to = select(points, axes, axes - 1 - a);
    copy(queue, to.view(queue), expand(c, to.shape()).view(queue));
  }
  fill(queue, select(points, axes, axes).view(queue), 1);
  const std::int64_t count = shape.product(0, axes);
  const Tensor flat = expand(reshape(queue, points, {1, count, axes + 1}), {size[0], count, axes + 1});
  Shape result{size[0]};
  for (int d = 0; d < axes; d++) result.push_back(shape[d]);
  result.push_back(axes);
  call.set(0, reshape(queue, matmul(queue, flat, transpose(theta)), result));
}

// Sums of columns over the windows of images; further axes are not supported by the primitive.
void col2im(Call& call) {
  Queue& queue = call.queue();
  const Tensor x = contiguous(queue, call.input(0));
  const auto image = call.read_integers(1), block = call.read_integers(2);
  if (image.size() != 2 || block.size() != 2)
    throw NotImplementedError("two spatial dimensions are supported, got " + std::to_string(image.size()));
  auto list = [&](const char* name, std::size_t count, std::int64_t otherwise) {
    auto values = call.integers(name);
    if (values.empty()) values.assign(count, otherwise);
    if (values.size() != count) call.fail(std::string("expected ") + std::to_string(count) + " " + name);
    return values;
  };
  const auto strides = list("strides", 2, 1), dilations = list("dilations", 2, 1), pads = list("pads", 4, 0);
  const std::int64_t n = x.shape()[0], channels = x.shape()[1] / (block[0] * block[1]);
  Windows w;
  std::int64_t count[2], height[2];
  for (std::size_t d = 0; d < 2; d++) {
    w.kernel[d] = block[d], w.stride[d] = strides[d], w.dilation[d] = dilations[d], w.padding[d] = pads[d];
    height[d] = image[d] + pads[d + 2] - pads[d];  // the primitive pads both ends alike
    count[d] = (image[d] + pads[d] + pads[d + 2] - (block[d] - 1) * dilations[d] - 1) / strides[d] + 1;
  }
  if (x.shape()[2] != count[0] * count[1] || height[0] != image[0] || height[1] != image[1])
    throw NotImplementedError("expected equal pads on both ends and a column for each window");
  const TensorView y = call.out(0, x.dtype(), {n, channels, image[0], image[1]});
  fold(queue, y.reshaped({n * channels, image[0], image[1]}),
       x.view(queue).reshaped({n * channels, block[0], block[1], count[0], count[1]}), w);
}

}  // namespace

void image(Registry& registry) {
  registry.add("GridSample", grid_sample_op, "align_corners mode=linear|bilinear|nearest|cubic|bicubic "
                                             "padding_mode=zeros|border|reflection");
  registry.add("AffineGrid", affine_grid, "align_corners");
  registry.add("Col2Im", col2im, "dilations pads strides");
}

}  // namespace dlprim::operators
