// SPDX-License-Identifier: MIT
#include "halves.hpp"

namespace dlprim {

namespace {

// Shares of a head's rows, each of a work-group.
constexpr int chunks = 16;
constexpr int group = 128;

struct Key {
  std::uint8_t pass, vector, lanes, padding;
};

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("attention/halves.cl", key.pass ? "attention_halves" : "attention_largest");
    define_attention(source, 0, false, false);
    source.define("GROUP", group).define("LANES", key.lanes).define("VECTOR", key.vector).define("CHUNKS", chunks);
    return source;
  });
}

bool has_vectors(const AttentionLayout& x, BufferRef data, std::int32_t width) {
  return (x.batch | x.head | x.row | width) % 4 == 0 && data.offset % 16 == 0;
}

AttentionLayout packed(std::int64_t heads, std::int64_t rows, int width) {
  const int columns = columns_of_halves(width);
  return {heads * rows * columns, rows * columns, columns, 1};
}

}  // namespace

AttentionHalves attention_halves(Queue& queue, const AttentionProblem& x) {
  const auto& p = x.p;
  Device& device = queue.device();
  const std::int64_t key_heads = p.heads / p.sharing, heads = std::int64_t(p.batch) * p.heads;
  AttentionProblem parts = x;
  parts.type = DataType::float16;
  parts.p.q = packed(p.heads, p.queries, p.width), parts.p.k = packed(key_heads, p.keys, p.width);
  parts.p.v = packed(key_heads, p.keys, p.value_width);
  const auto bytes = [&](const AttentionLayout& layout) { return std::size_t(2 * layout.batch * p.batch); };
  const std::size_t q = bytes(parts.p.q), k = bytes(parts.p.k), v = bytes(parts.p.v);
  const std::size_t scales = std::size_t(3 * heads) * sizeof(float);
  AttentionHalves result{std::move(parts), Workspace(queue, q + k + v + scales), {}};
  const BufferRef all = result.memory.data();
  result.problem.q = all, result.problem.k = {all.memory, all.offset + q};
  result.problem.v = {all.memory, all.offset + q + k};
  result.scales = {all.memory, all.offset + q + k + v};

  Key key{};
  key.vector =
      has_vectors(p.q, x.q, p.width) && has_vectors(p.k, x.k, p.width) && has_vectors(p.v, x.v, p.value_width) ? 4 : 1;
  const int most = columns_of_halves(std::max(p.width, p.value_width)) / 2 / key.vector;
  key.lanes = std::uint8_t(most >= 32 ? 32 : 16);
  const Workspace largest(queue, std::size_t(3 * heads) * chunks * sizeof(std::uint32_t));
  const NDRange range(std::size_t(heads) * chunks * group, 3, group, 1);
  launch(queue, kernel_of(device, key), range, p, x.q, x.k, x.v, largest.data());
  key.pass = 1;
  launch(queue, kernel_of(device, key), range, p, x.q, x.k, x.v, largest.data(), all, result.scales);
  return result;
}

}  // namespace dlprim
