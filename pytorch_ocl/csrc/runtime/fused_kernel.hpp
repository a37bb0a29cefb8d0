// SPDX-License-Identifier: MIT
// Kernels that torch.compile generates, by numbers that hold for the process.
#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pytorch_ocl {

/// Builds a kernel that torch.compile generated (pytorch_ocl/inductor/kernel.py) and returns its number. `form`:
/// "elements", "rows" or "columns"; `length`: elements of a row, 0 where that changes, or where elements are not gone
/// through in tiles; `vector`: neighbouring elements that it can take together; `messages`: what it may report; `as_gpu`:
/// in the form that GPUs get, on any device. Raises RuntimeError with the compiler's log.
std::int64_t build_fused(std::string source, std::string name, std::string form, std::int64_t length,
                         std::int64_t vector, std::vector<std::string> messages, std::int64_t index, bool as_gpu);

/// Runs a kernel on the current stream of the tensors' device for `items` elements, rows or columns. It takes the
/// tensors, then, where it may report something, the queue's status, then a struct of 64-bit numbers: a work-item's
/// share, the given ones and the codes of its messages.
void run_fused(std::int64_t number, at::TensorList tensors, at::IntArrayRef numbers, std::int64_t items);

}  // namespace pytorch_ocl
