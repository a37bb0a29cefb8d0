// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <span>
#include <string>

namespace dlprim {

/// Rows of reduce_table.inc.
enum class ReduceId : std::uint16_t {
#define ROW(name, ...) name,
#include "reduce_table.inc"
#undef ROW
  count
};

const char* name(ReduceId id) noexcept;

/// A reduction as OpenCL C statements, for any dtypes. Names they use:
///   p->f          accumulator to update, a pointer to the struct of `fields`; q.f: the one to merge into it
///   x0, x1 ...    the inputs' element (VALUE types X0, X1 ...); index: its position along the reduced dims (IDX)
///   y0, y1 ...    the outputs' element, to be set; OLD(0): what the output held
///   s0 ... s15    scalars; n: number of reduced elements
///   ACC_T, REAL     type to accumulate in, and its real type; LOWEST, HIGHEST: identities of ACC_T
struct ReduceCode {
  std::string fields;    ///< "ACC_T sum; ACC_T squares;"
  int field_count = 1;
  std::string identity;  ///< sets p->f so that merging it changes nothing
  std::string step;      ///< adds one element to p->f
  std::string combine;   ///< merges q.f into p->f; must be associative and commutative
  std::string finish;    ///< sets y0, y1 ... from p->f
  /// Optional, of one input: adds ITEMS elements to p->f at once, after `EACH_ITEM` each is ITEM. GPUs use it.
  std::string block = {};
};

/// A reduction that can be run. Making one is cheap; programs of equal code share their kernels.
class ReduceProgram {
 public:
  explicit ReduceProgram(const ReduceCode& code);
  std::uint32_t id() const noexcept { return id_; }
  const ReduceCode& code() const noexcept { return *code_; }

 private:
  std::uint32_t id_;
  const ReduceCode* code_;
};

/// Operands of one reduction, at most 8. All have the same number of dims; inputs have equal sizes (stride 0
/// broadcasts); an output has size 1 in the reduced dims and the inputs' size in the others, as with keepdim.
struct ReduceOperands {
  std::span<const TensorView> outputs, inputs;
};

/// Reduces by a row of the table. Rows with two results fill as many as there are outputs. Dtypes: any real input,
/// complex where the row has a meaning for it; outputs are converted from the accumulator. Empty input gives the
/// row's identity. Throws ValidationError on shapes, NotImplementedError on float64 without device support.
void reduce(Queue& queue, ReduceId id, const ReduceOperands& operands, std::span<const double> scalars = {});

/// Reduces by code of the caller's own, accumulating in `accumulate`. In `index` order where `ordered` is set:
/// positions then count the reduced dims row-major.
void reduce(Queue& queue, const ReduceProgram& program, DataType accumulate, const ReduceOperands& operands,
            std::span<const double> scalars = {}, bool ordered = false);

}  // namespace dlprim
