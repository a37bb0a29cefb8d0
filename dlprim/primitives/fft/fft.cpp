// SPDX-License-Identifier: MIT
#include <dlprim/primitives/fft.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include "../check.hpp"
#include "line.hpp"

namespace dlprim {

namespace {

using fft_detail::Load;
using fft_detail::Pass;
using fft_detail::Store;

DataType part_of(DataType type) {
  return type == DataType::complex64 ? DataType::float32 : type == DataType::complex128 ? DataType::float64 : type;
}

void validate(const TensorView& y, const TensorView& x, std::span<const int> dims, FftDirection direction) {
  const DataType part = part_of(x.dtype);
  DLPRIM_EXPECT((part == DataType::float32 || part == DataType::float64) && part_of(y.dtype) == part &&
                    (is_complex(x.dtype) || is_complex(y.dtype)),
                "fft", "complex64 with float32, or complex128 with float64, got ", x, " and ", y);
  DLPRIM_EXPECT(!dims.empty() && x.dims == y.dims, "fft", "dims of tensors with equally many, got ", x, " and ", y);
  std::array<bool, max_dims> seen{};
  for (const int d : dims) {
    DLPRIM_EXPECT(d >= 0 && d < x.dims && !seen[std::size_t(d)], "fft", "distinct dims below ", x.dims, ", got ", d);
    seen[std::size_t(d)] = true;
  }
  const int last = dims.back();
  for (int d = 0; d < x.dims; d++) {
    const std::int64_t from = x.sizes[d], to = y.sizes[d], half = std::max(from, to) / 2 + 1;
    const bool halved =
        d == last && (is_complex(x.dtype) ? !is_complex(y.dtype) && from == half : is_complex(y.dtype) && to == half);
    const bool equal = from == to && (d != last || is_complex(y.dtype));
    DLPRIM_EXPECT(halved || equal, "fft", "the sizes of a transform along dim ", last, ", got ", x, " and ", y);
    DLPRIM_EXPECT(std::max(from, to) < (std::int64_t(1) << 31), "fft", "sizes below 2^31, got ", x);
  }
  DLPRIM_EXPECT(is_complex(x.dtype) || direction == FftDirection::forward, "fft",
                "the forward direction for real input, got the inverse one");
  DLPRIM_EXPECT(is_complex(y.dtype) || direction == FftDirection::inverse, "fft",
                "the inverse direction for real output, got the forward one");
}

// Lines of x and y along a dimension, of numbers that both hold as they are.
Pass lines_of(const TensorView& y, const TensorView& x, int dim) {
  Pass pass;
  pass.x = x.data, pass.y = y.data, pass.doubles = part_of(x.dtype) == DataType::float64;
  pass.in_stride = x.strides[dim], pass.out_stride = y.strides[dim];
  pass.length = std::uint32_t(x.sizes[dim]), pass.inputs = std::uint64_t(x.sizes[dim]);
  pass.outputs = std::uint64_t(y.sizes[dim]);
  for (int d = x.dims - 1; d >= 0; d--)
    if (d != dim) pass.add({x.sizes[d], x.strides[d], y.strides[d]});
  return pass;
}

void transform(Queue& queue, const TensorView& y, const TensorView& x, int dim, bool inverse, double scale) {
  Pass pass = lines_of(y, x, dim);
  pass.swap_in = pass.swap_out = inverse, pass.scale = scale;
  const bool to_complex = !is_complex(x.dtype), to_real = !is_complex(y.dtype);
  const std::int64_t length = to_real ? y.sizes[dim] : x.sizes[dim];
  // Real numbers in pairs make half as many complex ones; of short lines on CPUs that costs more than it saves.
  constexpr std::int64_t short_line = 16;
  const bool alone = to_complex && length <= short_line && queue.device().info().cpu && !settings.gpu_forms;
  if ((to_complex || to_real) && length % 2 == 0 && !alone) {
    pass.length = std::uint32_t(length / 2), pass.inputs = pass.outputs = std::uint64_t(length / 2);
    pass.load = to_complex ? Load::pairs : Load::tangled;
    pass.store = to_real ? Store::pairs : y.sizes[dim] == length / 2 + 1 ? Store::untangled : Store::untangled_full;
  } else if (to_complex) {
    pass.load = Load::real;
  } else if (to_real) {
    pass.length = std::uint32_t(length), pass.inputs = std::uint64_t(length);
    pass.load = Load::hermitian, pass.store = Store::real;
  }
  fft_detail::transform_lines(queue, pass);
}

}  // namespace

void fft(Queue& queue, const TensorView& y, const TensorView& x, std::span<const int> dims, FftDirection direction,
         double scale) {
  validate(y, x, dims, direction);
  if (part_of(x.dtype) == DataType::float64 && !queue.device().info().fp64)
    throw NotImplementedError("[fft] " + queue.device().info().name + " has no float64");
  if (y.numel() == 0) return;
  const bool inverse = direction == FftDirection::inverse, to_real = !is_complex(y.dtype);
  const std::size_t count = dims.size();
  if (!to_real || count == 1) {
    transform(queue, y, x, dims[count - 1], inverse, scale);
    for (std::size_t i = count - 1; i-- > 0;) transform(queue, y, y, dims[i], inverse, 1);
    return;
  }
  const Workspace workspace(queue, std::size_t(x.numel()) * size_of(x.dtype));
  const TensorView halves(workspace.data(), x.dtype, x.shape());
  for (std::size_t i = 0; i + 1 < count; i++) transform(queue, halves, i ? halves : x, dims[i], inverse, 1);
  transform(queue, y, halves, dims[count - 1], inverse, scale);
}

}  // namespace dlprim
