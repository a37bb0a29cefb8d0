// SPDX-License-Identifier: MIT
#include "ops/sparse_rows.hpp"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_convert_indices_from_coo_to_csr.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <dlprim/primitives/sparse.hpp>

#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

bool has_products(at::ScalarType type) { return at::isFloatingType(type) || at::isComplexType(type); }

at::Tensor ready(const at::Tensor& values) { return values.resolve_conj().resolve_neg().contiguous(); }

EntriesByRow by_row(const at::Tensor& starts, const at::Tensor& columns, const at::Tensor& values) {
  return {starts.contiguous(), columns.contiguous(), ready(values)};
}

// A copy where a kernel cannot read the tensor as it is.
at::Tensor readable(const at::Tensor& matrix) { return matrix.resolve_conj().resolve_neg(); }

}  // namespace

Runs runs_of(const at::Tensor& keys) {
  const int64_t count = keys.numel();
  const auto options = keys.options().dtype(at::kLong);
  if (count == 0) return {at::empty({0}, options), at::zeros({1}, options), keys};
  const auto [sorted, order] = at::sort(keys, std::optional<bool>(true), 0, false);
  const at::Tensor heads = at::cat({at::ones({1}, keys.options().dtype(at::kBool)),
                                    sorted.narrow(0, 1, count - 1).ne(sorted.narrow(0, 0, count - 1))});
  const at::Tensor firsts = heads.nonzero().view({-1});
  return {order, at::cat({firsts, at::full({1}, count, options)}), sorted.index_select(0, firsts)};
}

at::Tensor sums_of_runs(const Runs& runs, const at::Tensor& values) {
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes[0] = runs.keys.size(0);
  const at::Tensor sums = at::zeros(sizes, values.options());
  if (sums.numel() == 0) return sums;
  const int64_t count = values.size(0);
  if (!has_products(values.scalar_type())) {
    const at::Tensor run_of = at::repeat_interleave(runs.starts.diff(), std::optional<int64_t>(count));
    return at::zeros(sizes, values.options()).index_add_(0, run_of, values.index_select(0, runs.order));
  }
  const at::Tensor out = sums.view({sizes[0], -1});
  multiply_rows("sum of sparse entries", {runs.starts, runs.order, at::ones({count}, values.options())},
                values.reshape({count, out.size(1)}), {}, out, 0, 1);
  return sums;
}

std::pair<at::Tensor, at::Tensor> repeated(const at::Tensor& counts) {
  const at::Tensor which = at::repeat_interleave(counts);
  const at::Tensor begins = counts.cumsum(0).sub_(counts);
  return {which, at::arange(which.size(0), which.options()).sub_(begins.index_select(0, which))};
}

EntriesByRow rows_of_sparse(const at::Tensor& matrix) {
  if (matrix.layout() == at::kSparse) {
    const at::Tensor entries = matrix.coalesce();
    const at::Tensor indices = entries._indices();
    return by_row(at::_convert_indices_from_coo_to_csr(indices.select(0, 0).contiguous(), matrix.size(0)),
                  indices.select(0, 1), entries._values());
  }
  const bool blocks = matrix.layout() == at::kSparseBsr || matrix.layout() == at::kSparseBsc;
  const at::Tensor rows = blocks ? matrix.to_sparse().to_sparse_csr() : matrix.to_sparse_csr();
  return by_row(rows.crow_indices(), rows.col_indices(), rows.values());
}

EntriesByRow columns_of_sparse(const at::Tensor& matrix) {
  if (matrix.layout() == at::kSparse) return rows_of_sparse(matrix.transpose(0, 1));
  const bool blocks = matrix.layout() == at::kSparseBsr || matrix.layout() == at::kSparseBsc;
  const at::Tensor columns = blocks ? matrix.to_sparse().to_sparse_csc() : matrix.to_sparse_csc();
  return by_row(columns.ccol_indices(), columns.row_indices(), columns.values());
}

void multiply_rows(const char* op, const EntriesByRow& matrix, const at::Tensor& dense, const at::Tensor& base,
                   const at::Tensor& out, const at::Scalar& beta, const at::Scalar& alpha) {
  const at::ScalarType type = out.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(has_products(type), "\"", op, "\" not implemented for '", type, "'");
  TORCH_CHECK(matrix.values.scalar_type() == type && dense.scalar_type() == type, op,
              ": expected operands of one dtype, got ", matrix.values.scalar_type(), ", ", dense.scalar_type(), " and ",
              type);
  if (out.numel() == 0) return;
  const auto factor = std::complex<double>(alpha.toComplexDouble()),
             kept = std::complex<double>(beta.toComplexDouble());
  const at::Tensor right = readable(dense);
  const at::Tensor old = kept == 0.0 ? at::Tensor() : readable(base).expand(out.sizes());
  TORCH_CHECK(!old.defined() || old.scalar_type() == type, op, ": expected input of dtype ", type);
  const dlprim::SparseRows rows{view_of(matrix.starts, op), view_of(matrix.columns, op), view_of(matrix.values, op),
                                dense.size(0)};
  dlprim::sparse_product(current_queue(out.device()), rows, view_of(right, op),
                         old.defined() ? view_of(old, op) : dlprim::TensorView(), view_of(out, op), factor, kept);
}

std::pair<at::Tensor, at::Tensor> multiply_sparse_rows(const EntriesByRow& a, const EntriesByRow& b, int64_t columns) {
  const at::Tensor starts = b.starts.to(at::kLong), inner = a.columns.to(at::kLong);
  const at::Tensor rows =
      at::repeat_interleave(a.starts.diff().to(at::kLong), std::optional<int64_t>(a.columns.size(0)));
  const auto [entry, place] = repeated(starts.diff().index_select(0, inner));
  const at::Tensor other = starts.index_select(0, inner.index_select(0, entry)).add_(place);
  const at::Tensor positions =
      rows.index_select(0, entry).mul_(columns).add_(b.columns.to(at::kLong).index_select(0, other));
  const at::ScalarType type = a.values.scalar_type();
  const bool narrow = c10::isReducedFloatingType(type);  // products are summed as they are, in float
  const at::Tensor x = narrow ? a.values.to(at::kFloat) : a.values, y = narrow ? b.values.to(at::kFloat) : b.values;
  const Runs runs = runs_of(positions);
  const at::Tensor sums = sums_of_runs(runs, x.index_select(0, entry).mul_(y.index_select(0, other)));
  return {runs.keys, sums.to(type)};
}

at::Tensor flat_positions(const at::Tensor& indices, at::IntArrayRef sizes) {
  at::Tensor result = at::zeros({indices.size(1)}, indices.options());
  for (int64_t d = 0; d < indices.size(0); d++) result.mul_(sizes[std::size_t(d)]).add_(indices.select(0, d));
  return result;
}

at::Tensor checked_base(const char* op, const at::Tensor& base, const at::Tensor& mat1, const at::Tensor& mat2) {
  TORCH_CHECK(mat1.dim() == 2, "mat1 must be a matrix, got ", mat1.dim(), "-D tensor");
  TORCH_CHECK(mat2.dim() == 2, "mat2 must be a matrix, got ", mat2.dim(), "-D tensor");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", mat1.size(0), "x",
              mat1.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  const std::array<int64_t, 2> sizes{mat1.size(0), mat2.size(1)};
  if (base.sizes() == at::IntArrayRef(sizes)) return base;
  TORCH_CHECK(base.layout() == at::kStrided, op, ": expected a sparse input of sizes [", mat1.size(0), ", ",
              mat2.size(1), "], got ", base.sizes());
  return base.expand(sizes);
}

at::Tensor& scaled_base(const at::Tensor& base, const at::Scalar& beta, at::Tensor& out) {
  const auto factor = beta.toComplexDouble();
  if (factor == 0.) return out.zero_();
  if (!out.is_same(base)) out.copy_(base);
  return factor == 1. ? out : out.mul_(beta);
}

}  // namespace pytorch_ocl
