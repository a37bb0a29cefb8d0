// SPDX-License-Identifier: MIT
// Layer, group and root-mean-square norm.
#include <dlprim/primitives/norm.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <vector>

#include "norm_sums.hpp"
#include "rows.hpp"
#include "two_floats.hpp"

namespace dlprim {

namespace {

struct RowShape {
  std::uint64_t rows, length, inner, groups;
  TwoFloats eps;
};

struct Key {
  RowLayout layout;
  DataType x{}, g{}, y{}, statistics{}, weight{};
  std::uint8_t has_weight = 0, has_bias = 0, center = 0, channelwise = 0, backward = 0, wide = 0, unused = 0;
};

[[noreturn]] void fail(const std::string& message) { throw ValidationError("[group_norm] expected " + message); }

RowShape rows_of(const GroupShape& shape, const TensorView& x, std::initializer_list<const TensorView*> data) {
  if (shape.groups < 1 || shape.channels % shape.groups != 0)
    fail("channels divisible by groups, got " + std::to_string(shape.channels) + " and " +
         std::to_string(shape.groups));
  if (shape.rows * shape.channels * shape.inner != x.numel())
    fail(std::to_string(shape.rows * shape.channels * shape.inner) + " elements, got " + std::to_string(x.numel()));
  for (const TensorView* view : data)
    if (!view->is_contiguous() || view->numel() != x.numel() || !is_floating(view->dtype))
      fail("contiguous floating tensors of equal sizes");
  return {std::uint64_t(shape.rows * shape.groups), std::uint64_t(shape.channels / shape.groups * shape.inner),
          std::uint64_t(shape.inner), std::uint64_t(shape.groups), TwoFloats(shape.eps)};
}

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("norm_rows.cl", key.backward ? "norm_rows_backward" : "norm_rows_forward");
    source.define("X_TAG", tag(key.x)).define("G_TAG", tag(key.g)).define("Y_TAG", tag(key.y));
    source.define("S_TAG", tag(key.statistics)).define("W_TAG", tag(key.weight));
    source.define("REAL", key.x == DataType::float64 ? "double" : "float");
    source.define("HAS_WEIGHT", key.has_weight).define("HAS_BIAS", key.has_bias);
    source.define("CENTER", key.center).define("CHANNELWISE", key.channelwise);
    source.define("LANES", key.layout.lanes).define("ROWS", key.layout.rows).define("ITEMS", key.layout.items);
    source.define("COLUMNS", key.layout.columns);
    if (key.wide) source.define("WIDE");
    return source;
  });
}

Key key_of(Queue& queue, const GroupShape& shape, const RowShape& rows, const TensorView& x, const TensorView& weight,
           const TensorView& rstd, int max_items) {
  Key key;
  key.layout = row_layout(queue.device().info(), std::int64_t(rows.length), 1, max_items);
  key.x = x.dtype, key.statistics = rstd.dtype;
  key.weight = weight.defined() ? weight.dtype : x.dtype;
  key.has_weight = weight.defined(), key.center = shape.center;
  key.channelwise = shape.groups == 1 && shape.inner == 1;
  key.wide = rows.rows * rows.length > std::uint64_t(settings.index_limit);
  if (weight.defined() && weight.numel() != shape.channels)
    fail("a weight of " + std::to_string(shape.channels) + " elements, got " + std::to_string(weight.numel()));
  return key;
}

NDRange range_of(const Key& key, const RowShape& rows) {
  const std::size_t group = std::size_t(key.layout.lanes) * key.layout.rows;
  return NDRange((rows.rows + key.layout.rows - 1) / key.layout.rows * group, group);
}

std::uint64_t bytes(const TensorView& view) { return std::uint64_t(view.numel()) * size_of(view.dtype); }

}  // namespace

void group_norm(Queue& queue, const GroupShape& shape, const TensorView& y, const TensorView& mean,
                const TensorView& rstd, const TensorView& x, const TensorView& weight, const TensorView& bias) {
  const RowShape rows = rows_of(shape, x, {&x, &y});
  Key key = key_of(queue, shape, rows, x, weight, rstd, 16);
  key.g = x.dtype, key.y = y.dtype, key.has_bias = bias.defined();
  if (bias.defined() && weight.defined() && bias.dtype != weight.dtype) fail("weight and bias of one dtype");
  if (bias.defined()) key.weight = bias.dtype;
  if (rows.rows == 0 || rows.length == 0) return;
  const BufferRef none = x.data;
  launch(queue, kernel_of(queue.device(), key), range_of(key, rows), Traffic{bytes(x) + bytes(y)}, rows, y.data,
         mean.defined() ? mean.data : rstd.data, rstd.data, x.data, weight.defined() ? weight.data : none,
         bias.defined() ? bias.data : none);
}

void group_norm_backward(Queue& queue, const GroupShape& shape, const TensorView& gx, const TensorView& gy,
                         const TensorView& x, const TensorView& mean, const TensorView& rstd,
                         const TensorView& weight) {
  const RowShape rows = rows_of(shape, x, {&x, &gx, &gy});
  Key key = key_of(queue, shape, rows, x, weight, rstd, 8);
  key.g = gy.dtype, key.y = gx.dtype, key.backward = 1;
  if (rows.rows == 0 || rows.length == 0) return;
  launch(queue, kernel_of(queue.device(), key), range_of(key, rows), Traffic{bytes(x) + bytes(gx) + bytes(gy)}, rows,
         gx.data, gy.data, x.data, mean.defined() ? mean.data : rstd.data, rstd.data,
         weight.defined() ? weight.data : x.data);
}

void group_norm_sums(Queue& queue, const GroupShape& shape, const TensorView& grad_weight, const TensorView& grad_bias,
                     const TensorView& gy, const TensorView& x, const TensorView& mean, const TensorView& rstd) {
  rows_of(shape, x, {&x, &gy});
  const std::int64_t width = shape.channels / shape.groups;
  const std::int64_t sizes[] = {shape.rows, shape.groups, width, shape.inner};
  const std::int64_t moving[] = {shape.groups, 1, 0, 0};
  auto whole = [&](const TensorView& view) { return TensorView(view.data, view.dtype, sizes); };
  auto statistic = [&](const TensorView& view) { return TensorView(view.data, view.dtype, sizes, moving); };
  auto result = [&](const TensorView& view) {
    const std::int64_t kept[] = {1, shape.groups, width, 1};
    return TensorView(view.data, view.dtype, kept);
  };
  static const ReduceProgram* const uncentered = new ReduceProgram(
      {"REAL dot;", 1, "p->dot = 0;", "p->dot += (REAL)x0 * (REAL)x1 * (REAL)x2;", "p->dot += q.dot;", "y0 = p->dot;"});
  const DataType acc = x.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
  if (!shape.center) {
    const TensorView outputs[] = {result(grad_weight)}, inputs[] = {whole(gy), whole(x), statistic(rstd)};
    return reduce(queue, *uncentered, acc, {outputs, inputs});
  }
  norm_sums(queue, result(grad_bias), result(grad_weight), whole(gy), whole(x), statistic(mean), statistic(rstd));
}

}  // namespace dlprim
