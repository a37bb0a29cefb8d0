// SPDX-License-Identifier: MIT
#include "norm_channels.hpp"

#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <bit>

namespace dlprim {

namespace {

constexpr std::int64_t group = 256, ahead = 4, most_rows = 256;  // of a work-item
constexpr std::int64_t most_chunks = 32768;  // NVIDIA's launches have up to 65535 work-groups along a second dimension
constexpr std::int64_t groups_at_once = 4;  // of a compute unit
constexpr std::int64_t merged_columns = 8;  // of a group of merge_channels

struct Key {
  DataType x{}, g{}, statistics{}, results{};
  std::uint8_t pack = 1, lanes = 1, sums = 0, running = 0;
};

KernelSource source_of(const Key& key, const char* kernel) {
  KernelSource source("norm_channels.cl", kernel);
  source.define("X_TAG", tag(key.x)).define("G_TAG", tag(key.g)).define("S_TAG", tag(key.statistics));
  source.define("R_TAG", tag(key.results)).define("SUMS", key.sums).define("HAS_RUNNING", key.running);
  source.define("PACK", key.pack).define("LANES", key.lanes).define("ROWS", group / key.lanes);
  source.define("ACROSS", merged_columns).define("SIDE", group / merged_columns);
  return source.define("AHEAD", ahead);
}

Kernel& rows_kernel(Device& device, Key key) {
  key.results = key.sums ? key.statistics : key.x, key.running = 0;  // of no matter here
  if (!key.sums) key.statistics = key.x;
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] { return source_of(key, "norm_channels"); });
}

Kernel& merge_kernel(Device& device, Key key) {
  key.pack = 1, key.lanes = 1, key.x = key.g = key.statistics;
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] { return source_of(key, "merge_channels"); });
}

// Lanes across the columns: as many as leave the fewest idle, if a row's share of a line of 128 bytes stays whole.
std::uint8_t lanes_for(std::int64_t packs) {
  if (packs < 8) return std::uint8_t(std::bit_ceil(std::uint64_t(packs)));
  const auto idle = [&](std::int64_t lanes) { return (packs + lanes - 1) / lanes * lanes; };
  std::int64_t best = 32;
  for (const std::int64_t lanes : {16, 8})
    if (idle(lanes) < idle(best)) best = lanes;
  return std::uint8_t(best);
}

struct Grid {
  std::int64_t across, chunks, chunk;
  NDRange range() const { return NDRange(std::size_t(across * group), std::size_t(chunks), std::size_t(group), 1); }
};

Grid grid_of(const DeviceInfo& device, const ChannelRows& shape, const Key& key) {
  const auto divide_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t rows_at_once = group / key.lanes;
  Grid grid;
  grid.across = divide_up(shape.channels, std::int64_t(key.lanes) * key.pack);
  const std::int64_t resident = std::max<std::int64_t>(1, device.compute_units * groups_at_once / grid.across);
  const std::int64_t most = std::min(resident, divide_up(shape.rows, rows_at_once * ahead));
  const std::int64_t wanted = std::min(std::max(most, divide_up(shape.rows, rows_at_once * most_rows)), most_chunks);
  grid.chunk = divide_up(divide_up(shape.rows, wanted), rows_at_once * ahead) * rows_at_once * ahead;
  grid.chunks = divide_up(shape.rows, grid.chunk);
  return grid;
}

NDRange merge_range(const ChannelRows& shape) {
  return NDRange(std::size_t((shape.channels + merged_columns - 1) / merged_columns * group), 1, std::size_t(group), 1);
}

std::uint64_t bytes(const TensorView& view) { return std::uint64_t(view.numel()) * size_of(view.dtype); }

}  // namespace

std::optional<ChannelRows> channel_rows(const DeviceInfo& device, std::initializer_list<const TensorView*> data,
                                        std::initializer_list<ChannelPair> of_channels) {
  const TensorView& x = **data.begin();
  if ((device.cpu && !settings.gpu_forms) || device.max_work_group < std::size_t(group)) return std::nullopt;
  ChannelRows shape{x.sizes[1] ? x.numel() / x.sizes[1] : 0, x.sizes[1], 4};
  const bool flat = shape.rows == x.sizes[0];
  if (shape.rows < 64) return std::nullopt;
  for (const TensorView* view : data) {
    if (view->dims != x.dims || !std::equal(x.sizes.begin(), x.sizes.begin() + x.dims, view->sizes.begin()) ||
        view->dtype == DataType::float64 || !(flat ? view->is_contiguous() : view->is_channels_last()))
      return std::nullopt;
    if (shape.channels % 4 || view->data.offset % (4 * size_of(view->dtype))) shape.pack = 1;
  }
  for (const ChannelPair& pair : of_channels) {
    if (!pair.first->defined()) continue;
    if (pair.first->dtype == DataType::float64 || pair.first->dtype != pair.second->dtype) return std::nullopt;
    if (!pair.first->is_contiguous() || !pair.second->is_contiguous()) return std::nullopt;
  }
  return shape;
}

void channel_moments(Queue& queue, const ChannelRows& shape, const TensorView& x, const TensorView& mean,
                     const TensorView& invstd, double eps, const RunningStatistics& running) {
  Key key{x.dtype, x.dtype, mean.dtype, running.mean.defined() ? running.mean.dtype : mean.dtype};
  key.pack = std::uint8_t(shape.pack), key.lanes = lanes_for(shape.channels / shape.pack);
  key.running = running.mean.defined();
  const Grid grid = grid_of(queue.device().info(), shape, key);
  const Workspace partials(queue, std::size_t(grid.chunks * shape.channels) * 16);
  launch(queue, rows_kernel(queue.device(), key), grid.range(), Traffic{bytes(x)}, partials.data(), x.data,
         cl_ulong(shape.rows), cl_ulong(shape.channels), cl_ulong(grid.chunk));
  launch(queue, merge_kernel(queue.device(), key), merge_range(shape), Traffic{}, partials.data(), mean.data,
         invstd.data, key.running ? running.mean.data : mean.data, key.running ? running.variance.data : mean.data,
         cl_ulong(grid.chunks), cl_ulong(shape.channels), float(shape.rows), float(eps), float(running.momentum));
}

void channel_sums(Queue& queue, const ChannelRows& shape, const TensorView& sum, const TensorView& dot,
                  const TensorView& gy, const TensorView& x, const TensorView& mean, const TensorView& invstd) {
  Key key{x.dtype, gy.dtype, mean.dtype, sum.dtype};
  key.pack = std::uint8_t(shape.pack), key.lanes = lanes_for(shape.channels / shape.pack), key.sums = 1;
  const Grid grid = grid_of(queue.device().info(), shape, key);
  const Workspace partials(queue, std::size_t(grid.chunks * shape.channels) * 8);
  launch(queue, rows_kernel(queue.device(), key), grid.range(), Traffic{bytes(x) + bytes(gy)}, partials.data(), x.data,
         gy.data, mean.data, cl_ulong(shape.rows), cl_ulong(shape.channels), cl_ulong(grid.chunk));
  launch(queue, merge_kernel(queue.device(), key), merge_range(shape), Traffic{}, partials.data(), sum.data, dot.data,
         invstd.data, cl_ulong(grid.chunks), cl_ulong(shape.channels), float(shape.rows), 0.0f, 0.0f);
}

}  // namespace dlprim
