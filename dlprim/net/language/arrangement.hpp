// SPDX-License-Identifier: MIT
// Tensors that a file holds in another order than they are asked for: interleaved, transposed, packed in two.
#pragma once
#include <functional>

#include "tensors.hpp"

namespace dlprim {

/// What becomes a tensor of its own of one that a layer has: of every `step` runs of rows that of number `first`.
struct Part {
  const char *stored, *name;  ///< behind the layer's number, with ".weight" or ".bias"; null: nothing needs the tensor
  int axis = 0;  ///< the stored dimension that is divided; that of a transposed matrix is its last
  std::int64_t step = 1, first = 0;
  bool heads = false;  ///< a run is a head; otherwise a row
  bool transposed = false;  ///< matrices lie with columns in the place of rows
  const char* scales = nullptr;  ///< the exponents of MXFP4, whose numbers are [.., groups, 16], two in a byte
};

/// A part of a tensor of a file.
struct Arrangement {
  WeightTensor stored = {}, scales = {};
  std::int64_t run = 1, step = 1, first = 0;
  std::int64_t rows = 0;  ///< of the part, in all matrices
  bool transposed = false;
};

/// The tensor `name` that `part` takes out of `stored`, with runs of so many rows. Throws ValidationError where they do not
/// fit; `scales` may be null where the part has none.
WeightTensor arranged(const Part& part, const std::string& name, const WeightTensor& stored, const WeightTensor* scales,
                      std::int64_t run);

/// Fills `to` with whole rows of an arranged tensor from the byte `offset` on; `read` gives bytes of stored ones.
using ReadStored = std::function<void(const WeightTensor& tensor, std::uint64_t offset, std::span<std::byte> to)>;
void read_arranged(const WeightTensor& tensor, std::uint64_t offset, std::span<std::byte> to, const ReadStored& read);

}  // namespace dlprim
