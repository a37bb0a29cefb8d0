// SPDX-License-Identifier: MIT
#include <dlprim/primitives/grid_sample.hpp>
#include <dlprim/runtime/launch.hpp>

#include "grid.hpp"
#include "narrow.hpp"

namespace dlprim {

namespace {

constexpr const char* modes[] = {"bilinear", "nearest", "cubic"};
constexpr const char* paddings[] = {"zeros", "border", "reflection"};

// The struct of grid_sample.cl.
struct Parameters {
  cl_long in_stride[5], out_stride[5], grid_stride[5], gradient_stride[5];
  cl_int batch, channels, in[3], out[3];
};

struct Key {
  DataType type;
  GridSampling::Mode mode;
  GridSampling::Padding padding;
  std::uint8_t align_corners, axes, backward, image, grid;
};

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("grid_sample.cl", "sample");
    source.define("T", tag(key.type)).define("MODE", modes[key.mode]).define("PADDING", paddings[key.padding]);
    source.define("AXES", key.axes).define("MODULO_DOUBLE", key.type == DataType::float64);
    if (key.align_corners) source.define("ALIGN_CORNERS");
    if (!key.backward) return source;
    const DataType gradient = key.type == DataType::float64 ? DataType::float64 : DataType::float32;
    source.define("BACKWARD").define("G", tag(gradient)).define("G_BYTES", std::int64_t(size_of(gradient)));
    if (queue.device().info().int64_atomics) source.define("INT64_ATOMICS");
    if (key.image) source.define("WITH_IMAGE");
    if (key.grid) source.define("WITH_GRID");
    return source;
  });
}

// Strides as n, second dimension, d, h, w.
void strides_of(const TensorView& view, int second, int first_axis, cl_long (&strides)[5]) {
  const int axes = view.dims - 2;
  strides[0] = view.strides[0], strides[1] = view.stride(second);
  for (int axis = 0; axis < 3; axis++)
    strides[2 + axis] = axis < 3 - axes ? 0 : view.strides[first_axis + axis - (3 - axes)];
}

Parameters parameters(const TensorView& in, const TensorView& grid, const TensorView& out, const GridSampling& how) {
  const int axes = in.dims - 2;
  bool good = (axes == 2 || axes == 3) && grid.dims == in.dims && out.dims == in.dims && is_floating(in.dtype) &&
              grid.dtype == in.dtype && out.dtype == in.dtype && grid.size(-1) == axes &&
              in.sizes[0] == grid.sizes[0] && out.sizes[0] == in.sizes[0] && out.sizes[1] == in.sizes[1];
  for (int axis = 0; good && axis < axes; axis++) good = out.sizes[2 + axis] == grid.sizes[1 + axis];
  if (!good)
    throw ValidationError("[grid_sample] expected an image (N, C, spatial...), a grid (N, spatial..., axes) and an "
                          "output (N, C, spatial...) of one floating dtype");
  if (axes == 3 && how.mode == GridSampling::cubic)
    throw ValidationError("[grid_sample] expected bilinear or nearest for three axes, got cubic");
  Parameters p{};
  strides_of(in, 1, 2, p.in_stride);
  strides_of(out, 1, 2, p.out_stride);
  strides_of(grid, -1, 1, p.grid_stride);
  p.batch = narrow("grid_sample", "a batch", in.sizes[0]);
  p.channels = narrow("grid_sample", "channels", in.sizes[1]);
  for (int axis = 0; axis < 3; axis++) {
    p.in[axis] = axis < 3 - axes ? 1 : narrow("grid_sample", "a size", in.size(axis - 3));
    p.out[axis] = axis < 3 - axes ? 1 : narrow("grid_sample", "a size", out.size(axis - 3));
  }
  return p;
}

Grid extents(const Parameters& p) { return Grid(p.out[2], p.out[1], std::int64_t(p.batch) * p.out[0]); }

}  // namespace

void grid_sample(Queue& queue, const TensorView& in, const TensorView& grid, const TensorView& out,
                 const GridSampling& how) {
  const Parameters p = parameters(in, grid, out, how);
  const Key key{in.dtype, how.mode, how.padding, how.align_corners, std::uint8_t(in.dims - 2), 0, 0, 0};
  const Grid walked = extents(p);
  launch(queue, kernel_for(queue, key), walked.range(), in.data, grid.data, out.data, p, cl_int(walked.x),
         cl_int(walked.y), cl_long(walked.z));
}

void grid_sample_backward(Queue& queue, const TensorView& grad_out, const TensorView& in, const TensorView& grid,
                          const TensorView& grad_in, const TensorView& grad_grid, const GridSampling& how) {
  Parameters p = parameters(in, grid, grad_out, how);
  const DataType expected = in.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
  if (grad_in.defined()) {
    if (grad_in.dtype != expected || grad_in.dims != in.dims)
      throw ValidationError(std::string("[grid_sample_backward] expected an image gradient of ") + name(expected));
    strides_of(grad_in, 1, 2, p.gradient_stride);
  }
  if (grad_grid.defined() && (!grad_grid.is_contiguous() || grad_grid.dtype != in.dtype))
    throw ValidationError("[grid_sample_backward] expected a contiguous gradient of the grid in the image's dtype");
  const Key key{in.dtype, how.mode,          how.padding,        how.align_corners, std::uint8_t(in.dims - 2),
                1,        grad_in.defined(), grad_grid.defined()};
  const Grid walked = extents(p);
  launch(queue, kernel_for(queue, key), walked.range(), in.data, grid.data, grad_out.data, grad_in.data, grad_grid.data,
         p, cl_int(walked.x), cl_int(walked.y), cl_long(walked.z));
}

}  // namespace dlprim
