// SPDX-License-Identifier: MIT
#include <dlprim/primitives/concat.hpp>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/foreach.hpp>
#include <dlprim/primitives/indexing.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

#include "permuted.hpp"
#include "words.hpp"

namespace dlprim {

namespace {

constexpr int batch = 8;  // inputs of a launch
constexpr std::size_t work_group = 256;
constexpr std::int64_t limit = std::int64_t(1) << 31;
constexpr std::size_t small = 8192;  // bytes of an input that CPUs copy by themselves

struct Key {
  std::uint8_t unit, inputs;
};

// The layout of struct Parameters in concat.cl for a full batch.
struct Parameters {
  Divider columns;
  std::uint32_t start[batch], width[batch], row_stride, count;
};

void check(const TensorView& out, std::span<const TensorView> inputs, int dim) {
  std::int64_t total = 0;
  for (const TensorView& in : inputs) {
    bool fits = in.dims == out.dims && dim >= 0 && dim < out.dims;
    for (int d = 0; fits && d < out.dims; d++) fits = d == dim || in.sizes[d] == out.sizes[d];
    if (!fits)
      throw ValidationError("[concat] expected tensors that agree with the result except along dimension " +
                            std::to_string(dim));
    total += in.sizes[dim];
  }
  if (total != out.sizes[dim])
    throw ValidationError("[concat] expected " + std::to_string(out.sizes[dim]) + " slices along dimension " +
                          std::to_string(dim) + ", got " + std::to_string(total));
}

// Bytes that all rows, starts and addresses are multiples of: what one work-item moves.
int unit_of(const TensorView& out, std::span<const TensorView> inputs, std::int64_t inner) {
  const std::int64_t element = std::int64_t(size_of(out.dtype));
  std::int64_t unit = 16;
  auto narrow = [&](std::int64_t bytes) {
    while (unit > element && bytes % unit != 0) unit /= 2;
  };
  narrow(std::int64_t(out.data.offset));
  for (const TensorView& in : inputs) {
    narrow(std::int64_t(in.data.offset));
    narrow(in.numel() / inner * element);
  }
  return int(unit);
}

// Joins a batch of dense inputs from column `first` (in units) of rows `row` units long.
void join(Queue& queue, const TensorView& out, std::span<const TensorView> inputs, std::int64_t rows, int unit,
          std::int64_t first, std::int64_t row) {
  const Key key{std::uint8_t(unit), batch};
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("concat.cl", "concat");
    return source.define("UNIT", word_type(std::size_t(unit))).define("INPUTS", batch);
  });
  Parameters p{};
  BufferRef data[batch];
  std::uint32_t columns = 0;
  for (int k = 0; k < batch; k++) {
    const bool used = std::size_t(k) < inputs.size();
    p.start[k] = used ? columns : ~std::uint32_t(0);
    data[k] = inputs[used ? std::size_t(k) : 0].data;
    if (used)
      p.width[k] = std::uint32_t(inputs[std::size_t(k)].numel() / rows * std::int64_t(size_of(out.dtype)) / unit);
    columns += p.width[k];
  }
  if (columns == 0) return;
  p.columns = Divider(columns), p.row_stride = std::uint32_t(row), p.count = std::uint32_t(rows) * columns;
  BufferRef to = out.data;
  to.offset += std::size_t(first * unit);
  launch(queue, kernel, NDRange(p.count, work_group), Traffic{2 * std::uint64_t(p.count) * std::uint64_t(unit)}, to, p,
         data[0], data[1], data[2], data[3], data[4], data[5], data[6], data[7]);
}

// Joins many dense inputs end to end: one list of copies.
void join_ends(Queue& queue, const TensorView& out, std::span<const TensorView> inputs, int unit) {
  const DataType type = unit == 1   ? DataType::int8
                        : unit == 2 ? DataType::int16
                        : unit == 4 ? DataType::int32
                                    : DataType::int64;
  std::vector<std::int64_t> sizes;
  std::vector<BufferRef> from, to;
  BufferRef end = out.data;
  for (const TensorView& in : inputs) {
    const std::size_t bytes = std::size_t(in.numel()) * size_of(in.dtype);
    sizes.push_back(std::int64_t(bytes / size_of(type)));
    from.push_back(in.data), to.push_back(end);
    end.offset += bytes;
  }
  const ForeachList lists[] = {{from, type, ForeachMode::read}, {to, type, ForeachMode::write}};
  static const ForeachCode code("concat", "x1 = x0;");
  foreach(queue, code, type, sizes, lists);
}

}  // namespace

void concat(Queue& queue, const TensorView& out, std::span<const TensorView> inputs, int dim) {
  check(out, inputs, dim);
  if (out.numel() == 0) return;
  std::vector<int> order(std::size_t(out.dims));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return out.strides[a] > out.strides[b]; });
  const TensorView to = permuted(out, order);
  std::vector<TensorView> dense;
  dense.reserve(inputs.size());
  // Copies of CPUs move whole rows; the kernel that joins saves launches.
  const std::size_t bytes = std::size_t(out.numel()) * size_of(out.dtype);
  const bool end_to_end = !order.empty() && order[0] == dim;  // many are one list of copies
  const bool join_pays =
      !queue.device().info().cpu || bytes <= small * inputs.size() || (end_to_end && inputs.size() > batch);
  bool all_dense = join_pays && to.is_contiguous() && out.numel() < limit;
  for (const TensorView& in : inputs) {
    if (in.numel() == 0) continue;
    dense.push_back(permuted(in, order));
    all_dense = all_dense && in.dtype == out.dtype && dense.back().is_contiguous();
  }
  if (!all_dense) {
    std::int64_t start = 0;
    for (const TensorView& in : inputs) {
      if (in.numel() > 0) copy(queue, out.narrowed(dim, start, in.sizes[dim]), in);
      start += in.sizes[dim];
    }
    return;
  }
  std::int64_t rows = 1;
  for (int d = 0; order[std::size_t(d)] != dim; d++) rows *= to.sizes[d];
  const int unit = unit_of(out, dense, rows);
  if (rows == 1 && dense.size() > batch) return join_ends(queue, out, dense, unit);
  const std::int64_t element = std::int64_t(size_of(out.dtype)), row = out.numel() / rows * element / unit;
  std::int64_t first = 0;
  for (std::size_t k = 0; k < dense.size(); k += batch) {
    const auto some = std::span<const TensorView>(dense).subspan(k, std::min<std::size_t>(batch, dense.size() - k));
    join(queue, out, some, rows, unit, first, row);
    for (const TensorView& in : some) first += in.numel() / rows * element / unit;
  }
}

}  // namespace dlprim
