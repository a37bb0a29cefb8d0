// SPDX-License-Identifier: MIT
#include <dlprim/primitives/embedding.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/status.hpp>

namespace dlprim {

void embedding_bag(Queue& queue, const EmbeddingBag& bag, BagMode mode, std::int64_t padding) {
  struct Key {
    DataType type, index;
    std::uint8_t mode, weighted;
  };
  const bool fits = is_floating(bag.weight.dtype) && bag.weight.dims == 2 && bag.indices.dtype == bag.offsets.dtype &&
                    bag.out.dtype == bag.weight.dtype && bag.sizes.dtype == bag.indices.dtype &&
                    (mode != BagMode::max || bag.maxima.dtype == bag.indices.dtype);
  if (!fits)
    throw ValidationError("[embedding_bag] expected a floating weight [rows, columns] and indices, offsets and results "
                          "of one integer dtype");
  const Key key{bag.weight.dtype, bag.indices.dtype, std::uint8_t(mode), std::uint8_t(bag.sample_weights.defined())};
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("embedding.cl", "embedding_bag");
    source.define("T", tag(key.type)).define("INDEX", tag(key.index)).define("MODE", std::int64_t(key.mode));
    return key.weighted ? source.define("WEIGHTED") : source;
  });
  QueueStatus& status = queue.status();
  const int code = status.arm("embedding_bag: index %lld is out of range");
  const std::int64_t columns = bag.weight.sizes[1], bags = bag.out.sizes[0];
  const std::size_t width = columns >= 64 ? 64 : 8;
  launch(queue, kernel, NDRange(std::size_t(columns), std::size_t(bags), width, 64 / width), bag.weight.data,
         bag.indices.data, bag.offsets.data, bag.sample_weights.data, bag.out.data, bag.sizes.data, bag.maxima.data,
         status.buffer(), cl_int(code), cl_long(bag.weight.sizes[0]), cl_long(columns), cl_long(bags),
         cl_long(bag.indices.numel()), cl_long(padding));
}

}  // namespace dlprim
