// SPDX-License-Identifier: MIT
// What the operators of sparse tensors share: entries by rows, sums of runs of equal keys, products.
#pragma once
#include <ATen/core/Tensor.h>

namespace pytorch_ocl {

/// Entries of a sparse matrix by rows, as dlprim::SparseRows.
struct EntriesByRow {
  at::Tensor starts, columns, values;
};

/// Runs of equal keys: `order` sorts the keys (stable), run i is order[starts[i]] .. order[starts[i + 1]], keys[i] its
/// key. The number of runs is known on the host: it waits for the device.
struct Runs {
  at::Tensor order, starts, keys;
};
Runs runs_of(const at::Tensor& keys);

/// Sums of the rows of `values` [n, ...] over each run; the same bits every time. 16-bit floats are summed in float.
at::Tensor sums_of_runs(const Runs& runs, const at::Tensor& values);

/// For each of `counts` (int64) its position, as often as it says, and how often that was before: [total] each.
/// Waits for the device, unless `total` is given.
std::pair<at::Tensor, at::Tensor> repeated(const at::Tensor& counts);

/// Entries of a 2-D tensor of any compressed layout or of coordinates; values and indices are contiguous.
EntriesByRow rows_of_sparse(const at::Tensor& matrix);
/// Entries of its transpose.
EntriesByRow columns_of_sparse(const at::Tensor& matrix);

/// out = alpha * matrix * dense + beta * base. `out` and `dense` [.., ..] are strided, `base` may be undefined where
/// beta is 0, and is expanded to out. `op` (a literal) names the operator in errors.
void multiply_rows(const char* op, const EntriesByRow& matrix, const at::Tensor& dense, const at::Tensor& base,
                   const at::Tensor& out, const at::Scalar& beta, const at::Scalar& alpha);

/// The product of two sparse matrices as positions row * columns + column (ascending) and values.
std::pair<at::Tensor, at::Tensor> multiply_sparse_rows(const EntriesByRow& a, const EntriesByRow& b, int64_t columns);

/// Positions along the first `indices.size(0)` dimensions as one row-major number.
at::Tensor flat_positions(const at::Tensor& indices, at::IntArrayRef sizes);

/// The shapes of a product with PyTorch's errors; the base is expanded.
at::Tensor checked_base(const char* op, const at::Tensor& base, const at::Tensor& mat1, const at::Tensor& mat2);

/// base * beta into `out`, for products without entries; 0 where beta is 0, whatever the base is.
at::Tensor& scaled_base(const at::Tensor& base, const at::Scalar& beta, at::Tensor& out);

}  // namespace pytorch_ocl
