// SPDX-License-Identifier: MIT
#include <dlprim/primitives/embedding.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>
#include <dlprim/runtime/status.hpp>

namespace dlprim {

void embedding_bag(Queue& queue, const EmbeddingBag& bag, BagMode mode, std::int64_t padding) {
  struct Key {
    DataType type, index;
    std::uint8_t mode, weighted, lines;
  };
  const bool fits = is_floating(bag.weight.dtype) && bag.weight.dims == 2 && bag.indices.dtype == bag.offsets.dtype &&
                    bag.out.dtype == bag.weight.dtype && bag.sizes.dtype == bag.indices.dtype &&
                    (mode != BagMode::max || bag.maxima.dtype == bag.indices.dtype);
  if (!fits)
    throw ValidationError("[embedding_bag] expected a floating weight [rows, columns] and indices, offsets and results "
                          "of one integer dtype");
  const DeviceInfo& device = queue.device().info();
  const bool lines = device.cpu && !settings.gpu_forms && mode != BagMode::max;
  const Key key{bag.weight.dtype, bag.indices.dtype, std::uint8_t(mode), std::uint8_t(bag.sample_weights.defined()),
                lines};
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("embedding.cl", "embedding_bag");
    source.define("T", tag(key.type)).define("INDEX", tag(key.index)).define("MODE", std::int64_t(key.mode));
    if (key.lines) source.define("LINES").define("VECTOR", key.type == DataType::float64 ? "double16" : "float16");
    return key.weighted ? source.define("WEIGHTED") : source;
  });
  QueueStatus& status = queue.status();
  const int code = status.arm("embedding_bag: index %lld is out of range");
  const std::int64_t columns = bag.weight.sizes[1], bags = bag.out.sizes[0];
  const std::size_t width = columns >= 64 ? 64 : 8;
  const NDRange range = lines ? NDRange(std::min<std::size_t>(std::size_t(bags), 8 * device.compute_units), 1)
                              : NDRange(std::size_t(columns), std::size_t(bags), width, 64 / width);
  launch(queue, kernel, range, bag.weight.data, bag.indices.data, bag.offsets.data, bag.sample_weights.data,
         bag.out.data, bag.sizes.data, bag.maxima.data, status.buffer(), cl_int(code), cl_long(bag.weight.sizes[0]),
         cl_long(columns), cl_long(bags), cl_long(bag.indices.numel()), cl_long(padding));
}

}  // namespace dlprim
