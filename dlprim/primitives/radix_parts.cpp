// SPDX-License-Identifier: MIT
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <array>

#include "sort_order.hpp"

namespace dlprim {

namespace {

constexpr int digit_bits = 8, digits = 256;
constexpr std::int64_t shortest = 256;  // merging takes as long

enum Kind : std::uint8_t { count, sum, move, finish };
constexpr const char* kernels[] = {"parts_count", "parts_sum", "parts_move", "parts_finish"};

struct Key {
  Kind kind;
  DataType type;
  bool descending, sorted;
};

Kernel& kernel_of(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("radix_parts.cl", kernels[key.kind]);
    define_sort_keys(source, key.type, key.descending);
    return source.define("SORTED", key.sorted);
  });
}

void sort_some(Queue& queue, const SortProblem& p) {
  const auto [first_bit, end_bit] = sort_key_bits(p.type);
  const int passes = (end_bit - first_bit + digit_bits - 1) / digit_bits;
  const cl_uint n = cl_uint(p.n), parts = cl_uint(parts_of(queue.device(), p.segments, p.n));
  const std::size_t rows = std::size_t(p.segments), total = rows * std::size_t(p.n), bytes = size_of(p.type);
  const Workspace elements[2] = {Workspace(queue, total * bytes), Workspace(queue, total * bytes)};
  const Workspace positions[2] = {Workspace(queue, total * 4), Workspace(queue, total * 4)};
  const Workspace states(queue, rows * std::size_t(passes)), counts(queue, rows * parts * digits * 4);
  auto run = [&](Kind kind, std::size_t items, auto... arguments) {
    const Key key{kind, p.type, kind != finish && p.descending, kind == finish && p.sorted.memory};
    launch(queue, kernel_of(queue, key), NDRange(items, 1), p.keys, elements[0].data(), elements[1].data(),
           positions[0].data(), positions[1].data(), states.data(), counts.data(), arguments...);
  };
  for (int pass = 0; pass < passes; pass++) {
    const auto shift = cl_uint(first_bit + pass * digit_bits);
    run(count, rows * parts, n, parts, cl_int(pass), shift);
    run(sum, rows, n, parts, cl_int(pass));
    run(move, rows * parts, n, parts, cl_int(pass), shift);
  }
  run(finish, rows * parts, p.order, p.sorted.memory ? p.sorted : p.order, n, parts, cl_int(passes));
}

}  // namespace

std::int64_t parts_of(const Device& device, std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t smallest = 4096;
  const std::int64_t wanted = 4 * std::int64_t(device.info().compute_units);
  return std::clamp<std::int64_t>((wanted + rows - 1) / std::max<std::int64_t>(rows, 1), 1, n / smallest + 1);
}

const char* decline_parts(const Device& device, const SortProblem& p, bool forced) {
  if (is_complex(p.type)) return "complex keys";
  if (p.n > settings.index_limit || p.segments > settings.index_limit) return "rows of more than 2^31 keys";
  if (forced) return nullptr;
  return !device.info().cpu ? "a GPU" : p.n < shortest ? "few keys" : nullptr;
}

void run_parts(Queue& queue, const SortProblem& all) {
  // As many rows at once as keep the counts small beside a large tensor.
  constexpr std::int64_t most_rows = 16384;
  for (std::int64_t row = 0; row < all.segments; row += most_rows) {
    const std::size_t before = std::size_t(row * all.n);
    SortProblem some = all;
    some.segments = std::min(most_rows, all.segments - row);
    some.keys.offset += before * size_of(all.type), some.order.offset += before * sizeof(cl_long);
    if (some.sorted.memory) some.sorted.offset += before * size_of(all.type);
    sort_some(queue, some);
  }
}

}  // namespace dlprim
