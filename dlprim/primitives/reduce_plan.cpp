// SPDX-License-Identifier: MIT
#include "reduce_plan.hpp"

#include <dlprim/primitives/indexing.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <bit>
#include <vector>

#include "check.hpp"

namespace dlprim {

namespace {

using Dims = std::vector<ReduceDim>;

constexpr std::uint64_t short_row = 512;
constexpr std::uint64_t in_cache = 1 << 20;  // elements that a CPU's cores probably hold

std::uint64_t index_limit() { return std::uint64_t(settings.index_limit.load(std::memory_order_relaxed)); }

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

struct Shape {
  Dims kept, reduced;
  std::uint64_t kept_count = 1, reduced_count = 1;
  int inputs = 0, operands = 0;
  bool wide = false;
  bool merge = false;  // of the partial sums of an earlier stage
  bool packs = false;  // four neighbours along the fast dim are aligned words of every input
};

void validate(const char* what, const ReduceOperands& operands) {
  const std::size_t count = operands.inputs.size() + operands.outputs.size();
  DLPRIM_EXPECT(!operands.inputs.empty() && !operands.outputs.empty() && count <= reduce_max_operands, what,
                "inputs and outputs, at most 8 together, got ", count);
  const TensorView& x = operands.inputs[0];
  for (const TensorView& input : operands.inputs) {
    DLPRIM_EXPECT(input.dims == x.dims, what, "inputs of ", x.dims, " dims, got ", input.dims);
    for (int d = 0; d < x.dims; d++)
      DLPRIM_EXPECT(input.sizes[d] == x.sizes[d], what, "inputs of size ", x.sizes[d], " in dim ", d, ", got ",
                    input.sizes[d]);
  }
  for (const TensorView& output : operands.outputs) {
    DLPRIM_EXPECT(output.dims == x.dims, what, "outputs of ", x.dims, " dims, got ", output.dims);
    for (int d = 0; d < x.dims; d++) {
      const std::int64_t first = operands.outputs[0].sizes[d];
      DLPRIM_EXPECT(output.sizes[d] == first && (first == 1 || first == x.sizes[d]), what, "outputs of size 1 or ",
                    x.sizes[d], " in dim ", d, ", got ", output.sizes[d]);
    }
  }
}

// Joins neighbours that all operands walk as one dim.
void coalesce(Dims& dims, int operands) {
  Dims merged;
  for (const ReduceDim& dim : dims) {
    auto follows = [&](const ReduceDim& inner) {
      for (int k = 0; k < operands; k++)
        if (dim.strides[k] != inner.strides[k] * std::int64_t(inner.size)) return false;
      return true;
    };
    if (!merged.empty() && follows(merged.back())) {
      merged.back().size *= dim.size;
    } else {
      merged.push_back(dim);
    }
  }
  if (merged.empty()) merged.emplace_back();
  dims = std::move(merged);
}

void set_magic(ReduceDim& dim) {
  if (dim.size == 0 || dim.size >> 31) return;
  const Divider divider(dim.size);
  dim.magic = divider.multiplier, dim.shift = divider.shift;
}

bool is_columns(const Shape& shape) {
  const ReduceDim &kept = shape.kept[0], &reduced = shape.reduced[0];
  return kept.size > 1 && (reduced.size <= 1 || std::abs(kept.strides[0]) < std::abs(reduced.strides[0]));
}

bool packs(const Shape& shape, const ReduceOperands& operands) {
  const bool columns = is_columns(shape);
  const ReduceDim& fast = columns ? shape.kept[0] : shape.reduced[0];
  if (columns ? fast.size % 4 != 0 : shape.reduced.size() > 1) return false;
  for (int k = 0; k < shape.inputs; k++) {
    const TensorView& x = operands.inputs[k];
    if (fast.strides[k] != 1 || is_complex(x.dtype) || x.data.offset % (4 * size_of(x.dtype))) return false;
    for (const Dims* dims : {&shape.kept, &shape.reduced})
      for (const ReduceDim& dim : *dims)
        if (&dim != &fast && dim.strides[k] % 4) return false;
  }
  return true;
}

Shape shape_of(const ReduceOperands& operands, bool ordered) {
  Shape shape;
  const TensorView &x = operands.inputs[0], &y = operands.outputs[0];
  shape.inputs = int(operands.inputs.size());
  shape.operands = shape.inputs + int(operands.outputs.size());
  const std::int64_t limit = std::int64_t(index_limit());
  std::int64_t extent[reduce_max_operands] = {};
  for (int d = x.dims - 1; d >= 0; d--) {
    if (x.sizes[d] == 1) continue;
    const bool reduced = y.sizes[d] == 1;
    (reduced ? shape.reduced_count : shape.kept_count) *= std::uint64_t(x.sizes[d]);
    ReduceDim dim;
    dim.size = std::uint64_t(x.sizes[d]);
    for (int k = 0; k < shape.operands; k++) {
      const bool output = k >= shape.inputs;
      dim.strides[k] = !output   ? operands.inputs[k].strides[d]
                       : reduced ? 0
                                 : operands.outputs[k - shape.inputs].strides[d];
      extent[k] += (x.sizes[d] - 1) * std::abs(dim.strides[k]);
      shape.wide |= extent[k] > limit;
    }
    (reduced ? shape.reduced : shape.kept).push_back(dim);
  }
  shape.wide |= std::max(shape.kept_count, shape.reduced_count) > index_limit() / 2;
  auto faster = [](const ReduceDim& a, const ReduceDim& b) { return std::abs(a.strides[0]) < std::abs(b.strides[0]); };
  std::stable_sort(shape.kept.begin(), shape.kept.end(), faster);
  if (!ordered) std::stable_sort(shape.reduced.begin(), shape.reduced.end(), faster);
  coalesce(shape.kept, shape.operands);
  coalesce(shape.reduced, shape.operands);
  shape.packs = packs(shape, operands);
  return shape;
}

std::uint16_t power_of_two(std::uint64_t n, std::uint64_t limit) {
  return std::uint16_t(std::bit_floor(std::clamp<std::uint64_t>(n, 1, limit)));
}

// On a CPU one work-item with many accumulators of one field compiles to vector instructions without barriers, and
// takes so many columns that it reads whole pages; accumulators of several fields are better distributed over the 16
// work-items of a group, and those of one are, too, where the compiler makes vectors of work-items, unless rows are short.
void choose_group_cpu(ReduceForm& form, const Shape& shape, const DeviceInfo& device, int fields) {
  const std::uint64_t reduced = shape.reduced_count, inner = shape.kept[0].size;
  const std::uint16_t group = power_of_two(16, device.max_work_group);
  form.wide = 1;  // compilers see through 64-bit addresses more often
  if (form.columns && fields == 1 && inner >= 16) {
    form.aligned = form.lines = 1;
  } else if (form.columns && fields > 1 && inner < 16 && reduced >= 1024) {
    form.aligned = 1;
    form.reduce_items = group;
  } else if (form.columns) {
    form.aligned = 1;
    form.kept_items = fields == 1 ? 1 : power_of_two(inner, group);
    form.vector = std::uint8_t(power_of_two(inner / form.kept_items, fields == 1 ? 64 : 4));
  } else if (reduced < 16) {
    form.kept_items = group;
  } else {
    const bool alone = fields == 1 && (device.vendor != Vendor::intel || reduced <= short_row);
    form.reduce_items = alone ? 1 : group;
    form.vector = alone ? 16 : reduced >= 128 ? 4 : 1;
    form.nested = shape.reduced.size() > 1 && shape.reduced[0].size >= 16;
  }
}

// GPUs want wide groups, many of them, and neighbours reading neighbours: 32 of them, or 8 for a merge, which has too
// few groups otherwise and nothing to gain from splitting again.
void choose_group_gpu(ReduceForm& form, const Shape& shape, const DeviceInfo& device, int fields) {
  const std::uint64_t group = std::min<std::uint64_t>(256, device.max_work_group);
  if (form.columns) {
    form.packed = shape.packs && (shape.kept.size() == 1 || shape.kept[0].size >= 32);
    const std::uint64_t inner = form.packed ? shape.kept[0].size : shape.kept_count;
    form.vector = form.packed || (shape.kept_count >= 512 && fields == 1 && !shape.merge) ? 4 : 1;
    form.kept_items = power_of_two(inner / form.vector, std::min<std::uint64_t>(group, shape.merge ? 8 : 32));
    form.reduce_items = power_of_two(shape.reduced_count, group / form.kept_items);
    form.aligned = form.packed || shape.kept.size() == 1;
    form.ahead = form.vector > 1 ? 4 : 8;
  } else {
    // Sixteen neighbours for each work-item, in pieces of 128 bytes, where so few of them still fill the device.
    const std::uint16_t few = power_of_two(std::max<std::uint64_t>(shape.reduced_count / 16, 8), group);
    const bool many = few * shape.kept_count >= std::max(1u, device.compute_units) * 1024ull;
    form.reduce_items =
        shape.packs && many && shape.reduced_count >= 4u * few ? few : power_of_two(shape.reduced_count / 2, group);
    form.kept_items = std::uint16_t(group / form.reduce_items);
    const std::uint64_t each = shape.reduced_count / form.reduce_items;
    form.vector = each >= 8 || (shape.packs && each >= 4) ? 4 : 1;
    form.packed = form.vector == 4 && shape.packs;
    form.ahead = form.packed ? std::uint8_t(power_of_two(each / 4, 4)) : fields == 1 && each >= 64 ? 4 : 1;
  }
}

void choose_grid(ReducePlan& plan, const Shape& shape, const DeviceInfo& device) {
  const ReduceForm& form = plan.form;
  ReduceParameters& p = plan.parameters;
  const std::uint64_t units = std::max(1u, device.compute_units);
  // What lies in a cache is read as fast in pieces of rows, and a second launch takes longer than what it would save.
  const bool few = std::max(shape.kept_count, shape.reduced_count) <= in_cache;
  const bool cached = device.cpu && few && shape.kept_count * shape.reduced_count <= in_cache;
  if (form.lines) {
    const std::uint64_t inner = shape.kept[0].size, pieces = cached ? std::min(units, inner / 32) : 1;
    const std::uint64_t parts = std::max(pieces, ceil_div(inner, reduce_most_columns));
    p.width = std::uint32_t(ceil_div(ceil_div(inner, parts), 16) * 16);
  }
  const std::uint64_t tile = form.lines ? p.width : std::uint64_t(form.kept_items) * (form.columns ? form.vector : 1);
  p.inner_tiles = std::uint32_t(ceil_div(shape.kept[0].size, tile));
  const std::uint64_t outer = shape.kept[0].size ? shape.kept_count / shape.kept[0].size : 0;
  p.tiles = std::uint32_t(form.aligned ? outer * p.inner_tiles : ceil_div(shape.kept_count, tile));
  const std::uint64_t wanted = units * (!device.cpu ? 8 : cached ? 1 : 4);
  const std::uint64_t shares = form.columns ? 1 : std::max<std::uint64_t>(form.ahead, 1) * form.vector;
  const std::uint64_t across = form.reduce_items * shares;
  const std::uint64_t least = device.cpu ? std::max<std::uint64_t>(16384 / tile, across) : across * 8;
  std::uint64_t splits = 1;
  if (p.tiles < wanted) splits = std::min(wanted / std::max(p.tiles, 1u), shape.reduced_count / least);
  splits = std::clamp<std::uint64_t>(splits, 1, 4096);
  const std::uint64_t grain = form.nested ? shape.reduced[0].size : across;
  p.chunk = std::max<std::uint64_t>(1, ceil_div(ceil_div(shape.reduced_count, splits), grain) * grain);
  plan.splits = std::uint32_t(std::max<std::uint64_t>(1, ceil_div(shape.reduced_count, p.chunk)));
  p.passes = std::uint32_t(std::max<std::uint64_t>(1, p.tiles / (units * 64)));
}

ReducePlan plan_of(const Shape& shape, const DeviceInfo& device, int fields) {
  ReducePlan plan;
  ReduceForm& form = plan.form;
  ReduceParameters& p = plan.parameters;
  p.kept = shape.kept_count, p.reduced = p.count = shape.reduced_count;
  int d = 0;
  for (const Dims* dims : {&shape.kept, &shape.reduced})
    for (const ReduceDim& dim : *dims) set_magic(p.dims[d++] = dim);
  form.kept_dims = std::uint8_t(shape.kept.size()), form.reduced_dims = std::uint8_t(shape.reduced.size());
  form.wide = shape.wide;
  form.columns = is_columns(shape);
  const ReduceDim& fast = form.columns ? shape.kept[0] : shape.reduced[0];
  for (int k = 0; k < shape.operands; k++) form.units |= std::uint8_t((fast.strides[k] == 1) << k);
  for (int k = 0; k < shape.operands; k++) {
    const auto still = [&](const ReduceDim& dim) { return dim.strides[k] == 0; };
    form.fixed |= std::uint8_t(std::all_of(shape.reduced.begin(), shape.reduced.end(), still) << k);
  }
  const bool cpu = device.cpu && !settings.gpu_forms;
  (cpu ? choose_group_cpu : choose_group_gpu)(form, shape, device, fields);
  choose_grid(plan, shape, device);
  return plan;
}

}  // namespace

std::optional<ReducePlan> plan_reduction(const char* what, const ReduceOperands& operands, const DeviceInfo& device,
                                         int fields, bool ordered) {
  validate(what, operands);
  const Shape shape = shape_of(operands, ordered);
  if (shape.kept.size() + shape.reduced.size() > reduce_max_dims) return std::nullopt;
  return plan_of(shape, device, fields);
}

ReducePlan plan_merge(const ReducePlan& first, int inputs, int outputs, const DeviceInfo& device, int fields) {
  Shape shape;
  shape.inputs = 1, shape.operands = 1 + outputs, shape.merge = true;
  shape.kept_count = first.parameters.kept, shape.reduced_count = first.splits;
  shape.wide = first.form.wide || shape.kept_count * shape.reduced_count > index_limit();
  std::int64_t stride = 1;
  for (int d = 0; d < first.form.kept_dims; d++) {
    ReduceDim dim = first.parameters.dims[d];
    std::int64_t strides[reduce_max_operands] = {stride};
    for (int k = 0; k < outputs; k++) strides[1 + k] = dim.strides[inputs + k];
    std::copy(std::begin(strides), std::end(strides), dim.strides);
    stride *= std::int64_t(dim.size);
    shape.kept.push_back(dim);
  }
  ReduceDim dim;
  dim.size = first.splits;
  dim.strides[0] = stride;
  shape.reduced.push_back(dim);
  ReducePlan plan = plan_of(shape, device, fields);
  plan.parameters.count = first.parameters.count;
  plan.parameters.chunk = plan.parameters.reduced;
  plan.splits = 1;
  return plan;
}

}  // namespace dlprim
