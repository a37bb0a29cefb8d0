// SPDX-License-Identifier: MIT
#include <dlprim/primitives/scan.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>
#include <dlprim/runtime/memory.hpp>

#include <algorithm>
#include <initializer_list>

#include "rows.hpp"
#include "check.hpp"
#include "scan_sweep.hpp"

namespace dlprim {

namespace {

struct Row {
  const char *name, *identity, *combine;  // for max and min: whether the later b replaces a
  bool sums;                              // accumulated in the sum's type
  const char* complex = nullptr;          // the expression for complex numbers, if there is one
};

constexpr Row rows[] = {
    {"cumsum", "0", "a + b", true, "a + b"},
    {"cumprod", "1", "a * b", true, "c_mul(a, b)"},
    {"logcumsumexp", "-INFINITY", "logaddexp(a, b)", false, "c_logaddexp(a, b)"},
    {"cummax", "LOWEST", "b != b || b >= a", false},
    {"cummin", "HIGHEST", "b != b || b <= a", false},
};

struct Shape {
  std::uint64_t rows, length, inner, chunk;
};

struct Key {
  RowLayout layout;
  std::uint8_t id = 0, phase = 0, wide = 0, indexed = 0, fours = 0, unused = 0;
  DataType type{}, accumulate{};
};

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("scan.cl", "scan");
    define_scan(source, ScanId(key.id), key.type, key.accumulate, key.indexed);
    source.define("PHASE", key.phase).define("FOURS", key.fours);
    source.define("LANES", key.layout.lanes).define("ROWS", key.layout.rows).define("ITEMS", key.layout.items);
    source.define("COLUMNS", key.layout.columns);
    if (key.wide) source.define("WIDE");
    return source;
  });
}

// Rows that a CPU's work-group walks. Intel's compiler makes them lanes of a vector where there are enough; others gain
// where rows are so short that groups of one would be too many.
std::uint64_t rows_of_cpu(const DeviceInfo& device, const Shape& shape) {
  constexpr std::uint64_t short_row = 128, shortest = 16;
  if (device.vendor != Vendor::intel && shape.length > shortest) return 1;
  const std::uint64_t rows = std::min<std::uint64_t>(shape.length <= short_row ? 64 : 16, device.max_work_group);
  return shape.rows >= 8 * rows * device.compute_units ? rows : 1;
}

// CPUs walk rows serially, neighbouring ones in vector lanes; GPUs give a long row to a whole group.
RowLayout layout_of(const DeviceInfo& device, const Shape& shape) {
  const std::uint64_t group = std::min<std::uint64_t>(device.cpu ? 16 : 256, device.max_work_group);
  RowLayout layout;
  layout.columns = shape.inner > 1;
  std::uint64_t lanes = 1;
  if (!device.cpu && !layout.columns)
    while (lanes < group && lanes * 4 < shape.length) lanes *= 2;
  layout.lanes = std::uint16_t(lanes);
  layout.rows = std::uint16_t(device.cpu && !layout.columns ? rows_of_cpu(device, shape) : group / lanes);
  const bool long_rows = lanes == group && shape.length >= 16 * group;
  layout.items = layout.columns || lanes == 1 ? 1 : long_rows ? 16 : 4;
  return layout;
}

// Whether each row of the tensors begins where a vector of four elements may; tiles do so within rows.
bool takes_fours(std::initializer_list<const TensorView*> tensors, const Shape& s) {
  return s.inner == 1 && (s.rows == 1 || s.length % 4 == 0) && std::ranges::all_of(tensors, [](const TensorView* t) {
           return !t->defined() || (!is_complex(t->dtype) && t->data.offset % (4 * size_of(t->dtype)) == 0);
         });
}

// Long serial sums of CPUs in double, which costs nothing there, and logarithms, whose differences gradients take. GPUs,
// where double's exponentials do cost, keep a pair of floats, which no step rounds to the logarithm's own precision; of
// complex numbers they combine few one after the other.
// Totals take whole words, by which work-groups tell them, beside a position too.
DataType accumulator_of(const DeviceInfo& device, ScanId id, DataType type) {
  const DataType own = rows[int(id)].sums ? accumulate_type(type) : compute_type(type);
  if (size_of(own) < 4) return DataType::int32;
  const bool logarithm = id == ScanId::logsumexp, gpu = !device.cpu || settings.gpu_forms;
  if (own == DataType::complex64 && !gpu && device.fp64) return DataType::complex128;
  if (own != DataType::float32) return own;
  if (logarithm && gpu) return DataType::complex64;
  return device.fp64 && (logarithm || (device.cpu && rows[int(id)].sums)) ? DataType::float64 : own;
}

void validate(ScanId id, const TensorView& y, const TensorView& x, const TensorView& indices, int dim) {
  const auto& row = rows[int(id)];
  DLPRIM_EXPECT(dim >= 0 && dim < std::max(x.dims, 1), row.name, "a dim below ", x.dims, ", got ", dim);
  DLPRIM_EXPECT(y.numel() == x.numel() && y.dtype == x.dtype && (!is_complex(x.dtype) || row.complex), row.name,
                row.complex ? "" : "real ", "input and output alike, got ", x.dtype, " and ", y.dtype);
  DLPRIM_EXPECT(y.is_contiguous() && x.is_contiguous(), row.name, "contiguous tensors, got strides");
  DLPRIM_EXPECT(!indices.defined() ||
                    (indices.dtype == DataType::int64 && indices.is_contiguous() && indices.numel() == x.numel()),
                row.name, "contiguous int64 indices of the input's sizes, got ", indices.dtype);
}

}  // namespace

void define_scan(KernelSource& source, ScanId id, DataType type, DataType accumulate, bool indexed) {
  const Row& row = rows[int(id)];
  const bool chooses = id >= ScanId::max, complex = is_complex(type), pairs = !complex && is_complex(accumulate);
  const std::string choice = std::string("((") + row.combine + ") ? b : a)";
  source.define("T_TAG", tag(type)).define("ACC_TAG", tag(accumulate)).define("INDEXED", indexed);
  source.define("ACC_T", std::string("VALUE(") + tag(accumulate) + ")").define("PAIRS", pairs);
  if (pairs) {
    source.define("IDENTITY", "((ACC_T)(-INFINITY, -1))").define("COMBINE", "pair_sum(a, b)");
    return;
  }
  source.define("TO_ACC_T(value)", cl_cast(type, accumulate, "value"));
  source.define("FROM_ACC_T(value)", cl_cast(accumulate, type, "value"));
  source.define("IDENTITY", complex ? std::string("((ACC_T)(") + row.identity + ", 0))" : row.identity);
  source.define("COMBINE", complex ? row.complex : chooses && !indexed ? choice : row.combine);
  if (complex) source.define("REAL_TAG", accumulate == DataType::complex128 ? "f64" : "f32");
}

void scan(Queue& queue, ScanId id, const TensorView& y, const TensorView& x, int dim, const TensorView& indices) {
  if (dim < 0) dim += std::max(x.dims, 1);
  validate(id, y, x, indices, dim);
  Shape shape{1, 1, 1, 0};
  for (int d = 0; d < x.dims; d++)
    (d < dim ? shape.rows : d == dim ? shape.length : shape.inner) *= std::uint64_t(x.sizes[d]);
  shape.rows *= shape.inner;
  if (shape.rows == 0 || shape.length == 0) return;
  Device& device = queue.device();
  const DeviceInfo& info = device.info();
  Key key;
  key.id = std::uint8_t(id), key.type = x.dtype, key.indexed = indices.defined();
  key.wide = rows_are_wide(shape.rows, shape.length);
  key.accumulate = accumulator_of(info, id, x.dtype);
  auto run = [&](int phase, const Shape& s, const BufferRef& totals, std::uint64_t chunks) {
    key.layout = layout_of(info, s);
    key.phase = std::uint8_t(phase);
    key.fours = phase != 2 && key.layout.items > 1 && takes_fours({&x, &y, &indices}, s);
    const std::size_t group = std::size_t(key.layout.lanes) * key.layout.rows;
    const std::size_t groups = (s.rows + key.layout.rows - 1) / key.layout.rows;
    const Traffic traffic{phase == 2 ? 0 : s.rows * s.length * size_of(x.dtype) * (phase == 1 ? 1 : 2)};
    launch(queue, kernel_of(device, key), NDRange(groups * group, chunks, group, 1), traffic, s, y.data,
           indices.defined() ? indices.data : y.data, x.data, totals);
  };
  const RowLayout layout = layout_of(info, shape);
  const std::uint64_t tile = std::uint64_t(layout.lanes) * layout.items;
  const std::uint64_t groups = (shape.rows + layout.rows - 1) / layout.rows;
  const std::uint64_t wanted = std::uint64_t(info.compute_units) * (info.cpu ? 2 : 8) / groups;
  const std::uint64_t chunks = std::min(wanted, shape.length / std::max<std::uint64_t>(tile * 4, info.cpu ? 8192 : 64));
  const bool fours = takes_fours({&x, &y, &indices}, shape);
  const SweptScan swept{id, key.type, key.accumulate, fours, indices.defined(), chunks < 2};
  const bool dense = shape.inner == 1, long_enough = chunks >= 2 || (shape.length >= 1024 && id >= ScanId::logsumexp);
  if (dense && long_enough && !decline_scan_sweep(info, swept, shape.length))
    return scan_sweep(queue, swept, {y.data, key.indexed ? indices.data : y.data, x.data, shape.rows, shape.length});
  if (chunks < 2) {
    shape.chunk = shape.length;
    return run(0, shape, y.data, 1);
  }
  shape.chunk = ((shape.length + chunks - 1) / chunks + tile - 1) / tile * tile;
  const std::uint64_t used = (shape.length + shape.chunk - 1) / shape.chunk;
  const Workspace totals(queue, shape.rows * used * 16);
  run(1, shape, totals.data(), used);
  run(2, {shape.rows, used, 1, used}, totals.data(), 1);
  run(3, shape, totals.data(), used);
}

}  // namespace dlprim
