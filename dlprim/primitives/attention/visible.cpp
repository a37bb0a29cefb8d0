// SPDX-License-Identifier: MIT
#include "visible.hpp"

#include "../grid.hpp"

namespace dlprim {

namespace {

constexpr std::int32_t tile = 64, lanes = 64;     // of visible.cl
constexpr std::int64_t least_scores = 512 * 512;  // of a head

struct Key {
  std::uint16_t block, slice;
  std::uint8_t by_keys, tiles;
};

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("attention/visible.cl", key.tiles ? "attention_mask_tiles" : "attention_visible");
    define_attention(source, key.tiles ? 1 + int(DataType::boolean) : 0, false, false);
    return source.define("BLOCK", key.block).define("SLICE", key.slice).define("BY_KEYS", key.by_keys);
  });
}

}  // namespace

bool has_lists(const AttentionProblem& problem) {
  return (problem.mask_layout || problem.tiles) && !problem.causal &&
         std::int64_t(problem.p.queries) * problem.p.keys >= least_scores;
}

VisibleTiles::VisibleTiles(Queue& queue, const AttentionProblem& problem) : queue_(queue) {
  if (!problem.listed) return;
  AttentionParams p = problem.p;
  if (problem.tiles) {
    const auto& [states, queries, keys] = *problem.tiles;
    batches_ = states.size(0), heads_ = states.size(1), states_ = states.data;
    tiles_ = {std::int32_t(states.size(2)), std::int32_t(states.size(3)), queries, keys};
    return;
  }
  p.bias = *problem.mask_layout;
  batches_ = p.bias.batch ? p.batch : 1, heads_ = p.bias.head ? p.heads : 1;
  tiles_ = {std::int32_t(divide_up(p.queries, tile)), std::int32_t(divide_up(p.keys, tile)), tile, tile};
  const std::int64_t count = batches_ * heads_ * tiles_.rows * tiles_.columns;
  found_.emplace(queue, std::size_t(count));
  states_ = found_->data();
  launch(queue, kernel_of(queue.device(), {0, 0, 0, 1}), NDRange(std::size_t(count * lanes), lanes), p, problem.mask,
         states_, std::int32_t(heads_));
}

void VisibleTiles::list(AttentionProblem& problem, int block, int slice, bool by_keys) {
  auto& p = problem.p;
  if (!problem.listed) return;
  const std::int64_t blocks = divide_up(by_keys ? p.keys : p.queries, block);
  p.visible.row = std::int32_t(2 + divide_up(by_keys ? p.queries : p.keys, slice));
  p.visible.head = heads_ > 1 ? blocks * p.visible.row : 0;
  p.visible.batch = batches_ > 1 ? heads_ * blocks * p.visible.row : 0;
  const std::int64_t count = batches_ * heads_ * blocks;
  lists_.emplace(queue_, std::size_t(count * p.visible.row) * sizeof(std::int32_t));
  problem.visible = lists_->data();
  const Key key{std::uint16_t(block), std::uint16_t(slice), by_keys, 0};
  launch(queue_, kernel_of(queue_.device(), key), NDRange(std::size_t(count * lanes), lanes), p, states_,
         problem.visible, tiles_);
}

}  // namespace dlprim
