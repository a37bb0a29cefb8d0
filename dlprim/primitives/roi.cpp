// SPDX-License-Identifier: MIT
#include <dlprim/primitives/roi.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>

#include "narrow.hpp"
#include "two_floats.hpp"

namespace dlprim {

namespace {

// The struct of roi.cl.
struct Parameters {
  cl_long count;
  TwoFloats scale;
  cl_int batch, in_channels, channels, in[2], out[2], sampling, aligned;
};

struct Key {
  DataType type;
  RegionPooling::Kind kind;
  std::uint8_t backward, numbered, places;
};

bool is_positional(const RegionPooling& how) { return how.kind >= RegionPooling::position_mean; }

DataType gradient_type(DataType type) { return type == DataType::float64 ? type : DataType::float32; }

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("roi.cl", "regions");
    source.define("T", tag(key.type));
    if (key.kind == RegionPooling::pool || key.kind == RegionPooling::position_pool) source.define("POOL");
    if (key.kind >= RegionPooling::position_mean) source.define("POSITION");
    if (key.numbered) source.define("NUMBERED");
    if (key.places) source.define("PLACES");
    if (key.kind == RegionPooling::largest) source.define("LARGEST");
    if (!key.backward) return source;
    const DataType gradient = gradient_type(key.type);
    source.define("BACKWARD").define("G", tag(gradient)).define("G_BYTES", std::int64_t(size_of(gradient)));
    if (queue.device().info().int64_atomics) source.define("INT64_ATOMICS");
    return source;
  });
}

Parameters parameters(const TensorView& in, const TensorView& boxes, const TensorView& batches, const TensorView& out,
                      const RegionPooling& how) {
  const bool numbered = boxes.dims == 2 && boxes.sizes[1] == 5;
  const bool may_lack = how.kind == RegionPooling::mean || how.kind == RegionPooling::largest;
  constexpr std::int64_t limit = std::int64_t(1) << 30;
  const bool good = is_floating(in.dtype) && in.dims == 4 && boxes.dims == 2 && out.dims == 4 &&
                    boxes.dtype == in.dtype && out.dtype == in.dtype && out.sizes[0] == boxes.sizes[0] &&
                    out.sizes[1] * (is_positional(how) ? out.sizes[2] * out.sizes[3] : 1) == in.sizes[1] &&
                    in.is_contiguous() && boxes.is_contiguous() && out.is_contiguous() &&
                    std::ranges::all_of(in.shape(), [](auto size) { return size > 0 && size < limit; }) &&
                    in.sizes[2] * in.sizes[3] < limit &&
                    (numbered || (may_lack && boxes.sizes[1] == 4 && batches.dtype == DataType::int64 &&
                                  batches.dims == 1 && batches.sizes[0] == boxes.sizes[0] && batches.is_contiguous()));
  if (!good)
    throw ValidationError(
        "[region_pool] expected images [N, C, H, W], boxes [regions, 5] (or [regions, 4] with int64 "
        "numbers of images [regions]) and [regions, C, height, width], contiguous and of one floating "
        "dtype");
  if (how.sampling < 0 || how.sampling > 1024)
    throw ValidationError("[region_pool] expected 0 to 1024 samples, got " + std::to_string(how.sampling));
  const char* op = "region_pool";
  return {out.numel(),
          TwoFloats(how.scale),
          cl_int(in.sizes[0]),
          cl_int(in.sizes[1]),
          narrow(op, "channels", out.sizes[1]),
          {cl_int(in.sizes[2]), cl_int(in.sizes[3])},
          {narrow(op, "a height", out.sizes[2]), narrow(op, "a width", out.sizes[3])},
          how.sampling,
          how.aligned || is_positional(how)};
}

template <class... Buffers>
void run(Queue& queue, const Key& key, const char* missing, const Parameters& p, const Buffers&... buffers) {
  QueueStatus& status = queue.status();
  const int code = status.arm(missing);
  launch(queue, kernel_for(queue, key), NDRange(std::size_t(p.count), 64), buffers..., status.buffer(), cl_int(code),
         p);
}

}  // namespace

void region_pool(Queue& queue, const TensorView& in, const TensorView& boxes, const TensorView& batches,
                 const TensorView& out, const RegionPooling& how, const TensorView& places) {
  const Parameters p = parameters(in, boxes, batches, out, how);
  if (places.defined() && (how.kind != RegionPooling::pool || places.dtype != DataType::int32 ||
                           !places.is_contiguous() || places.numel() != out.numel()))
    throw ValidationError("[region_pool] expected contiguous int32 positions of the result's shape, for pool only");
  if (p.count)
    run(queue, {in.dtype, how.kind, 0, boxes.sizes[1] == 5, places.defined()}, how.missing, p, in.data, boxes.data,
        batches.data, out.data, places.data);
}

void region_pool_backward(Queue& queue, const TensorView& grad_out, const TensorView& in, const TensorView& boxes,
                          const TensorView& batches, const TensorView& grad_in, const RegionPooling& how) {
  const Parameters p = parameters(in, boxes, batches, grad_out, how);
  if (grad_in.dtype != gradient_type(in.dtype) || grad_in.numel() != in.numel() || !grad_in.is_contiguous())
    throw ValidationError(
        std::string("[region_pool_backward] expected a contiguous gradient of the images' shape in ") +
        name(gradient_type(in.dtype)));
  if (p.count)
    run(queue, {in.dtype, how.kind, 1, boxes.sizes[1] == 5, 0}, how.missing, p, in.data, boxes.data, batches.data,
        grad_out.data, grad_in.data);
}

}  // namespace dlprim
