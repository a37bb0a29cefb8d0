// SPDX-License-Identifier: MIT
#include "pack.hpp"

#include <dlprim/runtime/launch.hpp>

#include "core.hpp"

namespace dlprim {

void pack(Queue& queue, DataType type, std::int64_t batches, const PackedOperand& x, const BufferRef& to) {
  constexpr std::int64_t lines = 64;  // of a work-group
  const std::int64_t columns = 256 / x.width * x.width;
  const DataType sums = accumulate_type(type);
  struct Key {
    std::uint16_t type, columns, pairs;
  };
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), Key{std::uint16_t(type), std::uint16_t(columns), x.pairs}, [&] {
    KernelSource source("gemm/pack_panel.cl", "gemm_pack_panel");
    source.define("T", sums == DataType::float64 ? "double" : "float").define("TA", tag(type));
    source.define("LINES", lines).define("COUNT", columns).define("PAIRS", x.pairs);
    return source;
  });
  launch(queue, kernel,
         NDRange(std::size_t(divide_up(x.lines, lines)), std::size_t(divide_up(x.count, columns)), std::size_t(batches),
                 1, 1, 1),
         x.data, to, x.lines, x.count, x.batch, x.line, x.step, x.other, packed_size(x), std::int32_t(x.width), x.panel,
         x.pitch, std::int32_t(x.single));
}

BufferRef packed_once(Queue& queue, DataType type, const PackedOperand& x, std::optional<Workspace>& kept) {
  if (kept) return kept->data();
  const std::size_t bytes = std::size_t(packed_size(x)) * size_of(accumulate_type(type));
  kept.emplace(queue, bytes);
  const std::uint32_t zero = 0;  // what is there could be numbers that take long to multiply
  queue.fill(kept->data(), &zero, sizeof zero, bytes);
  pack(queue, type, 1, x, kept->data());
  return kept->data();
}

}  // namespace dlprim
