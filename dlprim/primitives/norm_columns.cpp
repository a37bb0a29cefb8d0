// SPDX-License-Identifier: MIT
#include "norm_columns.hpp"

#include <dlprim/primitives/reduce.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <array>

#include "rows.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t lanes = 32, rows_at_once = 8;

struct Key {
  DataType x{}, g{}, statistics{};
  std::uint8_t center = 0, pack = 1;
  std::uint8_t unused[3] = {};
};

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("norm_columns.cl", "norm_columns");
    source.define("X_TAG", tag(key.x)).define("G_TAG", tag(key.g)).define("S_TAG", tag(key.statistics));
    source.define("REAL", key.x == DataType::float64 ? "double" : "float").define("CENTER", key.center);
    return source.define("PACK", key.pack).define("LANES", lanes).define("ROWS", rows_at_once);
  });
}

bool is_cpu(const DeviceInfo& device) { return device.cpu && !settings.gpu_forms; }

}  // namespace

PartialSums::PartialSums(Queue& queue, std::int64_t parts, const GroupShape& shape, DataType x)
    : parts_(parts), channels_(shape.channels), center_(shape.center),
      type_(x == DataType::float64 ? DataType::float64 : DataType::float32),
      memory_(queue, std::size_t(parts * channels_ * (center_ ? 2 : 1)) * size_of(type_)) {}

void PartialSums::add_up(Queue& queue, const TensorView& grad_weight, const TensorView& grad_bias) const {
  static const ReduceProgram sums({"REAL a, b;", 2, "p->a = 0; p->b = 0;", "p->a += x0; p->b += x1;",
                                   "p->a += q.a; p->b += q.b;", "y0 = p->a; y1 = p->b;"});
  const std::int64_t kept[] = {1, channels_}, sizes[] = {parts_, channels_};
  auto result = [&](const TensorView& view) { return TensorView(view.data, view.dtype, kept); };
  const TensorView of_weight(memory_.data(), type_, sizes);
  if (!center_) {
    const TensorView total = result(grad_weight);
    return reduce(queue, ReduceId::sum, {{&total, 1}, {&of_weight, 1}});
  }
  BufferRef biases = memory_.data();
  biases.offset += std::size_t(parts_ * channels_) * size_of(type_);
  const std::array outputs{result(grad_weight), result(grad_bias)};
  const std::array inputs{of_weight, TensorView(biases, type_, sizes)};
  reduce(queue, sums, type_, {outputs, inputs});
}

const char* decline_norm_columns(const DeviceInfo& device, const GroupShape& shape) {
  if (is_cpu(device)) return "CPUs sum columns in vector lanes";
  if (std::int64_t(device.max_work_group) < lanes * rows_at_once) return "too small work-groups";
  return shape.rows < 4 * rows_at_once ? "few rows" : nullptr;
}

void norm_columns(Queue& queue, const GroupShape& shape, const TensorView& grad_weight, const TensorView& grad_bias,
                  const NormColumns& data) {
  Key key{data.x.dtype, data.gy.dtype, data.rstd.dtype, shape.center};
  const DeviceInfo& info = queue.device().info();
  key.pack = takes_fours(info, shape.channels, {&data.gy, &data.x}) ? 4 : 1;
  const std::int64_t across = (shape.channels + lanes * key.pack - 1) / (lanes * key.pack);
  // Twice the groups that a GPU runs at once, each with work enough for its partial sums not to matter.
  const std::int64_t wanted = std::max<std::int64_t>(1, std::int64_t(info.compute_units) * 16 / across);
  const std::int64_t chunks = std::min(wanted, (shape.rows + 4 * rows_at_once - 1) / (4 * rows_at_once));
  const std::int64_t chunk = (shape.rows + chunks - 1) / chunks, used = (shape.rows + chunk - 1) / chunk;
  const PartialSums partials(queue, used, shape, key.x);
  const std::size_t group = lanes * rows_at_once;
  const std::uint64_t bytes = std::uint64_t(data.x.numel()) * (size_of(key.x) + size_of(key.g));
  launch(queue, kernel_of(queue.device(), key), NDRange(std::size_t(across) * group, std::size_t(used), group, 1),
         Traffic{bytes}, partials.data(), data.gy.data, data.x.data, data.mean.data, data.rstd.data,
         cl_ulong(shape.rows), cl_ulong(shape.channels), cl_ulong(chunk));
  partials.add_up(queue, grad_weight, grad_bias);
}

}  // namespace dlprim
