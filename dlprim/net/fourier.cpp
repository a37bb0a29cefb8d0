// SPDX-License-Identifier: MIT
#include "fourier.hpp"

#include <dlprim/primitives/fft.hpp>

#include "array.hpp"

namespace dlprim {

namespace {

// Pairs of real numbers as complex ones.
TensorView complex_view(Queue& queue, const Tensor& x) {
  const TensorView pairs = x.view(queue);
  const DataType type = x.dtype() == DataType::float64 ? DataType::complex128 : DataType::complex64;
  return TensorView(pairs.data, type, pairs.shape().first(std::size_t(pairs.dims - 1)));
}

TensorView real_view(Queue& queue, const Tensor& x) {
  const TensorView view = x.view(queue);
  return TensorView(view.data, x.dtype(), view.shape().first(std::size_t(view.dims - 1)));
}

}  // namespace

Fourier Fourier::of(Call& call, const Shape& x) {
  const int rank = x.size();
  if (rank < 2 || x[rank - 1] < 1 || x[rank - 1] > 2) call.fail("expected [..., 1] or [..., 2], got " + x.text());
  Fourier how;
  const auto& attributes = call.attributes<FourierAttributes>();
  how.dim = x.axis(call.has(2) ? call.read_integers(2).at(0) : attributes.axis);
  if (how.dim == rank - 1) call.fail("the last dimension holds real and imaginary part");
  how.inverse = attributes.inverse, how.onesided = attributes.onesided;
  how.length = x[how.dim];
  if (how.inverse && how.onesided) how.length = 2 * (how.length - 1);
  if (call.has(1)) how.length = call.read_integers(1).at(0);
  if (how.length < 1 || how.length >= std::int64_t(1) << 31)
    call.fail("expected a length from 1 to 2^31 - 1, got " + std::to_string(how.length));
  if (how.inverse && how.onesided && x[rank - 1] != 2) call.fail("expected complex numbers, got " + x.text());
  if (how.inverse && how.onesided && x[how.dim] < how.bins())
    call.fail("expected " + std::to_string(how.bins()) + " bins, got " + std::to_string(x[how.dim]));
  return how;
}

Tensor resized(Queue& queue, const Tensor& x, int dim, std::int64_t size) {
  const std::int64_t own = x.shape()[dim];
  if (size <= own) return size == own ? x : narrow(x, dim, 0, size);
  Shape rest = x.shape();
  rest[dim] = size - own;
  const Tensor parts[] = {x, filled(queue, x.dtype(), rest, 0)};
  return concat(queue, parts, dim);
}

Tensor fourier(Queue& queue, const Tensor& given, const Fourier& how, double scale) {
  const DataType type = given.dtype() == DataType::float64 ? DataType::float64 : DataType::float32;
  const int last = given.shape().size() - 1;
  const bool to_real = how.inverse && how.onesided;
  Tensor x = resized(queue, cast(queue, given, type), how.dim, to_real ? how.bins() : how.length);
  if (how.inverse) x = resized(queue, x, last, 2);
  x = contiguous(queue, x);
  const bool from_real = x.shape()[last] == 1;
  Shape shape = x.shape();
  shape[last] = to_real ? 1 : 2, shape[how.dim] = from_real && how.onesided ? how.bins() : how.length;
  Tensor y(queue, type, shape);
  const int dims[] = {how.dim};
  fft(queue, to_real ? real_view(queue, y) : complex_view(queue, y),
      from_real ? real_view(queue, x) : complex_view(queue, x), dims,
      how.inverse ? FftDirection::inverse : FftDirection::forward, scale);
  if (how.onesided && !to_real) y = narrow(y, how.dim, 0, how.bins());
  return cast(queue, contiguous(queue, y), given.dtype());
}

}  // namespace dlprim
