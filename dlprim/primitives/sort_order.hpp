// SPDX-License-Identifier: MIT
// Candidates of sort_order.
#pragma once
#include <dlprim/primitives/sort.hpp>
#include <dlprim/runtime/program.hpp>

#include <utility>

namespace dlprim {

struct SortProblem {
  BufferRef keys, order, sorted;  // one of the last two is undefined where only the other is wanted
  DataType type;
  std::int64_t segments, n;
  bool descending;
};

const char* decline_short(const Device& device, const SortProblem& problem, bool forced);
void run_short(Queue& queue, const SortProblem& problem);
const char* decline_radix(const Device& device, const SortProblem& problem, bool forced);
void run_radix(Queue& queue, const SortProblem& problem);  // leaves `sorted` to the caller
const char* decline_sweep(const Device& device, const SortProblem& problem, bool forced);
void run_sweep(Queue& queue, const SortProblem& problem);
/// The mode of rows that fit a tile of the sweep: `order` and `sorted` get one element a row.
const char* decline_mode_of_tiles(const Device& device, const SortProblem& problem);
void run_mode_of_tiles(Queue& queue, const SortProblem& problem);
const char* decline_parts(const Device& device, const SortProblem& problem, bool forced);
void run_parts(Queue& queue, const SortProblem& problem);

/// Into how many parts each of `rows` rows of n elements is cut for the work-items of a CPU.
std::int64_t parts_of(const Device& device, std::int64_t rows, std::int64_t n);
/// The bits of a sort key that tell keys of `type` apart: the first, and the one past the last.
std::pair<int, int> sort_key_bits(DataType type);

/// Adds what lib/sort_keys.clh wants to know of `type`.
void define_sort_keys(KernelSource& source, DataType type, bool descending);

}  // namespace dlprim
