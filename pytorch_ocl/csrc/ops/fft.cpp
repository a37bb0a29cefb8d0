// SPDX-License-Identifier: MIT
#include <dlprim/primitives/fft.hpp>

#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/SpectralOpsUtils.h>
#include <ATen/ops/empty.h>

#include <cmath>

#include "generated/functions/fft.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

using at::native::fft_norm_mode;
using dlprim::FftDirection;

at::DimVector wrapped(const at::Tensor& self, at::IntArrayRef dim) {
  at::DimVector dims(dim);
  at::maybe_wrap_dims(dims, self.dim());
  return dims;
}

double scale_of(int64_t normalization, at::IntArrayRef sizes, at::IntArrayRef dims) {
  double numbers = 1;
  for (const int64_t d : dims) numbers *= double(sizes[d]);
  switch (fft_norm_mode(normalization)) {
    case fft_norm_mode::none: return 1;
    case fft_norm_mode::by_root_n: return 1 / std::sqrt(numbers);
    case fft_norm_mode::by_n: return 1 / numbers;
  }
  TORCH_CHECK(false, "Invalid FFT normalization mode: ", normalization);
}

// `sizes`: of the signal, whose real side has them.
void transform(const char* op, const at::Tensor& out, const at::Tensor& self, at::IntArrayRef dims,
               FftDirection direction, int64_t normalization, at::IntArrayRef sizes) {
  if (self.scalar_type() == at::kComplexHalf || out.scalar_type() == at::kComplexHalf) {
    const auto wide = [](const at::Tensor& x) { return x.is_complex() ? at::kComplexFloat : at::kFloat; };
    const at::Tensor result = at::empty(out.sizes(), out.options().dtype(wide(out)));
    transform(op, result, self.to(wide(self)), dims, direction, normalization, sizes);
    out.copy_(result);
    return;
  }
  const std::vector<int> places(dims.begin(), dims.end());
  dlprim::fft(current_queue(), view_of(out, op), view_of(self, op), places, direction,
              scale_of(normalization, sizes, dims));
}

// The result's sizes of a transform of real numbers.
at::DimVector complex_sizes(const at::Tensor& self, at::IntArrayRef dims, bool onesided) {
  at::DimVector sizes(self.sizes());
  if (onesided) sizes[dims.back()] = at::native::infer_ft_real_to_complex_onesided_size(sizes[dims.back()]);
  return sizes;
}

// Where a result for `out` may be written at once: `out` itself, or memory that is to be copied to it.
at::Tensor writable(const at::Tensor& self, const at::Tensor& out, at::IntArrayRef sizes, at::ScalarType type) {
  at::native::resize_output(out, sizes);
  if (out.scalar_type() == type && !out.is_alias_of(self)) return out;
  return at::empty(sizes, self.options().dtype(type));
}

}  // namespace

namespace ops {

at::Tensor& _fft_r2c_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided,
                         at::Tensor& out) {
  TORCH_CHECK(self.is_floating_point(), "Expected a floating point tensor, but got ", self.scalar_type());
  TORCH_CHECK(!dim.empty(), "Expected at least one dimension to transform real numbers along");
  const at::DimVector dims = wrapped(self, dim), sizes = complex_sizes(self, dims, onesided);
  const at::Tensor result = writable(self, out, sizes, at::toComplexType(self.scalar_type()));
  transform("_fft_r2c", result, self, dims, FftDirection::forward, normalization, self.sizes());
  if (!result.is_same(out)) out.copy_(result);
  return out;
}

at::Tensor _fft_r2c(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided) {
  TORCH_CHECK(self.is_floating_point(), "Expected a floating point tensor, but got ", self.scalar_type());
  at::Tensor out = at::empty({0}, self.options().dtype(at::toComplexType(self.scalar_type())));
  return _fft_r2c_out(self, dim, normalization, onesided, out);
}

at::Tensor& _fft_c2r_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_dim_size,
                         at::Tensor& out) {
  TORCH_CHECK(self.is_complex(), "Expected a complex tensor, but got ", self.scalar_type());
  TORCH_CHECK(!dim.empty(), "Expected at least one dimension to transform complex numbers along");
  TORCH_CHECK(last_dim_size >= 1, "Invalid number of data points (", last_dim_size, ") specified");
  const at::DimVector dims = wrapped(self, dim);
  at::DimVector sizes(self.sizes());
  sizes[dims.back()] = last_dim_size;
  const int64_t bins = at::native::infer_ft_real_to_complex_onesided_size(last_dim_size);
  TORCH_CHECK(self.size(dims.back()) >= bins, "Expected ", bins, " complex numbers for a real signal of ",
              last_dim_size, ", but got ", self.size(dims.back()));
  const at::Tensor result = writable(self, out, sizes, at::toRealValueType(self.scalar_type()));
  transform("_fft_c2r", result, self.narrow(dims.back(), 0, bins), dims, FftDirection::inverse, normalization, sizes);
  if (!result.is_same(out)) out.copy_(result);
  return out;
}

at::Tensor _fft_c2r(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_dim_size) {
  TORCH_CHECK(self.is_complex(), "Expected a complex tensor, but got ", self.scalar_type());
  at::Tensor out = at::empty({0}, self.options().dtype(at::toRealValueType(self.scalar_type())));
  return _fft_c2r_out(self, dim, normalization, last_dim_size, out);
}

at::Tensor& _fft_c2c_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward,
                         at::Tensor& out) {
  TORCH_CHECK(self.is_complex(), "Expected a complex tensor, but got ", self.scalar_type());
  const at::Tensor result = writable(self, out, self.sizes(), self.scalar_type());
  if (dim.empty()) return out.copy_(self);
  transform("_fft_c2c", result, self, wrapped(self, dim), forward ? FftDirection::forward : FftDirection::inverse,
            normalization, self.sizes());
  if (!result.is_same(out)) out.copy_(result);
  return out;
}

at::Tensor _fft_c2c(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward) {
  TORCH_CHECK(self.is_complex(), "Expected a complex tensor, but got ", self.scalar_type());
  at::Tensor out = at::empty({0}, self.options());
  return _fft_c2c_out(self, dim, normalization, forward, out);
}

}  // namespace ops

}  // namespace pytorch_ocl
