// SPDX-License-Identifier: MIT
#include <dlprim/primitives/compact.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>

namespace dlprim {

namespace {

constexpr std::int64_t group = 128, chunk = 2048;

enum Kind : std::uint8_t { count_chunks, scan_chunks, coordinates_kind, select_kind, scatter_kind, ranks_kind };
constexpr const char* sections[] = {"", "", "COORDINATES", "SELECT", "SCATTER", "RANKS"};

struct Key {
  Kind kind;
  DataType mask;
  std::uint8_t unit, dims;
};

// The layout of struct Parameters in compact.cl.
struct Parameters {
  std::int64_t sizes[16];
  std::int64_t row_stride, column_stride;
  std::uint64_t n;
  std::int64_t limit;
  std::int32_t code, unused;
};

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    const char* name = key.kind == count_chunks ? "count_chunks" : key.kind == scan_chunks ? "scan_chunks" : "emit";
    KernelSource source("compact.cl", name);
    source.define("T", tag(key.mask)).define("GROUP", group).define("CHUNK", chunk);
    source.define("IS_SET(v)", is_complex(key.mask) ? "((v).x != 0 || (v).y != 0)" : "((v) != 0)");
    if (key.kind > scan_chunks) source.define(sections[key.kind]).define("DIMS", key.dims);
    static constexpr const char* units[] = {"uchar", "ushort", "uint", "uint2", "uint4"};
    int log = 0;
    while ((1 << log) < key.unit) log++;
    return source.define("UNIT", units[log]);
  });
}

void expect(bool condition, const char* what) {
  if (!condition) throw ValidationError(std::string("[compact] expected ") + what);
}

}  // namespace

Compaction::Compaction(Queue& queue, const TensorView& mask)
    : queue_(queue), mask_(mask), chunks_((mask.numel() + chunk - 1) / chunk) {
  expect(mask.is_contiguous(), "a contiguous mask");
  starts_ = Workspace(queue, std::size_t(chunks_ + 1) * sizeof(cl_long));
  const NDRange range(std::size_t(chunks_ * group), std::size_t(group));
  launch(queue, kernel_for(queue, {count_chunks, mask.dtype, 1, 0}), range, mask.data, starts_.data(),
         cl_ulong(mask.numel()));
  launch(queue, kernel_for(queue, {scan_chunks, mask.dtype, 1, 0}), NDRange(std::size_t(group), std::size_t(group)),
         starts_.data(), cl_ulong(chunks_));
}

std::int64_t Compaction::count() {
  BufferRef total = starts_.data();
  total.offset += std::size_t(chunks_) * sizeof(cl_long);
  cl_long result = 0;
  queue_.read(&result, total, sizeof result, true);
  return result;
}

void Compaction::emit(int kind, const TensorView& out, const TensorView& source, std::int64_t limit) {
  Parameters p{};
  std::copy_n(mask_.sizes.begin(), std::size_t(mask_.dims), p.sizes);
  p.n = std::uint64_t(mask_.numel()), p.limit = limit;
  if (kind == coordinates_kind) p.row_stride = out.strides[0], p.column_stride = out.strides[1];
  if (kind == scatter_kind)
    p.code = queue_.device().status().arm(queue_, "masked_scatter: expected self and source to have the same number "
                                                  "of elements where the mask is true: source has fewer");
  const Key key{Kind(kind), mask_.dtype, std::uint8_t(size_of(out.dtype)), std::uint8_t(mask_.dims)};
  launch(queue_, kernel_for(queue_, key), NDRange(std::size_t(chunks_ * group), std::size_t(group)), mask_.data,
         starts_.data(), out.data, source.data, queue_.device().status().buffer(), p);
}

void Compaction::coordinates(const TensorView& indices, std::int64_t limit) {
  expect(indices.dtype == DataType::int64 && indices.dims == 2 && indices.sizes[1] == mask_.dims,
         "int64 indices of shape [limit, dims]");
  if (limit > 0 && mask_.dims > 0) emit(coordinates_kind, indices, mask_, limit);
}

void Compaction::select(const TensorView& out, const TensorView& source) {
  expect(out.is_contiguous() && source.is_contiguous() && out.dtype == source.dtype && source.numel() == mask_.numel(),
         "contiguous tensors of one dtype, the source of the mask's size");
  emit(select_kind, out, source, out.numel());
}

void Compaction::scatter(const TensorView& destination, const TensorView& source) {
  expect(destination.is_contiguous() && source.is_contiguous() && destination.dtype == source.dtype &&
             destination.numel() == mask_.numel(),
         "contiguous tensors of one dtype, the destination of the mask's size");
  emit(scatter_kind, destination, source, source.numel());
}

void Compaction::ranks(const TensorView& result) {
  expect(result.is_contiguous() && result.dtype == DataType::int64 && result.numel() == mask_.numel(),
         "contiguous int64 ranks of the mask's size");
  emit(ranks_kind, result, mask_, 0);
}

}  // namespace dlprim
