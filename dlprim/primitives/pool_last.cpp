// SPDX-License-Identifier: MIT
#include "pool_last.hpp"

#include <dlprim/primitives/bytes.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>

#include "grid.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t lanes = 16, largest = std::int64_t(1) << 30;

// The struct of kernels/pool_last.cl.
struct LastRows {
  cl_long in_n, in_h, in_w, out_n, out_h, out_w;
  cl_int channels, height, width, rows, columns, lines, share;
  cl_int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

}  // namespace

bool has_max_last(const Device& device, const TensorView& in, const TensorView& out, const PoolWindow& window) {
  if (!device.info().cpu || settings.gpu_forms || !is_byte(in.dtype)) return false;
  if (window.kind != PoolWindow::sliding || in.dims != 4 || in.stride(1) != 1 || out.stride(1) != 1) return false;
  for (int i = 2; i < 4; i++)
    if (in.size(i) > largest / 64 || out.size(i) > largest / 64) return false;
  const auto small = [](const std::array<int, 3>& values) { return std::ranges::max(values) < 4096; };
  if (!small(window.kernel) || !small(window.stride) || !small(window.pad) || !small(window.dilation)) return false;
  return in.size(1) >= lanes && in.size(1) < largest && out.size(0) * out.size(2) < largest;
}

void max_last(Queue& queue, const TensorView& in, const TensorView& out, const PoolWindow& window) {
  const std::int64_t lines = out.size(0) * out.size(2);
  const std::int64_t share = std::max<std::int64_t>(1, lines / (4 * std::int64_t(queue.device().info().compute_units)));
  const auto narrow = [](std::int64_t v) { return cl_int(v); };
  const LastRows p{.in_n = in.stride(0),
                   .in_h = in.stride(2),
                   .in_w = in.stride(3),
                   .out_n = out.stride(0),
                   .out_h = out.stride(2),
                   .out_w = out.stride(3),
                   .channels = narrow(in.size(1)),
                   .height = narrow(in.size(2)),
                   .width = narrow(in.size(3)),
                   .rows = narrow(out.size(2)),
                   .columns = narrow(out.size(3)),
                   .lines = narrow(lines),
                   .share = narrow(share),
                   .kernel_h = window.kernel[1],
                   .kernel_w = window.kernel[2],
                   .stride_h = window.stride[1],
                   .stride_w = window.stride[2],
                   .pad_h = window.pad[1],
                   .pad_w = window.pad[2],
                   .dilation_h = window.dilation[1],
                   .dilation_w = window.dilation[2]};
  static KernelCache<DataType> cache;
  Kernel& kernel = cache.get(queue.device(), in.dtype, [&] {
    const bool sign = in.dtype == DataType::int8;
    KernelSource source("pool_last.cl", "max_last");
    return source.define("T", sign ? "char" : "uchar")
        .define("T16", sign ? "char16" : "uchar16")
        .define("LOWEST", lowest_byte(in.dtype));
  });
  launch(queue, kernel, NDRange(std::size_t(divide_up(lines, share)), 1), in.data, out.data, p);
}

}  // namespace dlprim
