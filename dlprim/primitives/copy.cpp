// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/indexing.hpp>
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>

namespace dlprim {

namespace {

constexpr int max_batch_dims = 4;
constexpr std::int64_t tile = 32;

struct TransposeKey {
  std::uint8_t from, to, batch_dims;
};

// The layout of struct Parameters in copy.cl.
struct TransposeParameters {
  std::uint32_t width, height;  // sizes along the dimensions in which `to` and `from` are dense
  std::int32_t from_stride, to_stride;
  Divider sizes[max_batch_dims];
  std::int32_t from_strides[max_batch_dims], to_strides[max_batch_dims];
};

// An unsigned type of the same size: equal types are copied as bits, which needs neither float64 nor conversion.
DataType bits_of(DataType type) {
  switch (size_of(type)) {
    case 1: return DataType::uint8;
    case 2: return DataType::uint16;
    case 4: return DataType::uint32;
    default: return DataType::uint64;
  }
}

Plan as_bits(const Plan& plan) {
  Plan bits = plan;
  if (size_of(plan.operands[0].dtype) == 16) {  // complex128: two words an element
    bits.split_elements(2, bits.count());
    bits.coalesce();
  }
  for (int k = 0; k < plan.count(); k++) bits.operands[k].dtype = bits_of(bits.operands[k].dtype);
  return bits;
}

// The dimension along which the input is dense while the output is dense along dimension 0; 0 when there is none.
int crossing_dim(const Plan& plan) {
  const Operand &to = plan.operands[0], &from = plan.operands[1];
  if (to.strides[0] != 1 || from.strides[0] == 1 || from.strides[0] == 0 || plan.sizes[0] < 8) return 0;
  if (plan.dims > max_batch_dims + 2) return 0;
  for (int d = 1; d < plan.dims; d++)
    if (from.strides[d] == 1 && plan.sizes[d] >= 8) return d;
  return 0;
}

// Whether the tiles along `crossing` and those of other dimensions fit a launch: along its second and third dimension,
// NVIDIA's have 65535 work-groups at most.
bool fits_launch(const Plan& plan, int crossing) {
  constexpr std::int64_t most = 65535;
  const std::int64_t tiles = (plan.sizes[crossing] + tile - 1) / tile;
  return tiles <= most && plan.numel() / plan.sizes[0] / plan.sizes[crossing] <= most;
}

// Copies through square tiles, so that both sides move whole cache lines.
void transpose(Queue& queue, const Plan& plan, int crossing) {
  const Operand &to = plan.operands[0], &from = plan.operands[1];
  const TransposeKey key{std::uint8_t(from.dtype), std::uint8_t(to.dtype), std::uint8_t(plan.dims - 2)};
  static KernelCache<TransposeKey> cache;
  const std::size_t lines = std::max<std::size_t>(fitting_group(queue.device().info(), 256) / 32, 1);
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("copy.cl", "transpose");
    source.define("FROM", tag(from.dtype)).define("TO", tag(to.dtype)).define("BATCH_DIMS", key.batch_dims);
    source.define("MAX_BATCH_DIMS", max_batch_dims).define("TILE", tile);
    source.define("LINES", std::int64_t(lines));
    const std::int64_t bytes = from.dtype == to.dtype ? std::int64_t(size_of(from.dtype)) : 0;
    source.define("BITS", bytes == 2 || bytes == 4 ? 8 * bytes : 0);
    source.define("CAST(v)", cl_cast(from.dtype, to.dtype, "v"));
    return source;
  });
  TransposeParameters p{};
  p.width = std::uint32_t(plan.sizes[0]), p.height = std::uint32_t(plan.sizes[crossing]);
  p.from_stride = std::int32_t(from.strides[0]), p.to_stride = std::int32_t(to.strides[crossing]);
  std::size_t batch = 1;
  for (int d = 1, n = 0; d < plan.dims; d++) {
    if (d == crossing) continue;
    batch *= std::size_t(plan.sizes[d]);
    p.sizes[n] = Divider(std::uint32_t(plan.sizes[d]));
    p.from_strides[n] = std::int32_t(from.strides[d]), p.to_strides[n++] = std::int32_t(to.strides[d]);
  }
  const bool cpu = queue.device().info().cpu;
  const std::size_t across = std::size_t((plan.sizes[0] + tile - 1) / tile);
  const std::size_t down = std::size_t((plan.sizes[crossing] + tile - 1) / tile);
  const NDRange range =
      cpu ? NDRange(across, down, batch, 1, 1, 1) : NDRange(across * 32, down * lines, batch, 32, lines, 1);
  const Traffic traffic{std::uint64_t(plan.numel()) * (size_of(from.dtype) + size_of(to.dtype))};
  launch(queue, kernel, range, traffic, to.data, from.data, p);
}

void copy_elements(Queue& queue, const Plan& plan) {
  if (const int crossing = crossing_dim(plan)) {
    if (plan.fits_32bit() && fits_launch(plan, crossing)) return transpose(queue, plan, crossing);
    Plan first = plan;
    Plan rest = first.split();
    first.coalesce(), rest.coalesce();
    copy_elements(queue, first);
    return copy_elements(queue, rest);
  }
  pointwise(queue, PointwiseId::copy, plan, plan.operands[1].dtype);
}

}  // namespace

void copy(Queue& queue, const Plan& plan) {
  if (plan.numel() == 0) return;
  const Operand &to = plan.operands[0], &from = plan.operands[1];
  if (to.dtype != from.dtype || from.constant()) return copy_elements(queue, plan);
  if (to.data.memory == from.data.memory && to.data.offset == from.data.offset &&
      std::equal(to.strides, to.strides + plan.dims, from.strides))
    return;
  copy_elements(queue, as_bits(plan));
}

void copy(Queue& queue, const TensorView& to, const TensorView& from) {
  copy(queue, make_plan({&to, 1}, {&from, 1}, "copy"));
}

void fill(Queue& queue, const Plan& plan, Scalar value) {
  Plan filled = plan;
  const DataType dtype = plan.operands[0].dtype;
  if ((dtype == DataType::float64 || dtype == DataType::complex128) && value.is_zero()) {  // needs no float64
    filled.add_constant(0, dtype);
    filled = as_bits(filled);
    filled.inputs = 0;
  }
  pointwise(queue, PointwiseId::fill, filled, filled.operands[0].dtype, {&value, 1});
}

void fill(Queue& queue, const TensorView& to, Scalar value) { fill(queue, make_plan({&to, 1}, {}, "fill"), value); }

}  // namespace dlprim
