// SPDX-License-Identifier: MIT
// Candidates of sort_order.
#pragma once
#include <dlprim/primitives/sort.hpp>
#include <dlprim/runtime/program.hpp>

namespace dlprim {

struct SortProblem {
  BufferRef keys, order, sorted;  // sorted: undefined where only the order is wanted
  DataType type;
  std::int64_t segments, n;
  bool descending;
};

const char* decline_radix(const Device& device, const SortProblem& problem, bool forced);
void run_radix(Queue& queue, const SortProblem& problem);  // leaves `sorted` to the caller
const char* decline_sweep(const Device& device, const SortProblem& problem, bool forced);
void run_sweep(Queue& queue, const SortProblem& problem);

/// Adds what lib/sort_keys.clh wants to know of `type`.
void define_sort_keys(KernelSource& source, DataType type, bool descending);

}  // namespace dlprim
