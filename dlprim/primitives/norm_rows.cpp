// SPDX-License-Identifier: MIT
// Layer, group and root-mean-square norm.
#include <dlprim/primitives/norm.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <optional>
#include <vector>

#include "check.hpp"
#include "norm_columns.hpp"
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
  std::uint8_t has_weight = 0, has_bias = 0, center = 0, channelwise = 0, pass = 0, wide = 0, pack = 1;
  std::uint8_t lines = 0, spans = 0, sums = 0, unused = 0;  // lines: CPUs' form, with the next two
};

constexpr const char* passes[] = {"norm_rows_forward", "norm_rows_backward", "norm_rows_gradients"};
constexpr const char* line_passes[] = {"norm_lines_forward", "norm_lines_backward"};
enum Pass : std::uint8_t { forward_pass, backward_pass, gradients_pass };

RowShape rows_of(const GroupShape& shape, const TensorView& x, std::initializer_list<const TensorView*> data) {
  DLPRIM_EXPECT(shape.groups >= 1 && shape.channels % shape.groups == 0, "group_norm",
                "channels divisible by groups, got ", shape.channels, " and ", shape.groups);
  DLPRIM_EXPECT(shape.rows * shape.channels * shape.inner == x.numel(), "group_norm",
                shape.rows * shape.channels * shape.inner, " elements, got ", x.numel());
  for (const TensorView* view : data)
    DLPRIM_EXPECT(view->is_contiguous() && view->numel() == x.numel() && is_floating(view->dtype), "group_norm",
                  "contiguous floating tensors of equal sizes");
  return {std::uint64_t(shape.rows * shape.groups), std::uint64_t(shape.channels / shape.groups * shape.inner),
          std::uint64_t(shape.inner), std::uint64_t(shape.groups), TwoFloats(shape.eps)};
}

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source = key.lines ? KernelSource("norm_lines.cl", line_passes[key.pass])
                                    : KernelSource("norm_rows.cl", passes[key.pass]);
    source.define("X_TAG", tag(key.x)).define("G_TAG", tag(key.g)).define("Y_TAG", tag(key.y));
    source.define("S_TAG", tag(key.statistics)).define("W_TAG", tag(key.weight));
    source.define("REAL", key.x == DataType::float64 ? "double" : "float");
    source.define("HAS_WEIGHT", key.has_weight).define("HAS_BIAS", key.has_bias);
    source.define("CENTER", key.center).define("CHANNELWISE", key.channelwise);
    source.define("LANES", key.layout.lanes).define("ROWS", key.layout.rows).define("ITEMS", key.layout.items);
    source.define("COLUMNS", key.layout.columns).define("PACK", key.pack);
    source.define("SPANS", key.spans).define("SUMS", key.sums);
    if (key.wide) source.define("WIDE");
    return source;
  });
}

// Of a pass over `data`; each work-item keeps at most `max_items` elements of a row.
Key key_of(Queue& queue, const GroupShape& shape, const RowShape& rows, std::initializer_list<const TensorView*> data,
           const TensorView& x, const TensorView& weight, const TensorView& rstd, int max_items) {
  const DeviceInfo& info = queue.device().info();
  Key key;
  key.channelwise = shape.groups == 1 && shape.inner == 1;
  key.pack = key.channelwise && takes_fours(info, shape.channels, data) ? 4 : 1;
  key.layout = row_layout(info, std::int64_t(rows.length), 1, max_items, key.pack > 1 ? 1024 : 256, key.pack);
  if (key.layout.items == 0) key.pack = 1;
  key.x = x.dtype, key.statistics = rstd.dtype;
  key.weight = weight.defined() ? weight.dtype : x.dtype;
  key.has_weight = weight.defined(), key.center = shape.center;
  key.wide = rows_are_wide(rows.rows, rows.length);
  DLPRIM_EXPECT(!weight.defined() || weight.numel() == shape.channels, "group_norm", "a weight of ", shape.channels,
                " elements, got ", weight.numel());
  return key;
}

// Whether CPUs walk along the rows in vectors; then the key is that of their form.
bool set_lines(Key& key, const DeviceInfo& info, const RowShape& rows) {
  const std::uint64_t run = rows.inner > 1 ? rows.inner : rows.length;
  if (!takes_lines(info, std::int64_t(run), {key.x, key.g, key.y, key.weight, key.statistics})) return false;
  key.lines = 1, key.spans = rows.inner > 1;
  key.layout = {}, key.channelwise = key.wide = 0, key.pack = 1;
  return true;
}

NDRange range_of(const Key& key, const RowShape& rows) {
  const std::size_t group = std::size_t(key.layout.lanes) * key.layout.rows;
  return NDRange((rows.rows + key.layout.rows - 1) / key.layout.rows * group, group);
}

std::uint64_t bytes(const TensorView& view) { return std::uint64_t(view.numel()) * size_of(view.dtype); }

// Groups of the pass that computes all gradients: as many as a GPU runs at once. 0: it does not pay, as partial sums
// would be as large as a good part of the data.
std::size_t persistent_groups(const DeviceInfo& info, const Key& key, const RowShape& rows) {
  if (key.pack == 1) return 0;
  const std::size_t group = std::size_t(key.layout.lanes) * key.layout.rows;
  const std::size_t groups = info.compute_units * std::max<std::size_t>(1, 2048 / group);
  return rows.rows >= 4 * groups * key.layout.rows ? groups : 0;
}

struct Gradients {
  const GroupShape& shape;
  const TensorView &gx, &gy, &x, &mean, &rstd, &weight, &grad_weight, &grad_bias;
};

void one_pass_gradients(Queue& queue, const Key& key, const RowShape& rows, std::size_t groups, const Gradients& all) {
  const PartialSums partials(queue, std::int64_t(groups) * key.layout.rows, all.shape, key.x);
  const std::size_t group = std::size_t(key.layout.lanes) * key.layout.rows;
  launch(queue, kernel_of(queue.device(), key), NDRange(groups * group, group),
         Traffic{bytes(all.x) + bytes(all.gx) + bytes(all.gy)}, rows, all.gx.data, all.gy.data, all.x.data,
         all.mean.data, all.rstd.data, all.weight.defined() ? all.weight.data : all.x.data, partials.data());
  partials.add_up(queue, all.grad_weight, all.grad_bias);
}

// CPUs: the gradients of the parameters as partial sums of each work-item, too.
void backward_lines(Queue& queue, Key key, const RowShape& rows, const Gradients& all) {
  key.sums = all.grad_weight.defined();
  const std::size_t groups = line_groups(queue.device().info(), rows.rows);
  std::optional<PartialSums> partials;
  if (key.sums) partials.emplace(queue, std::int64_t(groups), all.shape, key.x);
  launch(queue, kernel_of(queue.device(), key), NDRange(groups, 1),
         Traffic{bytes(all.x) + bytes(all.gx) + bytes(all.gy)}, rows, all.gx.data, all.gy.data, all.x.data,
         all.mean.data, all.rstd.data, all.weight.defined() ? all.weight.data : all.x.data,
         partials ? partials->data() : all.x.data);
  if (partials) partials->add_up(queue, all.grad_weight, all.grad_bias);
}

}  // namespace

void group_norm(Queue& queue, const GroupShape& shape, const TensorView& y, const TensorView& mean,
                const TensorView& rstd, const TensorView& x, const TensorView& weight, const TensorView& bias) {
  const RowShape rows = rows_of(shape, x, {&x, &y});
  Key key = key_of(queue, shape, rows, {&x, &y, &weight, &bias}, x, weight, rstd, 16);
  key.g = x.dtype, key.y = y.dtype, key.has_bias = bias.defined();
  DLPRIM_EXPECT(!bias.defined() || !weight.defined() || bias.dtype == weight.dtype, "group_norm",
                "weight and bias of one dtype");
  if (bias.defined()) key.weight = bias.dtype;
  if (rows.rows == 0 || rows.length == 0) return;
  const BufferRef none = x.data;
  const DeviceInfo& info = queue.device().info();
  const NDRange range = set_lines(key, info, rows) ? NDRange(line_groups(info, rows.rows), 1) : range_of(key, rows);
  launch(queue, kernel_of(queue.device(), key), range, Traffic{bytes(x) + bytes(y)}, rows, y.data,
         mean.defined() ? mean.data : rstd.data, rstd.data, x.data, weight.defined() ? weight.data : none,
         bias.defined() ? bias.data : none);
}

void group_norm_backward(Queue& queue, const GroupShape& shape, const TensorView& gx, const TensorView& gy,
                         const TensorView& x, const TensorView& mean, const TensorView& rstd, const TensorView& weight,
                         const TensorView& grad_weight, const TensorView& grad_bias) {
  const RowShape rows = rows_of(shape, x, {&x, &gx, &gy});
  const bool sums = grad_weight.defined();
  if (rows.rows == 0 || rows.length == 0) {
    if (sums) group_norm_sums(queue, shape, grad_weight, grad_bias, gy, x, mean, rstd);  // zeros
    return;
  }
  Key key = key_of(queue, shape, rows, {&x, &gx, &gy, &weight}, x, weight, rstd, 8);
  key.g = gy.dtype, key.y = gx.dtype, key.pass = backward_pass;
  const TensorView& means = mean.defined() ? mean : rstd;
  if (set_lines(key, queue.device().info(), rows))
    return backward_lines(queue, key, rows, {shape, gx, gy, x, means, rstd, weight, grad_weight, grad_bias});
  if (const std::size_t groups = sums ? persistent_groups(queue.device().info(), key, rows) : 0) {
    key.pass = gradients_pass;
    const Gradients all{shape, gx, gy, x, means, rstd, weight, grad_weight, grad_bias};
    return one_pass_gradients(queue, key, rows, groups, all);
  }
  launch(queue, kernel_of(queue.device(), key), range_of(key, rows), Traffic{bytes(x) + bytes(gx) + bytes(gy)}, rows,
         gx.data, gy.data, x.data, means.data, rstd.data, weight.defined() ? weight.data : x.data);
  if (sums) group_norm_sums(queue, shape, grad_weight, grad_bias, gy, x, mean, rstd);
}

void group_norm_sums(Queue& queue, const GroupShape& shape, const TensorView& grad_weight, const TensorView& grad_bias,
                     const TensorView& gy, const TensorView& x, const TensorView& mean, const TensorView& rstd) {
  const RowShape rows = rows_of(shape, x, {&x, &gy});
  if (shape.groups == 1 && shape.inner == 1 && rows.rows > 0 && !decline_norm_columns(queue.device().info(), shape))
    return norm_columns(queue, shape, grad_weight, grad_bias, {gy, x, mean.defined() ? mean : rstd, rstd});
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
