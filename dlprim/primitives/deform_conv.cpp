// SPDX-License-Identifier: MIT
#include <dlprim/primitives/deform_conv.hpp>
#include <dlprim/runtime/launch.hpp>

#include "narrow.hpp"

namespace dlprim {

namespace {

// The struct of deform_conv.cl.
struct Parameters {
  cl_long count;
  cl_int channels, groups, in[2], out[2], kernel[2], stride[2], pad[2], dilation[2];
};

enum Kind : std::uint8_t { gather, scatter, slopes };
constexpr const char* names[] = {"gather", "scatter", "slopes"};

struct Key {
  DataType type;
  Kind kind;
  std::uint8_t masked;
};

DataType gradient_type(DataType type) { return type == DataType::float64 ? type : DataType::float32; }

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("deform_conv.cl", names[key.kind]);
    source.define("T", tag(key.type));
    if (key.masked) source.define("MASKED");
    if (key.kind != scatter) return source;
    const DataType gradient = gradient_type(key.type);
    source.define("G", tag(gradient)).define("G_BYTES", std::int64_t(size_of(gradient)));
    if (queue.device().info().int64_atomics) source.define("INT64_ATOMICS");
    return source;
  });
}

Parameters parameters(const DeformedImage& image, const TensorView& columns, const Deformation& how) {
  const TensorView &in = image.in, &shifts = image.shifts, &mask = image.mask;
  const char* op = "deformed_columns";
  const std::int64_t taps = how.kernel[0] * how.kernel[1];
  bool good = is_floating(in.dtype) && in.dims == 4 && shifts.dims == 4 && columns.dims == 3 && taps > 0 &&
              shifts.dtype == in.dtype && columns.dtype == in.dtype && in.is_contiguous() && shifts.is_contiguous() &&
              columns.is_contiguous() && shifts.sizes[0] == in.sizes[0] && shifts.sizes[1] > 0 &&
              shifts.sizes[1] % (2 * taps) == 0 && columns.sizes[0] == in.sizes[0] &&
              columns.sizes[1] == in.sizes[1] * taps && columns.sizes[2] == shifts.sizes[2] * shifts.sizes[3];
  const std::int64_t groups = good ? shifts.sizes[1] / (2 * taps) : 1;
  good = good && in.sizes[1] % groups == 0;
  if (good && mask.defined())
    good = mask.dtype == in.dtype && mask.is_contiguous() && mask.dims == 4 && mask.sizes[0] == in.sizes[0] &&
           mask.sizes[1] == groups * taps && mask.sizes[2] == shifts.sizes[2] && mask.sizes[3] == shifts.sizes[3];
  if (!good)
    throw ValidationError(
        "[deformed_columns] expected an image [N, C, H, W], shifts [N, groups * kh * kw * 2, oh, ow], "
        "a mask [N, groups * kh * kw, oh, ow] and columns [N, C * kh * kw, oh * ow], contiguous and "
        "of one floating dtype, where groups divides C");
  Parameters p{};
  p.channels = narrow(op, "channels", in.sizes[1]), p.groups = narrow(op, "groups", groups);
  for (int d = 0; d < 2; d++) {
    p.in[d] = narrow(op, "a size", in.sizes[2 + d]), p.out[d] = narrow(op, "a size", shifts.sizes[2 + d]);
    p.kernel[d] = narrow(op, "a kernel size", how.kernel[d]), p.stride[d] = narrow(op, "a stride", how.stride[d]);
    p.pad[d] = narrow(op, "a padding", how.pad[d]), p.dilation[d] = narrow(op, "a dilation", how.dilation[d]);
  }
  return p;
}

template <class... Buffers>
void run(Queue& queue, const Key& key, Parameters p, std::int64_t count, const Buffers&... buffers) {
  p.count = count;
  if (count > 0) launch(queue, kernel_for(queue, key), NDRange(std::size_t(count), 64), buffers..., p);
}

}  // namespace

void deformed_columns(Queue& queue, const DeformedImage& image, const TensorView& columns, const Deformation& how) {
  const Parameters p = parameters(image, columns, how);
  run(queue, {image.in.dtype, gather, image.mask.defined()}, p, columns.numel(), image.in.data, image.shifts.data,
      image.mask.data, columns.data);
}

void deformed_columns_backward(Queue& queue, const TensorView& grad_columns, const DeformedImage& image,
                               const TensorView& grad_in, const TensorView& grad_shifts, const TensorView& grad_mask,
                               const Deformation& how) {
  const Parameters p = parameters(image, grad_columns, how);
  const DataType type = image.in.dtype;
  if (grad_in.dtype != gradient_type(type) || grad_in.numel() != image.in.numel() || !grad_in.is_contiguous() ||
      grad_shifts.dtype != type || grad_shifts.numel() != image.shifts.numel() || !grad_shifts.is_contiguous() ||
      (image.mask.defined() &&
       (grad_mask.dtype != type || grad_mask.numel() != image.mask.numel() || !grad_mask.is_contiguous())))
    throw ValidationError(
        std::string("[deformed_columns_backward] expected contiguous gradients like the shifts and the "
                    "mask, and the image's in ") +
        name(gradient_type(type)));
  const std::uint8_t masked = image.mask.defined();
  run(queue, {type, scatter, masked}, p, grad_columns.numel(), grad_columns.data, image.shifts.data, image.mask.data,
      grad_in.data);
  run(queue, {type, slopes, masked}, p, image.shifts.numel() / 2, grad_columns.data, image.in.data, image.shifts.data,
      image.mask.data, grad_shifts.data, grad_mask.data);
}

}  // namespace dlprim
