// SPDX-License-Identifier: MIT
#include <dlprim/primitives/roi.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>

namespace dlprim {

namespace {

// The struct of roi.cl.
struct Parameters {
  cl_long count;
  cl_int batch, channels, in[2], out[2], sampling, aligned;
  cl_float scale;
};

struct Key {
  DataType type;
  RegionPooling::Kind kind;
  std::uint8_t backward;
};

DataType gradient_type(DataType type) { return type == DataType::float64 ? type : DataType::float32; }

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("roi.cl", "regions");
    source.define("T", tag(key.type));
    if (key.kind == RegionPooling::pool) source.define("POOL");
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
  const bool pool = how.kind == RegionPooling::pool;
  constexpr std::int64_t limit = std::int64_t(1) << 30;
  const bool good = is_floating(in.dtype) && in.dims == 4 && boxes.dims == 2 && out.dims == 4 &&
                    boxes.dtype == in.dtype && out.dtype == in.dtype && boxes.sizes[1] == (pool ? 5 : 4) &&
                    out.sizes[0] == boxes.sizes[0] && out.sizes[1] == in.sizes[1] && in.is_contiguous() &&
                    boxes.is_contiguous() && out.is_contiguous() &&
                    std::ranges::all_of(in.shape(), [](auto size) { return size > 0 && size < limit; }) &&
                    in.sizes[2] * in.sizes[3] < limit &&
                    (pool || (batches.dtype == DataType::int64 && batches.dims == 1 &&
                              batches.sizes[0] == boxes.sizes[0] && batches.is_contiguous()));
  if (!good)
    throw ValidationError("[region_pool] expected images [N, C, H, W], boxes [regions, 4] with int64 numbers of images "
                          "[regions] (pool: boxes [regions, 5]) and [regions, C, height, width], contiguous and of one "
                          "floating dtype");
  if (how.sampling < 0 || how.sampling > 1024)
    throw ValidationError("[region_pool] expected 0 to 1024 samples, got " + std::to_string(how.sampling));
  return {out.numel(), cl_int(in.sizes[0]), cl_int(in.sizes[1]), {cl_int(in.sizes[2]), cl_int(in.sizes[3])},
          {cl_int(out.sizes[2]), cl_int(out.sizes[3])}, how.sampling, how.aligned, how.scale};
}

template <class... Buffers>
void run(Queue& queue, const Key& key, const Parameters& p, const Buffers&... buffers) {
  QueueStatus& status = queue.status();
  const int code = status.arm("region_pool: image %lld does not exist");
  launch(queue, kernel_for(queue, key), NDRange(std::size_t(p.count), 64), buffers..., status.buffer(), cl_int(code),
         p);
}

}  // namespace

void region_pool(Queue& queue, const TensorView& in, const TensorView& boxes, const TensorView& batches,
                 const TensorView& out, const RegionPooling& how) {
  const Parameters p = parameters(in, boxes, batches, out, how);
  if (p.count) run(queue, {in.dtype, how.kind, 0}, p, in.data, boxes.data, batches.data, out.data);
}

void region_pool_backward(Queue& queue, const TensorView& grad_out, const TensorView& in, const TensorView& boxes,
                          const TensorView& batches, const TensorView& grad_in, const RegionPooling& how) {
  const Parameters p = parameters(in, boxes, batches, grad_out, how);
  if (grad_in.dtype != gradient_type(in.dtype) || grad_in.numel() != in.numel() || !grad_in.is_contiguous())
    throw ValidationError(
        std::string("[region_pool_backward] expected a contiguous gradient of the images' shape in ") +
        name(gradient_type(in.dtype)));
  if (p.count)
    run(queue, {in.dtype, how.kind, 1}, p, in.data, boxes.data, batches.data, grad_out.data, grad_in.data);
}

}  // namespace dlprim
