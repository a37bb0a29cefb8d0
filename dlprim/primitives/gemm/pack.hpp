// SPDX-License-Identifier: MIT
// Operands packed for the cores of CPUs.
#pragma once
#include <dlprim/runtime/memory.hpp>

#include <optional>

#include "../grid.hpp"
#include "engine.hpp"

namespace dlprim {

/// Which pairs have no second element.
enum class Single : std::int32_t { none, last_line, last_column };

/// An operand x of `lines` x `count` elements, element (i, j) at i * line + j * step, to be packed in panels of `width`
/// columns: element (i, j) at j / width * panel + i * pitch + j % width. `batch`: from matrix to matrix, 0: there is
/// one. Of bfloat16, elements may be pairs of which the second is `other` elements behind the first.
struct PackedOperand {
  BufferRef data;
  std::int64_t lines, count, line, step, batch, width, panel, pitch;
  bool pairs = false;
  std::int64_t other = 0;
  Single single = Single::none;
};

/// About how long a row of so many vectors, up to three, takes in registers: fewer leave loads of the other operand.
constexpr std::int64_t time_of_vectors(std::int64_t count) { return count == 3 ? 12 : count == 2 ? 8 : count ? 6 : 0; }

/// Elements of one packed matrix, of type accumulate_type(type).
inline std::int64_t packed_size(const PackedOperand& x) {
  return std::max(divide_up(x.count, x.width) * x.panel, x.lines * x.pitch);
}

/// Packs `batches` matrices of this type to `to`, one packed_size() behind the other.
void pack(Queue& queue, DataType type, std::int64_t batches, const PackedOperand& x, const BufferRef& to);

/// One matrix, packed at `kept` now where nothing is there yet, with zeros where it has no elements.
BufferRef packed_once(Queue& queue, DataType type, const PackedOperand& x, std::optional<Workspace>& kept);

}  // namespace dlprim
