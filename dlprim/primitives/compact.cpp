// SPDX-License-Identifier: MIT
#include <dlprim/primitives/compact.hpp>
#include <dlprim/primitives/scan.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>
#include <cstddef>

#include "check.hpp"
#include "words.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t items = 16;

std::size_t group_of(const Queue& queue) {
  const DeviceInfo& info = queue.device().info();
  return fitting_group(info, info.cpu ? 128 : 256);
}

std::int64_t chunk_of(const Queue& queue) { return std::int64_t(group_of(queue)) * items; }

enum Kind : std::uint8_t { count_chunks, coordinates_kind, select_kind, scatter_kind, ranks_kind, placed_kind };
constexpr const char* sections[] = {"", "COORDINATES", "SELECT", "SCATTER", "RANKS", "PLACED"};

struct Key {
  Kind kind;
  DataType mask;
  std::uint8_t unit, dims, bytes;
};

// The layout of struct Parameters in compact.cl, of which kernels take the sizes that they need.
struct Parameters {
  std::int64_t row_stride, column_stride;
  std::uint64_t n;
  std::int64_t limit;
  std::int32_t code, unused;
  std::int64_t sizes[max_dims];
};

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("compact.cl", key.kind == count_chunks ? "count_chunks" : "emit");
    source.define("T", tag(key.mask)).define("GROUP", std::int64_t(group_of(queue))).define("ITEMS", items);
    source.define("BYTES", key.bytes);
    source.define("IS_SET(v)", is_complex(key.mask) ? "((v).x != 0 || (v).y != 0)" : "((v) != 0)");
    if (key.kind > count_chunks) source.define(sections[key.kind]);
    if (key.kind == coordinates_kind) source.define("DIMS", key.dims);
    return source.define("UNIT", word_type(std::size_t(key.unit)));
  });
}

// Whether the kernels can read the mask by 16 elements.
std::uint8_t in_bytes(const TensorView& mask) { return size_of(mask.dtype) == 1 && mask.data.offset % 16 == 0; }

}  // namespace

Compaction::Compaction(Queue& queue, const TensorView& mask)
    : queue_(queue), mask_(mask), chunks_((mask.numel() + chunk_of(queue) - 1) / chunk_of(queue)) {
  DLPRIM_EXPECT(mask.is_contiguous(), "compact", "a contiguous mask");
  if (chunks_ == 0) return;
  ends_ = Workspace(queue, std::size_t(chunks_) * sizeof(cl_long));
  const std::size_t group = group_of(queue);
  launch(queue, kernel_for(queue, {count_chunks, mask.dtype, 1, 0, in_bytes(mask)}),
         NDRange(std::size_t(chunks_) * group, group), mask.data, ends_.data(), cl_ulong(mask.numel()));
  const TensorView ends(ends_.data(), DataType::int64, {chunks_});
  if (chunks_ > 1) scan(queue, ScanId::sum, ends, ends, 0, {});
}

std::int64_t Compaction::count() {
  if (chunks_ == 0) return 0;
  BufferRef total = ends_.data();
  total.offset += std::size_t(chunks_ - 1) * sizeof(cl_long);
  cl_long result = 0;
  queue_.read(&result, total, sizeof result, true);
  return result;
}

void Compaction::emit(int kind, const TensorView& out, const TensorView& source, std::int64_t limit) {
  if (chunks_ == 0) return;
  Parameters p{};
  std::copy_n(mask_.sizes.begin(), std::size_t(mask_.dims), p.sizes);
  p.n = std::uint64_t(mask_.numel()), p.limit = limit;
  if (kind == coordinates_kind) p.row_stride = out.strides[0], p.column_stride = out.strides[1];
  if (kind == scatter_kind)
    p.code = queue_.status().arm("masked_scatter: expected self and source to have the same number of elements where "
                                 "the mask is true: source has fewer");
  const int dims = kind == coordinates_kind ? mask_.dims : 0;
  const Key key{Kind(kind), mask_.dtype, std::uint8_t(size_of(out.dtype)), std::uint8_t(dims), in_bytes(mask_)};
  const auto parameters = std::as_bytes(std::span(&p, 1));
  const std::size_t group = group_of(queue_);
  launch(queue_, kernel_for(queue_, key), NDRange(std::size_t(chunks_) * group, group), mask_.data, ends_.data(),
         out.data, source.data, queue_.status().buffer(),
         parameters.first(offsetof(Parameters, sizes) + std::size_t(dims) * sizeof(std::int64_t)));
}

void Compaction::coordinates(const TensorView& indices, std::int64_t limit) {
  DLPRIM_EXPECT(indices.dtype == DataType::int64 && indices.dims == 2 && indices.sizes[1] == mask_.dims, "compact",
                "int64 indices of shape [limit, dims]");
  if (limit > 0 && mask_.dims > 0) emit(coordinates_kind, indices, mask_, limit);
}

void Compaction::select(const TensorView& out, const TensorView& source) {
  DLPRIM_EXPECT(
      out.is_contiguous() && source.is_contiguous() && out.dtype == source.dtype && source.numel() == mask_.numel(),
      "compact", "contiguous tensors of one dtype, the source of the mask's size");
  emit(select_kind, out, source, out.numel());
}

void Compaction::scatter(const TensorView& destination, const TensorView& source) {
  DLPRIM_EXPECT(destination.is_contiguous() && source.is_contiguous() && destination.dtype == source.dtype &&
                    destination.numel() == mask_.numel(),
                "compact", "contiguous tensors of one dtype, the destination of the mask's size");
  emit(scatter_kind, destination, source, source.numel());
}

void Compaction::ranks(const TensorView& result) {
  DLPRIM_EXPECT(result.is_contiguous() && result.dtype == DataType::int64 && result.numel() == mask_.numel(), "compact",
                "contiguous int64 ranks of the mask's size");
  emit(ranks_kind, result, mask_, 0);
}

void Compaction::runs(const TensorView& result, const TensorView& places) {
  for (const TensorView* view : {&result, &places})
    DLPRIM_EXPECT(
        !view->defined() || (view->is_contiguous() && view->dtype == DataType::int64 && view->numel() == mask_.numel()),
        "compact", "contiguous int64 numbers and positions of the mask's size");
  emit(places.defined() ? placed_kind : ranks_kind, result, places.defined() ? places : mask_, 1);
}

}  // namespace dlprim
