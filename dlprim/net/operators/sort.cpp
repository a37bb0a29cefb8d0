// SPDX-License-Identifier: MIT
#include <dlprim/primitives/compact.hpp>
#include <dlprim/primitives/index.hpp>
#include <dlprim/primitives/sort.hpp>

#include <algorithm>
#include <numeric>

#include "../array.hpp"
#include "../inner.hpp"

namespace dlprim::operators {

namespace {

struct SortAttributes {
  explicit SortAttributes(const AttributeReader& reader)
      : axis(reader.find<std::int64_t>("axis")), k(reader.integer("k", 1)), largest(reader.integer("largest", 1)),
        sorted(reader.integer("sorted", 1)) {}
  std::optional<std::int64_t> axis;
  std::int64_t k, largest, sorted;
};

const SortAttributes& attributes_of(const Call& call) { return call.attributes<SortAttributes>(); }

// `dim` last.
Tensor with_last(const Tensor& x, int dim) {
  std::vector<std::int64_t> order(std::size_t(x.shape().size()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[std::size_t(dim)], order.back());
  return permute(x, order);
}

void top_k(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const int dim = x.shape().axis(attributes_of(call).axis.value_or(-1));
  const std::int64_t length = x.shape()[dim], k = call.has(1) ? call.read_integers(1).at(0) : attributes_of(call).k;
  if (k < 0 || k > length) call.fail("expected k within " + x.shape().text() + ", got " + std::to_string(k));
  const Tensor rows = contiguous(queue, with_last(x, dim));
  const std::int64_t count = length ? x.numel() / length : 0;
  const Tensor order(queue, DataType::int64, rows.shape());
  if (x.numel())
    sort_order(queue, rows.view(queue).reshaped({count, length}), order.view(queue).reshaped({count, length}),
               attributes_of(call).largest);
  const Tensor places = narrow(order, order.shape().size() - 1, 0, k);
  const Tensor values(queue, x.dtype(), places.shape());
  if (values.numel()) gather(queue, values.view(queue), rows.view(queue), rows.shape().size() - 1, places.view(queue));
  call.set(0, with_last(values, dim));
  call.set(1, with_last(places, dim));
}

void non_zero(Call& call) {
  Queue& queue = call.queue();
  Tensor x = contiguous(queue, call.input(0));
  if (x.shape().size() == 0) x = reshape(queue, x, {1});
  call.depends_on(0);
  if (x.numel() == 0) return call.set(0, Tensor(queue, DataType::int64, {x.shape().size(), 0}));
  Compaction compaction(queue, x.view(queue));
  const std::int64_t count = compaction.count();
  const Tensor y(queue, DataType::int64, {x.shape().size(), count});
  if (count) compaction.coordinates(transpose(y).view(queue), count);
  call.set(0, call.input(0).shape().size() ? y : narrow(y, 0, 0, 0));
}

// Slices of an axis (or elements of the flat tensor) where the condition holds.
void compress(Call& call) {
  Queue& queue = call.queue();
  Tensor x = call.input(0);
  if (!attributes_of(call).axis.has_value()) x = reshape(queue, x, {x.numel()});
  const int dim = x.shape().axis(attributes_of(call).axis.value_or(0));
  const std::vector<std::int64_t> condition = call.read_integers(1);
  std::vector<std::int64_t> index;
  for (std::size_t i = 0; i < condition.size() && std::int64_t(i) < x.shape()[dim]; i++)
    if (condition[i]) index.push_back(std::int64_t(i));
  call.set(0, call.run(inner<"Gather", "axis">(dim), {x, Tensor::from_integers(index)})[0]);
}

// Rows are sorted on the device; which of them open a run of equals is read back, as the sizes depend on it.
void unique(Call& call) {
  Queue& queue = call.queue();
  call.depends_on(0);
  Tensor x = call.input(0);
  const bool flat = !attributes_of(call).axis.has_value();
  if (flat) x = reshape(queue, x, {x.numel()});
  const int dim = x.shape().axis(attributes_of(call).axis.value_or(0));
  const std::int64_t n = x.shape()[dim], width = n ? x.numel() / n : 0;
  std::vector<std::int64_t> first, counts, order, inverse(std::size_t(n), 0);
  if (x.numel()) {
    std::vector<std::int64_t> front{dim};
    for (int d = 0; d < x.shape().size(); d++)
      if (d != dim) front.push_back(d);
    const Tensor keys = reshape(queue, contiguous(queue, permute(x, front)), {n, width});
    const Tensor sorted(queue, DataType::int64, {n}), heads(queue, DataType::boolean, {n});
    sort_rows(queue, keys.view(queue), sorted.view(queue));
    run_heads(queue, keys.view(queue), sorted.view(queue), heads.view(queue));
    order = to_integers(queue, sorted);
    const std::vector<std::int64_t> opens = to_integers(queue, heads);
    for (std::size_t i = 0; i < order.size(); i++) {
      if (opens[i]) first.push_back(order[i]), counts.push_back(0);
      counts.back()++, inverse[std::size_t(order[i])] = std::int64_t(first.size()) - 1;
    }
  }
  if (!attributes_of(call).sorted) {  // in the order of first appearance
    std::vector<std::size_t> rank(first.size());
    std::iota(rank.begin(), rank.end(), std::size_t(0));
    std::sort(rank.begin(), rank.end(), [&](std::size_t a, std::size_t b) { return first[a] < first[b]; });
    std::vector<std::int64_t> place(rank.size()), f, c;
    for (std::size_t i = 0; i < rank.size(); i++)
      place[rank[i]] = std::int64_t(i), f.push_back(first[rank[i]]), c.push_back(counts[rank[i]]);
    for (std::int64_t& i : inverse) i = place[std::size_t(i)];
    first = f, counts = c;
  }
  call.set(0, call.run(inner<"Gather", "axis">(dim), {x, Tensor::from_integers(first)})[0]);
  call.set(1, Tensor::from_integers(first));
  call.set(2, Tensor::from_integers(inverse));
  call.set(3, Tensor::from_integers(counts));
}

}  // namespace

void sort(Registry& registry) {
  registry.add<SortAttributes>("TopK", top_k, "axis k largest sorted");
  registry.add("NonZero", non_zero);
  registry.add<SortAttributes>("Compress", compress, "axis");
  registry.add<SortAttributes>("Unique", unique, "axis sorted");
}

}  // namespace dlprim::operators
