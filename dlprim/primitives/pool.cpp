// SPDX-License-Identifier: MIT
#include <dlprim/primitives/indexing.hpp>
#include <dlprim/primitives/pool.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>

#include "check.hpp"
#include "planes.hpp"
#include "pool_last.hpp"

namespace dlprim {

namespace {

enum Operation : std::uint8_t { max_forward, max_backward, max_scatter, average_forward, average_backward, unpool };
struct OperationRow {
  const char *define, *kernel;
};
constexpr OperationRow operations[] = {{"MAX_FORWARD", "max_forward"},           {"MAX_BACKWARD", "max_backward"},
                                       {"MAX_SCATTER", "max_scatter"},           {"AVERAGE_FORWARD", "average_forward"},
                                       {"AVERAGE_BACKWARD", "average_backward"}, {"UNPOOL", "unpool"}};
constexpr const char* windows[] = {"sliding", "adaptive", "fractional"};

// The struct of pool.cl.
struct Parameters {
  cl_long in_stride[5], out_stride[5], index_stride[5], sample_stride[3];
  cl_int include_pad, divisor;
  cl_int in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  Divider by_in[3], by_out[3];
};

struct Key {
  Operation operation;
  DataType type;
  PoolWindow::Kind window;
  std::uint8_t channels_last, dense, wide, indices, planes, kernel[3], stride[3];
};

// What was given, for messages.
std::string got(const TensorView& view) {
  std::string text = std::string(", got ") + name(view.dtype) + " of sizes";
  for (auto size : view.shape()) text += " " + std::to_string(size);
  return text;
}

int axes_of(const TensorView& view) {
  DLPRIM_EXPECT(view.dims >= 3 && view.dims <= 5, "pool", "3 to 5 dimensions", got(view));
  return view.dims - 2;
}

// Sizes and strides of the spatial axes, leading ones filled up.
void spatial_sizes(const TensorView& view, cl_int (&sizes)[3]) {
  const int axes = axes_of(view);
  for (int d = 0; d < 3; d++) sizes[d] = d < 3 - axes ? 1 : narrow("pool", "a size", view.size(d - 3));
}

void all_strides(const TensorView& view, cl_long (&strides)[5]) {
  const int axes = axes_of(view);
  strides[0] = view.strides[0], strides[1] = view.strides[1];
  for (int d = 0; d < 3; d++) strides[2 + d] = d < 3 - axes ? 0 : view.stride(d - 3);
}

// `in` is the side windows slide over, `out` the side with one element a window.
Parameters parameters(const TensorView& in, const TensorView& out, const TensorView& indices,
                      const PoolWindow& window) {
  DLPRIM_EXPECT(
      in.dims == out.dims && in.sizes[0] == out.sizes[0] && in.sizes[1] == out.sizes[1] && in.dtype == out.dtype,
      "pool", "input and output of equal dtype, batch and channels", got(out));
  DLPRIM_EXPECT(!is_complex(in.dtype), "pool", "a real dtype", got(in));
  DLPRIM_EXPECT(
      !indices.defined() || (indices.dtype == DataType::int64 && std::ranges::equal(indices.shape(), out.shape())),
      "pool", "int64 indices of the output's sizes", got(indices));
  Parameters p{};
  spatial_sizes(in, p.in);
  spatial_sizes(out, p.out);
  all_strides(in, p.in_stride);
  all_strides(out, p.out_stride);
  if (indices.defined()) all_strides(indices, p.index_stride);
  auto by = [](cl_int size) { return Divider(std::uint32_t(std::max(size, 1))); };
  for (int d = 0; d < 3; d++) p.by_in[d] = by(p.in[d]), p.by_out[d] = by(p.out[d]);
  p.include_pad = window.count_include_pad, p.divisor = window.divisor;
  std::ranges::copy(window.kernel, p.kernel);
  std::ranges::copy(window.stride, p.stride);
  std::ranges::copy(window.pad, p.pad);
  std::ranges::copy(window.dilation, p.dilation);
  return p;
}

bool is_wide(const TensorView& view) {
  std::int64_t last = 0, volume = 1;
  for (int d = 2; d < view.dims; d++) last += (view.sizes[d] - 1) * std::abs(view.strides[d]), volume *= view.sizes[d];
  return std::max(last, volume) > settings.index_limit;
}

// Adaptive windows begin at products of two sizes.
bool has_wide_products(const TensorView& in, const TensorView& out) {
  for (int d = 2; d < in.dims; d++)
    if ((in.sizes[d] + 1) * (out.sizes[d] + 1) > settings.index_limit) return true;
  return false;
}

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("pool.cl", operations[key.operation].kernel);
    source.define(operations[key.operation].define).define("T", tag(key.type)).define("WINDOW", windows[key.window]);
    source.define("PLANES", key.planes);
    source.define("KERNEL_D", key.kernel[0]).define("KERNEL_H", key.kernel[1]).define("KERNEL_W", key.kernel[2]);
    source.define("STRIDE_D", key.stride[0]).define("STRIDE_H", key.stride[1]).define("STRIDE_W", key.stride[2]);
    if (key.wide) source.define("WIDE");
    if (key.channels_last) source.define("CHANNELS_LAST");
    if (key.dense) source.define("DENSE");
    if (key.indices) source.define("INDICES");
    return source;
  });
}

Key key_of(Operation operation, const TensorView& in, const TensorView& out, const TensorView& indices,
           const TensorView& walked, const PoolWindow& window) {
  Key key{};
  key.planes = 1;
  key.operation = operation, key.type = in.dtype, key.window = window.kind;
  key.channels_last = !walked.is_contiguous() && walked.is_channels_last();
  key.wide = is_wide(in) || is_wide(out) || (window.kind == PoolWindow::adaptive && has_wide_products(in, out));
  key.indices = indices.defined();
  // Small windows are unrolled.
  const auto [d, h, w] = window.kernel;
  const bool unit_steps = std::ranges::count(window.dilation, 1) == 3;
  if (window.kind == PoolWindow::sliding && unit_steps && d * h * w <= 27 && std::ranges::max(window.stride) < 256)
    for (int axis = 0; axis < 3; axis++)
      key.kernel[axis] = std::uint8_t(window.kernel[axis]), key.stride[axis] = std::uint8_t(window.stride[axis]);
  return key;
}

// One work-item a place of `walked`.
template <class... Arguments>
void run(Queue& queue, Key key, Parameters p, const TensorView& walked, Traffic traffic,
         const Arguments&... arguments) {
  cl_int size[3];
  spatial_sizes(walked, size);
  Planes planes("pool", walked, {p.in_stride, p.out_stride, p.index_stride, p.sample_stride});
  key.dense = Planes::dense(key.channels_last, {p.in_stride, p.out_stride, key.indices ? p.index_stride : p.in_stride});
  const bool backward = key.operation == max_backward || key.operation == average_backward;
  key.planes = std::uint8_t(planes.place(queue.device().info(), size, key.channels_last, backward ? 4 : 1));
  launch(queue, kernel_for(queue, key), planes.range(), traffic, arguments..., p, planes);
}

Traffic traffic_of(const TensorView& in, const TensorView& out, const TensorView& indices) {
  return {std::uint64_t(in.numel() + out.numel()) * size_of(in.dtype) +
          (indices.defined() ? 8 * std::uint64_t(indices.numel()) : 0)};
}

// Mirrors Rows of pool_rows.cl.
struct Rows {
  cl_long in_n, in_c, in_h, out_n, out_c, out_h;
  cl_int in[2], out[2], pad[2];
};

struct RowsKey {
  DataType type;
  std::uint8_t kernel[2], stride[2];
};

constexpr std::int64_t row_capacity = 4096;  // floats

// Whether max_rows of pool_rows.cl serves.
bool by_rows(const Device& device, const TensorView& in, const TensorView& out, const PoolWindow& window) {
  const DeviceInfo& info = device.info();
  if (!info.cpu || settings.gpu_forms || window.kind != PoolWindow::sliding || in.dims != 4) return false;
  if (!is_floating(in.dtype) || in.dtype == DataType::float64 || in.stride(3) != 1 || out.stride(3) != 1) return false;
  if (window.kernel[0] != 1 || window.stride[2] > 2 || info.local_memory < row_capacity * sizeof(float)) return false;
  for (int i = 1; i < 3; i++) {
    const auto size = in.size(i + 1), first = (out.size(i + 1) - 1) * window.stride[i] - window.pad[i];
    const bool small = window.kernel[i] <= 16 && window.stride[i] <= 16 && window.dilation[i] == 1;
    if (!small || window.pad[i] >= window.kernel[i] || first >= size) return false;  // all windows have elements
  }
  const std::int64_t written = in.size(3) + window.pad[2], read = (out.size(3) + 16) * window.stride[2] + 16;
  return std::max(written, read) + 16 <= row_capacity && in.size(0) * in.size(1) >= info.compute_units;
}

void max_by_rows(Queue& queue, const TensorView& in, const TensorView& out, const PoolWindow& window) {
  const Rows rows{in.stride(0),
                  in.stride(1),
                  in.stride(2),
                  out.stride(0),
                  out.stride(1),
                  out.stride(2),
                  {cl_int(in.size(2)), cl_int(in.size(3))},
                  {cl_int(out.size(2)), cl_int(out.size(3))},
                  {cl_int(window.pad[1]), cl_int(window.pad[2])}};
  RowsKey key{in.dtype, {}, {}};
  for (int i = 0; i < 2; i++)
    key.kernel[i] = std::uint8_t(window.kernel[i + 1]), key.stride[i] = std::uint8_t(window.stride[i + 1]);
  static KernelCache<RowsKey> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("pool_rows.cl", "max_rows");
    source.define("T", tag(in.dtype)).define("CAPACITY", row_capacity);
    source.define("KERNEL_H", key.kernel[0]).define("KERNEL_W", key.kernel[1]);
    source.define("STRIDE_H", key.stride[0]).define("STRIDE_W", key.stride[1]);
    return source;
  });
  launch(queue, kernel, NDRange(std::size_t(in.size(1)), std::size_t(in.size(0)), 1, 1), traffic_of(in, out, {}),
         in.data, out.data, rows);
}

}  // namespace

void max_pool(Queue& queue, const TensorView& in, const TensorView& out, const TensorView& indices,
              const PoolWindow& window, const TensorView& samples) {
  Parameters p = parameters(in, out, indices, window);
  if (window.kind == PoolWindow::fractional) {
    p.divisor = axes_of(in);
    DLPRIM_EXPECT(samples.dims == 3 && samples.dtype == in.dtype && samples.size(2) == p.divisor, "pool",
                  "samples (N, C, axes) of the input's dtype", got(samples));
    for (int d = 0; d < 3; d++) p.sample_stride[d] = samples.strides[d];
  }
  if (!indices.defined() && out.numel() > 0 && by_rows(queue.device(), in, out, window))
    return max_by_rows(queue, in, out, window);
  if (!indices.defined() && out.numel() > 0 && has_max_last(queue.device(), in, out, window))
    return max_last(queue, in, out, window);
  run(queue, key_of(max_forward, in, out, indices, out, window), p, out, traffic_of(in, out, indices), in.data,
      out.data, indices.data, samples.data);
}

void max_pool_backward(Queue& queue, const TensorView& grad_out, const TensorView& indices, const TensorView& grad_in,
                       const PoolWindow& window) {
  if (grad_in.numel() == 0) return;  // indices without elements are not defined()
  DLPRIM_EXPECT(indices.defined(), "pool", "int64 indices of the output's sizes", got(grad_out));
  Parameters p = parameters(grad_in, grad_out, indices, window);
  // 16-bit gradients would lose bits when summed in place.
  const bool full_precision = size_of(grad_in.dtype) >= 4;
  if (queue.device().info().cpu && !settings.gpu_forms && full_precision && grad_in.is_contiguous()) {
    const Planes planes("pool", grad_in, {p.in_stride, p.out_stride, p.index_stride});
    QueueStatus& status = queue.status();
    launch(queue, kernel_for(queue, key_of(max_scatter, grad_in, grad_out, indices, grad_in, window)),
           NDRange(std::size_t(planes.batch) * std::size_t(planes.channels), 1), traffic_of(grad_in, grad_out, indices),
           grad_out.data, indices.data, grad_in.data, status.buffer(),
           cl_int(status.arm("[max_pool_backward] index %lld is outside the input")), p, planes);
    return;
  }
  run(queue, key_of(max_backward, grad_in, grad_out, indices, grad_in, window), p, grad_in,
      traffic_of(grad_in, grad_out, indices), grad_out.data, indices.data, grad_in.data);
}

void average_pool(Queue& queue, const TensorView& in, const TensorView& out, const PoolWindow& window) {
  run(queue, key_of(average_forward, in, out, {}, out, window), parameters(in, out, {}, window), out,
      traffic_of(in, out, {}), in.data, out.data);
}

void average_pool_backward(Queue& queue, const TensorView& grad_out, const TensorView& grad_in,
                           const PoolWindow& window) {
  run(queue, key_of(average_backward, grad_in, grad_out, {}, grad_in, window),
      parameters(grad_in, grad_out, {}, window), grad_in, traffic_of(grad_in, grad_out, {}), grad_out.data,
      grad_in.data);
}

void max_unpool(Queue& queue, const TensorView& in, const TensorView& indices, const TensorView& out) {
  DLPRIM_EXPECT(indices.defined(), "pool", "int64 indices of the input's sizes", got(in));
  const Parameters p = parameters(out, in, indices, {});
  QueueStatus& status = queue.status();
  run(queue, key_of(unpool, out, in, indices, in, {}), p, in, traffic_of(out, in, indices), in.data, indices.data,
      out.data, status.buffer(), cl_int(status.arm("[max_unpool] index %lld is outside the output")));
}

}  // namespace dlprim
