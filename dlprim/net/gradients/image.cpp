// SPDX-License-Identifier: MIT
#include "../image.hpp"

#include <dlprim/primitives/copy.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

void grid_sample_op(GradientCall& call) {
  Queue& queue = call.queue();
  const Tensor &x = call.input(0), &grid = call.input(1), dy = cast(queue, call.gradient(), x.dtype());
  const DataType wide = x.dtype() == DataType::float64 ? DataType::float64 : DataType::float32;
  Tensor dx, dgrid;
  if (call.needs(0)) dx = filled(queue, wide, x.shape(), 0);
  if (call.needs(1)) dgrid = filled(queue, grid.dtype(), grid.shape(), 0);
  auto view = [&](const Tensor& t) { return t.defined() ? t.view(queue) : TensorView(); };
  grid_sample_backward(queue, dy.view(queue), x.view(queue), grid.view(queue), view(dx), view(dgrid),
                       call.attributes<GridSampleAttributes>().sampling);
  if (dx.defined()) call.add(0, dx);
  if (dgrid.defined()) call.add(1, dgrid);
}

void col2im(GradientCall& call) {
  Queue& queue = call.queue();
  const ImageColumns columns = read_image_columns(call, call.shape(0));
  const Tensor dy = call.gradient(), padded = filled(queue, dy.dtype(), columns.padded, 0);
  copy(queue, columns.image(padded).view(queue), dy.view(queue));
  const Tensor dx(queue, dy.dtype(), columns.shape);
  for (std::int64_t tap = 0; tap < columns.shape[2]; tap++)
    copy(queue, select(dx, 2, tap).view(queue), columns.places(padded, tap).view(queue));
  call.add(0, reshape(queue, dx, call.shape(0)));
}

}  // namespace

void image(GradientRegistry& registry) {
  registry.add<GridSampleAttributes>("GridSample", grid_sample_op, "x0 x1");
  registry.add<ColumnsAttributes>("Col2Im", col2im, "x1 x2");
}

}  // namespace dlprim::gradients
