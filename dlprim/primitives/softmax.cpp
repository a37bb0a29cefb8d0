// SPDX-License-Identifier: MIT
#include <dlprim/primitives/softmax.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include "check.hpp"
#include "rows.hpp"

namespace dlprim {

namespace {

struct Shape {
  std::uint64_t rows, length, inner;
};

struct Key {
  RowLayout layout;
  DataType x{}, y{}, g{};
  std::uint8_t log = 0, backward = 0, wide = 0, safe = 0, batch = 0, pack = 1, shifted = 0;
};

void validate(const TensorView& like, const TensorView& view) {
  DLPRIM_EXPECT(is_floating(view.dtype), "softmax", "a floating dtype, got ", view.dtype);
  DLPRIM_EXPECT(view.is_contiguous(), "softmax", "contiguous tensors, got strides");
  DLPRIM_EXPECT(
      view.dims == like.dims && std::equal(view.sizes.begin(), view.sizes.begin() + view.dims, like.sizes.begin()),
      "softmax", "tensors of equal sizes");
}

Shape shape_of(const TensorView& x, int& dim) {
  if (dim < 0) dim += std::max(x.dims, 1);
  DLPRIM_EXPECT(dim >= 0 && dim < std::max(x.dims, 1), "softmax", "a dim below ", x.dims, ", got ", dim);
  Shape shape{1, 1, 1};
  for (int d = 0; d < x.dims; d++)
    (d < dim ? shape.rows : d == dim ? shape.length : shape.inner) *= std::uint64_t(x.sizes[d]);
  shape.rows *= shape.inner;
  return shape;
}

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("softmax.cl", key.backward ? "softmax_backward" : "softmax_forward");
    const bool wide = key.x == DataType::float64 || key.y == DataType::float64;
    source.define("X_TAG", tag(key.x)).define("Y_TAG", tag(key.y)).define("G_TAG", tag(key.g));
    source.define("REAL", wide ? "double" : "float").define("LOG", key.log).define("SAFE", key.safe);
    source.define("LANES", key.layout.lanes).define("ROWS", key.layout.rows).define("ITEMS", key.layout.items);
    source.define("COLUMNS", key.layout.columns).define("BATCH", key.batch).define("PACK", key.pack);
    source.define("SHIFTED", key.shifted);
    if (key.wide) source.define("WIDE");
    return source;
  });
}

// CPUs: dense rows, or neighbouring columns, in vectors.
Kernel& lines_kernel(Device& device, const Key& key) {
  constexpr const char* names[2][2] = {{"softmax_lines_forward", "softmax_lines_backward"},
                                       {"softmax_columns_forward", "softmax_columns_backward"}};
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("softmax_lines.cl", names[key.layout.columns][key.backward]);
    source.define("KEEPS", key.y == DataType::float32 && !key.log);
    source.define("X_TAG", tag(key.x)).define("Y_TAG", tag(key.y)).define("G_TAG", tag(key.g));
    return source.define("LOG", key.log).define("SAFE", key.safe);
  });
}

template <class... Buffers>
void run(Queue& queue, Key key, Shape shape, int max_items, std::initializer_list<const TensorView*> data,
         const Buffers&... buffers) {
  if (shape.rows == 0 || shape.length == 0) return;
  Device& device = queue.device();
  std::uint64_t bytes = 0;
  for (const TensorView* view : data) bytes += std::uint64_t(view->numel()) * size_of(view->dtype);
  key.layout.columns = shape.inner > 1;
  const std::uint64_t run = key.layout.columns ? shape.inner : shape.length;
  if (takes_lines(device.info(), std::int64_t(run), {key.x, key.y, key.g}))
    return launch(queue, lines_kernel(device, key), NDRange(line_groups(device.info(), shape.rows), 1), Traffic{bytes},
                  shape, buffers...);
  // Rows that are no multiple of four begin up to three elements behind a whole pack.
  constexpr std::uint64_t long_row = 256;
  const bool fours = shape.inner == 1 && begins_with_fours(device.info(), data);
  key.shifted = fours && shape.length % 4 != 0 && shape.length >= long_row;
  key.pack = fours && (shape.length % 4 == 0 || key.shifted) ? 4 : 1;
  key.layout = row_layout(device.info(), std::int64_t(shape.length + (key.shifted ? 3 : 0)), std::int64_t(shape.inner),
                          max_items, 1024, key.pack);
  key.batch = device.info().cpu && !settings.gpu_forms ? 1 : 8;
  key.wide = rows_are_wide(shape.rows, shape.length);
  const std::size_t group = std::size_t(key.layout.lanes) * key.layout.rows;
  const std::size_t groups = (shape.rows + key.layout.rows - 1) / key.layout.rows;
  launch(queue, kernel_of(device, key), NDRange(groups * group, group), Traffic{bytes}, shape, buffers...);
}

}  // namespace

void softmax(Queue& queue, SoftmaxKind kind, const TensorView& y, const TensorView& x, int dim) {
  validate(x, x), validate(x, y);
  const Shape shape = shape_of(x, dim);
  Key key;
  key.x = x.dtype, key.y = y.dtype, key.g = y.dtype, key.log = kind == SoftmaxKind::log_softmax;
  key.safe = kind == SoftmaxKind::safe_softmax;
  run(queue, key, shape, 16, {&x, &y}, y.data, x.data);
}

void softmax_backward(Queue& queue, SoftmaxKind kind, const TensorView& grad_x, const TensorView& grad_y,
                      const TensorView& y, int dim) {
  validate(y, y), validate(y, grad_y), validate(y, grad_x);
  const Shape shape = shape_of(y, dim);
  Key key;
  key.x = grad_x.dtype, key.y = y.dtype, key.g = grad_y.dtype, key.backward = 1;
  key.log = kind == SoftmaxKind::log_softmax;
  run(queue, key, shape, 8, {&grad_x, &grad_y, &y}, grad_x.data, grad_y.data, y.data);
}

}  // namespace dlprim
