// SPDX-License-Identifier: MIT
#include <dlprim/primitives/upsample.hpp>
#include <dlprim/runtime/launch.hpp>

#include "planes.hpp"

namespace dlprim {

namespace {

constexpr const char* modes[] = {"nearest", "nearest_exact", "linear", "cubic", "lanczos"};

// The struct of upsample.cl.
template <class Real>
struct Parameters {
  cl_long small_stride[5], large_stride[5];
  cl_int in[3], out[3];
  Real scale[3];
};

struct Key {
  DataType type;
  ResampleMode mode;
  std::uint8_t antialias, align_corners, axes, backward, channels_last, dense, planes;
};

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("upsample.cl", "resample");
    source.define("T", tag(key.type)).define("MODE", modes[int(key.mode)]).define("AXES", key.axes);
    source.define("PLANES", key.planes);
    source.define("REAL", key.type == DataType::float64 ? "double" : "float");
    if (key.antialias) source.define("ANTIALIAS");
    if (key.align_corners) source.define("ALIGN_CORNERS");
    if (key.backward) source.define("BACKWARD");
    if (key.channels_last) source.define("CHANNELS_LAST");
    if (key.dense) source.define("DENSE");
    if (!is_floating(key.type) && key.mode >= ResampleMode::linear) source.define("INTEGER");
    return source;
  });
}

// Inputs an output, as PyTorch defines it.
double scale_of(const Resampling& how, int axis, cl_int in, cl_int out) {
  const bool interpolates = how.mode >= ResampleMode::linear;
  if (interpolates && how.align_corners) return out > 1 ? double(in - 1) / double(out - 1) : 0;
  return how.scale[std::size_t(axis)] > 0 ? how.scale[std::size_t(axis)] : double(in) / double(out);
}

// `small` and `large` are input and output of the forward direction.
template <class Real>
void run(Queue& queue, const TensorView& from, const TensorView& to, const TensorView& small, const TensorView& large,
         const Resampling& how, bool backward) {
  const int axes = small.dims - 2;
  Parameters<Real> p{};
  for (int d = 0; d < 2; d++) p.small_stride[d] = small.strides[d], p.large_stride[d] = large.strides[d];
  for (int axis = 0; axis < 3; axis++) {
    const bool used = axis >= 3 - axes;
    p.in[axis] = used ? narrow("resample", "a size", small.size(axis - 3)) : 1;
    p.out[axis] = used ? narrow("resample", "a size", large.size(axis - 3)) : 1;
    p.small_stride[2 + axis] = used ? small.stride(axis - 3) : 0;
    p.large_stride[2 + axis] = used ? large.stride(axis - 3) : 0;
    p.scale[axis] = Real(used ? scale_of(how, axis, p.in[axis], p.out[axis]) : 1);
  }
  const bool antialias = how.mode == ResampleMode::lanczos || (how.antialias && how.mode >= ResampleMode::linear);
  const bool channels_last = !to.is_contiguous() && to.is_channels_last();
  const bool corners = how.align_corners && how.mode >= ResampleMode::linear;
  Planes planes("resample", to, {p.small_stride, p.large_stride});
  const int channels = planes.place(queue.device().info(), backward ? p.in : p.out, channels_last, 4);
  const bool dense = Planes::dense(channels_last, {p.small_stride, p.large_stride});
  const Key key{from.dtype,
                how.mode,
                antialias,
                corners,
                std::uint8_t(axes),
                backward,
                channels_last,
                dense,
                std::uint8_t(channels)};
  launch(queue, kernel_for(queue, key), planes.range(),
         Traffic{std::uint64_t(from.numel() + to.numel()) * size_of(from.dtype)}, from.data, to.data, p, planes);
}

void check_and_run(Queue& queue, const TensorView& from, const TensorView& to, const TensorView& small,
                   const TensorView& large, const Resampling& how, bool backward) {
  if (from.dims != to.dims || from.dims < 3 || from.dims > 5 || from.dtype != to.dtype ||
      from.sizes[0] != to.sizes[0] || from.sizes[1] != to.sizes[1])
    throw ValidationError("[resample] expected tensors of 3 to 5 dims with equal dtype, batch and channels, got " +
                          std::to_string(from.dims) + " dims of " + name(from.dtype) + " and " +
                          std::to_string(to.dims) + " of " + name(to.dtype));
  if (is_complex(from.dtype)) throw ValidationError("[resample] expected a real dtype");
  if (from.dtype == DataType::float64) run<cl_double>(queue, from, to, small, large, how, backward);
  else run<cl_float>(queue, from, to, small, large, how, backward);
}

}  // namespace

void resample(Queue& queue, const TensorView& in, const TensorView& out, const Resampling& how) {
  check_and_run(queue, in, out, in, out, how, false);
}

void resample_backward(Queue& queue, const TensorView& grad_out, const TensorView& grad_in, const Resampling& how) {
  check_and_run(queue, grad_out, grad_in, grad_in, grad_out, how, true);
}

}  // namespace dlprim
