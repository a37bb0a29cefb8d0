// SPDX-License-Identifier: MIT
// How a reduction is laid over a device: dims, form, group and split. Makes no OpenCL call.
#pragma once
#include <dlprim/primitives/reduce.hpp>

#include <optional>

namespace dlprim {

inline constexpr int reduce_max_dims = 8, reduce_max_operands = 8;
inline constexpr int reduce_most_columns = 512;  // that a work-item has accumulators for, in the form `lines`

/// Mirrors reduce_dim of kernels/lib/reduction.clh; kernels of 32-bit indices read the low half of the size.
struct ReduceDim {
  std::uint64_t size = 1;
  std::uint32_t magic = 0, shift = 0;
  std::int64_t strides[reduce_max_operands] = {};  // inputs, then outputs
};

/// Mirrors reduce_plan of kernels/lib/reduction.clh: kept dims first, then reduced ones, each fastest first.
struct ReduceParameters {
  std::uint64_t kept = 1, reduced = 1, chunk = 1, count = 1;
  std::uint32_t tiles = 1, passes = 1, inner_tiles = 1, width = 0;
  ReduceDim dims[reduce_max_dims];
};

/// What is compiled into a kernel. TK x TR work-items form a group: TK along kept elements, TR along the reduction.
struct ReduceForm {
  std::uint16_t kept_items = 1, reduce_items = 1;
  std::uint8_t vector = 1;  ///< accumulators of a work-item: along the reduction (rows) or kept elements (columns)
  std::uint8_t columns = 0;  ///< kept elements are the contiguous ones
  std::uint8_t aligned = 0;  ///< a tile of columns does not cross the innermost kept dim
  std::uint8_t nested = 0;  ///< loop over the innermost reduced dim inside a loop over the others
  std::uint8_t units = 0;  ///< operands (bits) of stride 1 along the fast dim
  std::uint8_t fixed = 0;  ///< operands (bits) that do not move along the reduction
  std::uint8_t packed = 0;  ///< the accumulators of a work-item are for neighbours, loaded at once
  std::uint8_t ahead = 0;  ///< elements for each accumulator loaded before any is added; 0: no arrays for that
  std::uint8_t lines = 0;  ///< 16 columns or more, `width` of the parameters, in loops over them within loops over rows
  std::uint8_t kept_dims = 1, reduced_dims = 1;
  std::uint8_t wide = 0;  ///< 64-bit indices
  bool operator==(const ReduceForm&) const = default;
};

struct ReducePlan {
  ReduceParameters parameters;
  ReduceForm form;
  std::uint32_t splits = 1;  ///< groups along one reduction; above 1 a second stage merges them
};

/// Plans a reduction for a device; none where more than reduce_max_dims dims do not merge. Throws ValidationError naming
/// `what`.
std::optional<ReducePlan> plan_reduction(const char* what, const ReduceOperands& operands, const DeviceInfo& device,
                                         int fields, bool ordered);

/// Plans the merge of `splits` x `kept` partial accumulators, row-major, into the outputs of `first`.
ReducePlan plan_merge(const ReducePlan& first, int inputs, int outputs, const DeviceInfo& device, int fields);

}  // namespace dlprim
