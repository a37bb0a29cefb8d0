// SPDX-License-Identifier: MIT
// Indices of sparse tensors: conversions between layouts, and their checks.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "generated/functions/sparse_dense.h"
#include "generated/structured/_convert_indices_from_coo_to_csr_out.h"
#include "generated/structured/_convert_indices_from_csr_to_coo_out.h"

namespace pytorch_ocl {

namespace {

// Row of each entry of [batch, rows + 1] compressed indices, as [batch, entries].
at::Tensor rows_of_entries(const at::Tensor& compressed, int64_t entries) {
  const int64_t batch = compressed.size(0), rows = compressed.size(1) - 1;
  const at::Tensor ends = compressed.narrow(1, 1, rows).contiguous();
  const at::Tensor places = at::arange(entries, ends.options()).expand({batch, entries}).contiguous();
  return at::searchsorted(ends, places, false, /*right=*/true);
}

// Number of each matrix's leading dimension d of those that `sizes` lists, for `repeats` entries each.
at::Tensor batch_index(at::IntArrayRef sizes, int64_t d, int64_t repeats, const at::TensorOptions& options) {
  std::vector<int64_t> view(sizes.size() + 1, 1), all = sizes.vec();
  view[std::size_t(d)] = sizes[std::size_t(d)];
  all.push_back(repeats);
  return at::arange(sizes[std::size_t(d)], options).view(view).expand(all).reshape({-1});
}

}  // namespace

void structured__convert_indices_from_coo_to_csr_out::impl(const at::Tensor& self, int64_t size, bool out_int32,
                                                           const at::Tensor& out) {
  if (self.numel() == 0) {
    out.zero_();
    return;
  }
  const at::Tensor rows = self.contiguous().view({-1});
  out.copy_(at::searchsorted(rows, at::arange(size + 1, rows.options()), out_int32));
}

void structured__convert_indices_from_csr_to_coo_out::impl(const at::Tensor& crow_indices,
                                                           const at::Tensor& col_indices, bool, bool transpose,
                                                           const at::Tensor& out) {
  const int64_t dims = crow_indices.dim() - 1, entries = col_indices.size(-1);
  if (out.numel() == 0 || crow_indices.size(-1) < 2) {
    out.zero_();
    return;
  }
  for (int64_t d = 0; d < dims; d++)
    out.select(0, d).copy_(batch_index(crow_indices.sizes().slice(0, std::size_t(dims)), d, entries, out.options()));
  const at::Tensor rows = rows_of_entries(crow_indices.reshape({-1, crow_indices.size(-1)}), entries);
  out.select(0, transpose ? dims + 1 : dims).copy_(rows.view({-1}));
  out.select(0, transpose ? dims : dims + 1).copy_(col_indices.reshape({-1}));
}

namespace ops {

// One copy to the host tells which of the invariants hold.
void _validate_compressed_sparse_indices(bool is_crow, const at::Tensor& compressed_idx, const at::Tensor& plain_idx,
                                         int64_t, int64_t dim, int64_t nnz) {
  if (compressed_idx.numel() == 0) return;
  const at::Tensor starts = compressed_idx.reshape({-1, compressed_idx.size(-1)});
  const at::Tensor plain = plain_idx.reshape({starts.size(0), nnz}), lengths = starts.diff();
  std::vector<at::Tensor> broken = {plain.lt(0).logical_or_(plain.ge(dim)).any(), starts.select(1, 0).ne(0).any(),
                                    starts.select(1, -1).ne(nnz).any(),
                                    lengths.lt(0).logical_or_(lengths.gt(dim)).any()};
  if (nnz > 1 && starts.size(1) > 1) {
    const at::Tensor rows = rows_of_entries(starts, nnz);
    const at::Tensor together = rows.narrow(1, 1, nnz - 1).eq(rows.narrow(1, 0, nnz - 1));
    broken.push_back(plain.narrow(1, 1, nnz - 1).le(plain.narrow(1, 0, nnz - 1)).logical_and_(together).any());
  }
  const at::Tensor found = at::stack(broken).cpu();
  const bool* failed = found.const_data_ptr<bool>();
  const char *c = is_crow ? "crow" : "ccol", *p = is_crow ? "col" : "row", *count = is_crow ? "ncols" : "nrows";
  TORCH_CHECK(!failed[0], "`0 <= ", p, "_indices < ", count, "` is not satisfied.");
  TORCH_CHECK(!failed[1], "`", c, "_indices[..., 0] == 0` is not satisfied.");
  TORCH_CHECK(!failed[2], "`", c, "_indices[..., -1] == nnz` is not satisfied.");
  TORCH_CHECK(!failed[3], "`0 <= ", c, "_indices[..., 1:] - ", c, "_indices[..., :-1] <= ", count,
              "` is not satisfied.");
  TORCH_CHECK(broken.size() < 5 || !failed[4], "`", p, "_indices[..., ", c, "_indices[..., i - 1]:", c,
              "_indices[..., i]] for all i = 1, ..., ", is_crow ? "nrows" : "ncols",
              " are sorted and distinct along the last dimension values` is not satisfied.");
}

}  // namespace ops

}  // namespace pytorch_ocl
