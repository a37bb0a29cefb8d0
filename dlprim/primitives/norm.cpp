// SPDX-License-Identifier: MIT
// Batch normalization: per-channel statistics by the reduction engine, then one elementwise kernel.
#include <dlprim/primitives/norm.hpp>
#include <dlprim/primitives/reduce.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <vector>

#include "check.hpp"
#include "norm_channels.hpp"
#include "norm_sums.hpp"
#include "two_floats.hpp"
#include "welford.hpp"

namespace dlprim {

namespace {

struct NormShape {
  std::uint64_t outer, inner, channels;
  TwoFloats eps, scale;
};

struct Key {
  DataType x{}, g{}, y{}, statistics{}, weight{}, sums{};
  std::uint16_t lanes = 1, rows = 1;
  std::uint8_t vector = 1, channels_last = 0, has_weight = 0, has_bias = 0, has_sums = 0, variance = 0, backward = 0;
  std::uint8_t lines = 0;
};

constexpr std::uint64_t most_channels = 256;  // whose coefficients a work-item of a CPU keeps

bool wide(DataType type) { return type == DataType::float64; }

/// A [C] view as [1, C, 1, ...]: a kept dim among reduced ones.
TensorView per_channel(const TensorView& view, int dims) {
  TensorView result = view;
  result.dims = dims;
  for (int d = 0; d < dims; d++)
    result.sizes[d] = d == 1 ? view.size(0) : 1, result.strides[d] = d == 1 ? view.stride(0) : 0;
  return result;
}

/// A [C] view broadcast over the sizes of x.
TensorView broadcast(const TensorView& view, const TensorView& x) {
  TensorView result = per_channel(view, x.dims);
  for (int d = 0; d < x.dims; d++)
    if (d != 1) result.sizes[d] = x.sizes[d];
  return result;
}

void check_channels(const TensorView& x, const TensorView& view, const char* what) {
  DLPRIM_EXPECT(!view.defined() || view.numel() == x.sizes[1], "batch_norm", what, " of ", x.sizes[1],
                " channels, got ", view.numel());
}

void check_data(const TensorView& x) {
  DLPRIM_EXPECT(x.dims >= 2, "batch_norm", "data of at least 2 dims, got ", x.dims);
  DLPRIM_EXPECT(is_floating(x.dtype), "batch_norm", "floating data, got ", x.dtype);
}

// An element of a gathering is a process: mean x0, 1 / std x1, count x2.
const std::string process = "acc_t r; r.mean = (REAL)x0; r.low = 0; r.n = (REAL)x2; "
                            "r.m2 = (1 / ((REAL)x1 * (REAL)x1) - (REAL)s0) * r.n; combine(p, r);";

std::string updated(int k, const std::string& statistic) {
  const std::string i = std::to_string(k);
  return " y" + i + " = (1 - (REAL)s1) * OLD(" + i + ") + (REAL)s1 * (" + statistic + ");";
}

/// Both moments in one pass.
ReduceProgram one_pass(const std::string& step, bool running, const std::string& block = {}) {
  return ReduceProgram({welford::members, welford::member_count, welford::start, step, welford::merge,
                        "y0 = p->mean; y1 = 1 / sqrt(p->m2 / p->n + (REAL)s0);" +
                            (running ? updated(2, "p->mean") + updated(3, "p->m2 / (p->n - 1)") : ""),
                        block});
}

/// The mean, and the deviation around it: on CPUs two passes are faster than Welford's one. The second one also corrects
/// the mean, which a long sum of data far from zero misses by some units in the last place; the first one writes it twice,
/// so that none of the elements is compared with a mean that is corrected.
ReduceProgram mean_pass(bool) {
  return ReduceProgram(
      {"REAL v;", 1, "p->v = 0;", "p->v += (REAL)x0;", "p->v += q.v;", "y0 = p->v / (REAL)n; y1 = y0;"});
}

ReduceProgram deviation_pass(bool running) {
  return ReduceProgram({"REAL v, off;", 2, "p->v = 0; p->off = 0;",
                        "const REAL d = (REAL)x0 - (REAL)x1; p->v += d * d; p->off += d;",
                        "p->v += q.v; p->off += q.off;",
                        "const REAL off = p->off / (REAL)n, mean = OLD(0) + off, m2 = p->v - off * p->off; "
                        "y0 = mean; y1 = 1 / sqrt(m2 / (REAL)n + (REAL)s0);" +
                            (running ? updated(2, "mean") + updated(3, "m2 / ((REAL)n - 1)") : "")});
}

// A program without and with running statistics.
struct Programs {
  ReduceProgram plain, running;
  explicit Programs(ReduceProgram (*make)(bool)) : plain(make(false)), running(make(true)) {}
  const ReduceProgram& get(bool updates) const { return updates ? running : plain; }
};

void run_moments(Queue& queue, const Programs& programs, std::span<const TensorView> inputs,
                 std::vector<TensorView> outputs, std::vector<TensorView> running, double eps, double momentum) {
  const int dims = inputs[0].dims;
  const bool updates = running[0].defined();
  if (updates) outputs.insert(outputs.end(), running.begin(), running.end());
  for (TensorView& output : outputs) output = per_channel(output, dims);
  const double scalars[] = {eps, momentum};
  const DataType acc = wide(inputs[0].dtype) ? DataType::float64 : DataType::float32;
  reduce(queue, programs.get(updates), acc, {outputs, inputs}, scalars);
}

KernelSource source_of(const Key& key) {
  KernelSource source("norm.cl", "normalize_channels");
  source.define("X_TAG", tag(key.x)).define("G_TAG", tag(key.g)).define("Y_TAG", tag(key.y));
  source.define("S_TAG", tag(key.statistics)).define("W_TAG", tag(key.weight)).define("D_TAG", tag(key.sums));
  source.define("REAL", wide(key.x) ? "double" : "float").define("PACK", key.vector);
  source.define("LANES", key.lanes).define("ROWS", key.rows).define("CHANNELS_LAST", key.channels_last);
  source.define("LINES", key.lines).define("MOST_CHANNELS", std::int64_t(most_channels));
  source.define("HAS_WEIGHT", key.has_weight).define("HAS_BIAS", key.has_bias).define("HAS_SUMS", key.has_sums);
  source.define("VARIANCE", key.variance).define("BACKWARD", key.backward);
  return source;
}

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] { return source_of(key); });
}

bool aligned(const TensorView& view) { return view.data.offset % (4 * size_of(view.dtype)) == 0; }

/// Fills shape, layout and grid from x; the data tensors must be laid out alike.
NDRange layout(Queue& queue, Key& key, NormShape& shape, const TensorView& x,
               std::initializer_list<const TensorView*> data) {
  check_data(x);
  const DeviceInfo& info = queue.device().info();
  const bool rows_first = x.is_contiguous(), cpu = info.cpu && !settings.gpu_forms;
  bool vector = !cpu;
  for (const TensorView* view : data) {
    DLPRIM_EXPECT(std::equal(x.sizes.begin(), x.sizes.begin() + x.dims, view->sizes.begin()) && view->dims == x.dims,
                  "batch_norm", "tensors of equal sizes");
    DLPRIM_EXPECT(rows_first ? view->is_contiguous() : view->is_channels_last(), "batch_norm",
                  "tensors all contiguous or all channels last");
    vector &= aligned(*view);
  }
  key.channels_last = !rows_first;
  const std::uint64_t total = std::uint64_t(x.numel()), channels = std::uint64_t(x.sizes[1]);
  shape.channels = channels;
  if (rows_first && total == std::uint64_t(x.sizes[0]) * channels)
    key.channels_last = 1;  // [N, C]: rows of one element
  shape.inner = key.channels_last ? channels : total / std::max<std::uint64_t>(1, std::uint64_t(x.sizes[0]) * channels);
  shape.outer = shape.inner ? total / shape.inner : 0;
  if (shape.outer == 0) return NDRange(0, 1);
  vector &= shape.inner % 4 == 0;
  key.vector = vector ? 4 : 1;
  key.lines = cpu && key.channels_last;
  if (key.lines) {
    const std::uint64_t tiles = (shape.inner + most_channels - 1) / most_channels;
    const std::uint64_t shares = (std::uint64_t(info.compute_units) * 8 + tiles - 1) / tiles;
    return NDRange(tiles, std::min(shares, shape.outer), 1, 1);
  }
  const std::uint64_t group = std::min<std::uint64_t>(cpu ? 16 : 256, info.max_work_group);
  const std::uint64_t steps = (shape.inner + key.vector - 1) / key.vector;
  std::uint64_t lanes = cpu ? group : 1;
  while (lanes < group && lanes < steps) lanes *= 2;
  if (key.channels_last && !cpu) lanes = std::min<std::uint64_t>(lanes, 32);
  key.lanes = std::uint16_t(lanes), key.rows = std::uint16_t(std::max<std::uint64_t>(1, group / lanes));
  const std::uint64_t across = (steps + lanes - 1) / lanes;
  // Where channels lie side by side, work-items keep what they read of theirs, and those that run at once are enough.
  const std::uint64_t wanted = std::uint64_t(info.compute_units) * (cpu || key.channels_last ? 8 : 32);
  const std::uint64_t tiles = key.channels_last ? across : std::min<std::uint64_t>(across, cpu ? 1 : 4);
  const std::uint64_t down =
      std::clamp<std::uint64_t>((wanted + tiles - 1) / tiles, 1, (shape.outer + key.rows - 1) / key.rows);
  return NDRange(tiles * lanes, down * key.rows, lanes, key.rows);
}

void set_statistics(Key& key, NormShape& shape, const TensorView& x, const ChannelStatistics& s,
                    const TensorView& weight) {
  check_channels(x, s.mean, "a mean"), check_channels(x, s.inverse_std, "a variance"),
      check_channels(x, weight, "a weight");
  key.statistics = s.mean.dtype, key.variance = s.variance, key.has_weight = weight.defined();
  key.weight = weight.defined() ? weight.dtype : s.mean.dtype;
  DLPRIM_EXPECT(s.mean.dtype == s.inverse_std.dtype, "batch_norm", "mean and variance of one dtype");
  shape.eps = TwoFloats(s.eps);
}

std::uint64_t bytes(const TensorView& view) { return std::uint64_t(view.numel()) * size_of(view.dtype); }

}  // namespace

void norm_sums(Queue& queue, const TensorView& sum, const TensorView& dot, const TensorView& gy, const TensorView& x,
               const TensorView& mean, const TensorView& rstd) {
  static const ReduceProgram both({"REAL sum, dot;", 2, "p->sum = 0; p->dot = 0;",
                                   "p->sum += (REAL)x0; p->dot += (REAL)x0 * ((REAL)x1 - (REAL)x2) * (REAL)x3;",
                                   "p->sum += q.sum; p->dot += q.dot;", "y0 = p->sum; y1 = p->dot;"});
  static const ReduceProgram dots({"REAL v;", 1, "p->v = 0;", "p->v += (REAL)x0 * ((REAL)x1 - (REAL)x2) * (REAL)x3;",
                                   "p->v += q.v;", "y0 = p->v;"});
  const DataType acc = wide(x.dtype) ? DataType::float64 : DataType::float32;
  const TensorView inputs[] = {gy, x, mean, rstd}, outputs[] = {sum, dot};
  if (!queue.device().info().cpu) return reduce(queue, both, acc, {outputs, inputs});
  reduce(queue, ReduceId::sum, {{&sum, 1}, {&gy, 1}});
  reduce(queue, dots, acc, {{&dot, 1}, inputs});
}

void batch_norm_statistics(Queue& queue, const TensorView& x, const TensorView& mean, const TensorView& invstd,
                           double eps, const RunningStatistics& running) {
  check_data(x);
  check_channels(x, mean, "a mean"), check_channels(x, invstd, "a deviation");
  check_channels(x, running.mean, "a running mean"), check_channels(x, running.variance, "a running variance");
  const std::initializer_list<ChannelPair> statistics = {{&mean, &invstd}, {&running.mean, &running.variance}};
  if (const auto shape = channel_rows(queue.device().info(), {&x}, statistics))
    return channel_moments(queue, *shape, x, mean, invstd, eps, running);
  static const Programs both([](bool updates) { return one_pass(welford::update, updates, welford::block); });
  static const Programs means(mean_pass), deviations(deviation_pass);
  if (!queue.device().info().cpu)
    return run_moments(queue, both, {&x, 1}, {mean, invstd}, {running.mean, running.variance}, eps, running.momentum);
  const Workspace memory(queue, std::size_t(mean.numel()) * size_of(mean.dtype));
  const TensorView first(memory.data(), mean.dtype, mean.shape());
  run_moments(queue, means, {&x, 1}, {mean, first}, {TensorView()}, eps, running.momentum);
  const TensorView inputs[] = {x, broadcast(first, x)};
  run_moments(queue, deviations, inputs, {mean, invstd}, {running.mean, running.variance}, eps, running.momentum);
}

void batch_norm_gather(Queue& queue, const TensorView& means, const TensorView& invstds, const TensorView& counts,
                       const TensorView& mean, const TensorView& invstd, double eps, const RunningStatistics& running) {
  TensorView shared = means;
  shared.data = counts.data, shared.dtype = counts.dtype;
  shared.strides[0] = counts.stride(0), shared.strides[1] = 0;
  const TensorView inputs[] = {means, invstds, shared};
  static const Programs both([](bool updates) { return one_pass(process, updates); });
  run_moments(queue, both, inputs, {mean, invstd}, {running.mean, running.variance}, eps, running.momentum);
}

void batch_norm_apply(Queue& queue, const TensorView& y, const TensorView& x, const ChannelStatistics& s,
                      const TensorView& weight, const TensorView& bias) {
  Key key;
  NormShape shape{};
  const NDRange range = layout(queue, key, shape, x, {&x, &y});
  set_statistics(key, shape, x, s, weight);
  check_channels(x, bias, "a bias");
  DLPRIM_EXPECT(!weight.defined() || !bias.defined() || weight.dtype == bias.dtype, "batch_norm",
                "weight and bias of one dtype");
  key.x = key.g = x.dtype, key.y = y.dtype, key.sums = key.statistics, key.has_bias = bias.defined();
  if (!weight.defined() && bias.defined()) key.weight = bias.dtype;
  if (range.global[0] == 0) return;
  const BufferRef none = s.mean.data;
  launch(queue, kernel_of(queue.device(), key), range, Traffic{bytes(x) + bytes(y)}, shape, y.data, x.data, s.mean.data,
         s.inverse_std.data, weight.defined() ? weight.data : none, bias.defined() ? bias.data : none);
}

void batch_norm_sums(Queue& queue, const TensorView& sum, const TensorView& dot, const TensorView& gy,
                     const TensorView& x, const ChannelStatistics& s) {
  check_data(x);
  check_channels(x, sum, "a sum"), check_channels(x, dot, "a sum"), check_channels(x, s.mean, "a mean");
  DLPRIM_EXPECT(!s.variance, "batch_norm", "1 / std for training, got a variance");
  if (const auto shape = channel_rows(queue.device().info(), {&x, &gy}, {{&sum, &dot}, {&s.mean, &s.inverse_std}}))
    return channel_sums(queue, *shape, sum, dot, gy, x, s.mean, s.inverse_std);
  norm_sums(queue, per_channel(sum, x.dims), per_channel(dot, x.dims), gy, x, broadcast(s.mean, x),
            broadcast(s.inverse_std, x));
}

void batch_norm_backward(Queue& queue, const TensorView& gx, const TensorView& gy, const TensorView& x,
                         const ChannelStatistics& s, const TensorView& weight, const TensorView& sum,
                         const TensorView& dot, double count) {
  Key key;
  NormShape shape{};
  const NDRange range = layout(queue, key, shape, x, {&x, &gy, &gx});
  set_statistics(key, shape, x, s, weight);
  key.x = x.dtype, key.g = gy.dtype, key.y = gx.dtype, key.has_sums = sum.defined(), key.backward = 1;
  key.sums = sum.defined() ? sum.dtype : key.statistics;
  shape.scale = TwoFloats(1 / count);
  if (range.global[0] == 0) return;
  const BufferRef none = s.mean.data;
  launch(queue, kernel_of(queue.device(), key), range, Traffic{bytes(x) + bytes(gy) + bytes(gx)}, shape, gx.data,
         x.data, s.mean.data, s.inverse_std.data, weight.defined() ? weight.data : none, gy.data,
         sum.defined() ? sum.data : none, dot.defined() ? dot.data : none);
}

}  // namespace dlprim
