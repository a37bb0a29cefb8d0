// SPDX-License-Identifier: MIT
// Compressed sparse tensors: what PyTorch writes anew for each device. The rest is its host code
// (operators/sparse_csr.yaml).
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_convert_indices_from_coo_to_csr.h>
#include <ATen/ops/_convert_indices_from_csr_to_coo.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_to_sparse_bsc_native.h>
#include <ATen/ops/_to_sparse_bsr_native.h>
#include <ATen/ops/_to_sparse_native.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/zeros.h>
#include <dlprim/primitives/sparse.hpp>

#include "generated/functions/sparse_csr.h"
#include "ops/sparse_rows.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::sparse_csr {

namespace {

bool is_compressed(const at::Tensor& tensor) { return at::sparse_csr::is_sparse_compressed(tensor); }

at::Tensor made(const at::Tensor& compressed, const at::Tensor& plain, const at::Tensor& values, at::IntArrayRef sizes,
                at::Layout layout) {
  return at::_sparse_compressed_tensor_unsafe(compressed, plain, values, sizes,
                                              values.options().layout(layout).requires_grad(false));
}

// Makes `out` what `result` is.
at::Tensor& take(at::Tensor& out, const at::Tensor& result) {
  TORCH_CHECK(out.layout() == result.layout(), "expected a result of layout ", result.layout(), ", got ", out.layout());
  const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(result);
  at::sparse_csr::get_sparse_csr_impl(out)->set_member_tensors(compressed, plain, result.values().to(out.scalar_type()),
                                                               result.sizes());
  return out;
}

// Entries of a matrix in CSR (by columns: CSC) gathered in blocks of R x C.
at::Tensor in_blocks(const at::Tensor& self, at::IntArrayRef block, bool by_columns) {
  const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(self);
  const at::Tensor indices = at::_convert_indices_from_csr_to_coo(compressed, plain, false, by_columns);
  const at::Tensor row = indices.select(0, 0), column = indices.select(0, 1);
  const int64_t high = block[0], wide = block[1];
  const int64_t outer = by_columns ? self.size(1) / wide : self.size(0) / high;
  const int64_t inner = by_columns ? self.size(0) / high : self.size(1) / wide;
  const at::Tensor block_row = row.div(high, "floor"), block_column = column.div(wide, "floor");
  const at::Tensor key = by_columns ? block_column.mul(inner).add_(block_row) : block_row.mul(inner).add_(block_column);
  const auto [keys, which, counts] = at::_unique2(key, true, true);
  const at::Tensor values = self.values();
  std::vector<int64_t> sizes = values.sizes().slice(1).vec(), flat = sizes;
  sizes.insert(sizes.begin(), {keys.size(0), high, wide});
  flat.insert(flat.begin(), keys.size(0) * high * wide);
  const at::Tensor result = at::zeros(sizes, values.options());
  const at::Tensor place = which.mul(high * wide).add_(row.remainder(high).mul_(wide)).add_(column.remainder(wide));
  if (values.numel() > 0) result.view(flat).index_copy_(0, place, values);
  const bool narrow = compressed.scalar_type() == at::kInt;
  const at::Tensor starts =
      at::_convert_indices_from_coo_to_csr(keys.div(inner == 0 ? 1 : inner, "floor"), outer, narrow);
  return made(starts, keys.remainder(inner == 0 ? 1 : inner).to(compressed.scalar_type()), result, self.sizes(),
              by_columns ? at::kSparseBsc : at::kSparseBsr);
}

at::Tensor of_layout(const at::Tensor& coordinates, const at::Tensor& like) {
  const bool blocks = like.layout() == at::kSparseBsr || like.layout() == at::kSparseBsc;
  if (!blocks) return coordinates.to_sparse(like.layout());
  return coordinates.to_sparse(like.layout(), at::IntArrayRef(at::sparse_csr::getBlockSize(like)));
}

at::ScalarType index_type_of(const at::Tensor& tensor) {
  return std::get<0>(at::sparse_csr::getCompressedPlainIndices(tensor)).scalar_type();
}

// The same matrix under indices of another dtype: what coordinates became has int64.
at::Tensor with_index_type(const at::Tensor& self, at::ScalarType type) {
  const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(self);
  return made(compressed.to(type), plain.to(type), self.values(), self.sizes(), self.layout());
}

void check_add(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  TORCH_CHECK(self.sizes().equals(other.sizes()),
              "torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape ",
              self.sizes(), " and tensor `other` with shape ", other.sizes());
  const at::ScalarType common = at::result_type(self, other);
  TORCH_CHECK(at::canCast(common, out.scalar_type()), "Can't convert result type ", common, " to output ",
              out.scalar_type(), " in add operation");
}

at::Tensor with_values(const at::Tensor& self, const at::Tensor& values) {
  const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(self);
  return made(compressed.clone(), plain.clone(), values, self.sizes(), self.layout());
}

// alpha * mat1 * mat2 + beta * base of three sparse matrices, in CSR.
at::Tensor sparse_product(const at::Tensor& base, const at::Tensor& mat1, const at::Tensor& mat2,
                          const at::Scalar& beta, const at::Scalar& alpha) {
  const EntriesByRow a = rows_of_sparse(mat1), b = rows_of_sparse(mat2);
  const int64_t rows = mat1.size(0), columns = mat2.size(1);
  auto [positions, values] = multiply_sparse_rows(a, b, columns);
  if (alpha.toComplexDouble() != 1.) values = values.mul(alpha);
  const at::Tensor starts = at::_convert_indices_from_coo_to_csr(positions.div(std::max<int64_t>(columns, 1), "floor"),
                                                                 rows, a.starts.scalar_type() == at::kInt);
  const at::Tensor product = made(starts, positions.remainder(std::max<int64_t>(columns, 1)).to(a.starts.scalar_type()),
                                  values, {rows, columns}, at::kSparseCsr);
  const bool kept = beta.toComplexDouble() != 0. && base._nnz() > 0;
  return kept ? at::add(product, base.to_sparse_csr(), beta) : product;
}

// A stack of matrices as one with the matrices along its diagonal: rows of all, columns of all.
EntriesByRow stacked_rows(const at::Tensor& matrices) {
  const at::Tensor rows = matrices.to_sparse_csr();
  const at::Tensor starts = rows.crow_indices(), columns = rows.col_indices();
  const int64_t batch = starts.numel() / starts.size(-1), entries = columns.size(-1), height = starts.size(-1) - 1;
  const at::Tensor number = at::arange(batch, starts.options().dtype(at::kLong)).unsqueeze(1);
  const at::Tensor all = starts.reshape({batch, -1}).narrow(1, 0, height).add(number.mul(entries)).reshape({-1});
  return {at::cat({all, at::full({1}, batch * entries, all.options())}),
          columns.reshape({batch, entries}).add(number.mul(matrices.size(-1))).reshape({-1}),
          rows.values().reshape({-1}).resolve_conj().contiguous()};
}

}  // namespace

// PyTorch's host code leaves the compressed indices as they come, which a check of them may refuse.
at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<at::Device> device,
                               std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format) {
  const bool plain = (layout == at::kSparseCsr || layout == at::kSparseCsc) && size.size() >= 2;
  if (!plain) return at::native::empty_sparse_compressed(size, dtype, layout, device, pin_memory, memory_format);
  for (const int64_t length : size)
    TORCH_CHECK(length >= 0, "Trying to create tensor with negative dimension ", length, ": ", size);
  std::vector<int64_t> batch = size.slice(0, size.size() - 2).vec(), starts = batch;
  starts.push_back(size[size.size() - (layout == at::kSparseCsr ? 2 : 1)] + 1), batch.push_back(0);
  const auto options = at::TensorOptions().device(device);
  return made(at::zeros(starts, options.dtype(at::kLong)), at::empty(batch, options.dtype(at::kLong)),
              at::empty(batch, options.dtype(dtype)), size, *layout);
}

at::Tensor _to_sparse_bsr(const at::Tensor& self, at::IntArrayRef blocksize, std::optional<int64_t> dense_dim) {
  const bool plain = self.layout() == at::kSparseCsr && self.dim() - self.dense_dim() == 2 && !dense_dim &&
                     blocksize.size() == 2 && blocksize[0] > 0 && blocksize[1] > 0 &&
                     self.size(0) % blocksize[0] == 0 && self.size(1) % blocksize[1] == 0;
  if (plain) return in_blocks(self, blocksize, false);
  return at::native::sparse_compressed_to_sparse_bsr(self, blocksize, dense_dim);
}

at::Tensor _to_sparse_bsc(const at::Tensor& self, at::IntArrayRef blocksize, std::optional<int64_t> dense_dim) {
  const bool plain = self.layout() == at::kSparseCsc && self.dim() - self.dense_dim() == 2 && !dense_dim &&
                     blocksize.size() == 2 && blocksize[0] > 0 && blocksize[1] > 0 &&
                     self.size(0) % blocksize[0] == 0 && self.size(1) % blocksize[1] == 0;
  if (plain) return in_blocks(self, blocksize, true);
  return at::native::sparse_compressed_to_sparse_bsc(self, blocksize, dense_dim);
}

// PyTorch's host code goes to its own functions for blocks, which compute on the CPU.
at::Tensor _to_sparse(const at::Tensor& self, std::optional<at::Layout> layout, at::OptionalIntArrayRef blocksize,
                      std::optional<int64_t> dense_dim) {
  const bool blocks = self.layout() == at::kSparseBsr || self.layout() == at::kSparseBsc;
  if (blocksize && !blocks && layout == at::kSparseBsr) return _to_sparse_bsr(self, *blocksize, dense_dim);
  if (blocksize && !blocks && layout == at::kSparseBsc) return _to_sparse_bsc(self, *blocksize, dense_dim);
  return at::native::sparse_compressed_to_sparse(self, layout, blocksize, dense_dim);
}

at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  check_add(self, other, out);
  if (!is_compressed(self)) return at::add_out(out, self, other.to_sparse(), alpha);
  if (!is_compressed(other)) {
    at::Tensor sum = at::add(other.mul(alpha), self.to_sparse());
    at::native::resize_output(out, sum.sizes());
    return out.copy_(sum);
  }
  TORCH_CHECK(self.layout() == other.layout(), "add: expected sparse tensors of one layout, got ", self.layout(),
              " and ", other.layout());
  TORCH_CHECK(is_compressed(out), "add: expected a sparse result of two sparse tensors");
  const at::ScalarType common = at::result_type(self, other);
  const auto scaled = [&](const at::Tensor& t, bool by_alpha) {
    return with_values(t, by_alpha ? t.values().to(common).mul(alpha) : t.values().to(common));
  };
  if (other._nnz() == 0) return out.is_same(self) ? out : take(out, scaled(self, false));
  if (self._nnz() == 0) return take(out, scaled(other, true));
  TORCH_CHECK(self.dim() - self.dense_dim() == 2, "add: sparse tensors with batch dimensions are not supported");
  const at::Tensor a = self.to_sparse(), b = scaled(other, true).to_sparse();
  const at::Tensor sum = of_layout(at::add(a, b).coalesce().to(out.scalar_type()), self);
  return take(out, with_index_type(sum, c10::promoteTypes(index_type_of(self), index_type_of(other))));
}

at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  const at::Tensor base = checked_base("addmm", self, mat1, mat2);
  const bool left = mat1.layout() != at::kStrided, right = mat2.layout() != at::kStrided;
  if (out.layout() != at::kStrided) {
    TORCH_CHECK(left && right, "addmm: computation on ocl is not implemented for ", out.layout(), " + ", mat1.layout(),
                " @ ", mat2.layout());
    TORCH_CHECK(base.layout() != at::kStrided, "addmm: expected a sparse input for a sparse result");
    const at::Tensor product = sparse_product(base, mat1, mat2, beta, alpha);
    return take(out, out.layout() == at::kSparseCsr ? product : product.to_sparse(out.layout()));
  }
  if (!out.is_same(self)) at::native::resize_output(out, base.sizes());
  if (out.numel() == 0) return out;
  const at::Tensor dense = base.layout() == at::kStrided ? base : base.to_dense();
  if ((left && mat1._nnz() == 0) || (right && mat2._nnz() == 0)) return scaled_base(dense, beta, out);
  if (left)
    multiply_rows("addmm_out_sparse_csr", rows_of_sparse(mat1), right ? mat2.to_dense() : mat2, dense, out, beta,
                  alpha);
  else multiply_rows("addmm_out_sparse_csr", columns_of_sparse(mat2), mat1.t(), dense.t(), out.t(), beta, alpha);
  return out;
}

at::Tensor& addmv_out(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(mat.dim() == 2, "addmv: Expected mat to be 2-D");
  TORCH_CHECK(vec.dim() == 1, "addmv: Expected vec to be 1-D");
  TORCH_CHECK(mat.size(1) == vec.size(0), "size mismatch, got input (", self.size(0), "), mat (", mat.size(0), "x",
              mat.size(1), "), vec (", vec.size(0), ")");
  const at::Tensor base = self.expand({mat.size(0)});
  if (!out.is_same(self)) at::native::resize_output(out, base.sizes());
  if (out.numel() == 0) return out;
  if (mat._nnz() == 0) return scaled_base(base, beta, out);
  multiply_rows("addmv_out_sparse_csr", rows_of_sparse(mat), vec.unsqueeze(1), base.unsqueeze(1), out.unsqueeze(1),
                beta, alpha);
  return out;
}

at::Tensor& baddbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                        const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  for (const at::Tensor* tensor : {&self, &batch2, static_cast<const at::Tensor*>(&out)})
    TORCH_CHECK(tensor->layout() == at::kStrided,
                "torch.baddbmm: Expected self, mat2 and the result to be strided, but got layout ", tensor->layout());
  TORCH_CHECK(
      batch1.dim() == 3 && batch2.dim() == 3 && batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1),
      "baddbmm: expected batch1 [b, n, m] and batch2 [b, m, p], got ", batch1.sizes(), " and ", batch2.sizes());
  const std::vector<int64_t> sizes{batch1.size(0), batch1.size(1), batch2.size(2)};
  const at::Tensor base = self.expand(sizes);
  if (!out.is_same(self)) at::native::resize_output(out, sizes);
  if (out.numel() == 0) return out;
  if (batch1._nnz() == 0) return scaled_base(base, beta, out);
  const at::Tensor dense = batch2.reshape({-1, sizes[2]}),
                   product = at::empty({sizes[0] * sizes[1], sizes[2]}, out.options());
  multiply_rows("baddbmm_out_sparse_csr", stacked_rows(batch1), dense, base.reshape(product.sizes()), product, beta,
                alpha);
  return out.copy_(product.view(sizes));
}

at::Tensor& bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  TORCH_CHECK(self.dim() == 3 && mat2.dim() == 3, "bmm: expected 3-D tensors, got ", self.dim(), "-D and ", mat2.dim(),
              "-D");
  at::native::resize_output(out, {self.size(0), self.size(1), mat2.size(2)});
  return baddbmm_out(out, self, mat2, 0, 1, out);
}

namespace {

// A batch of one matrix.
at::Tensor repeated(const at::Tensor& matrix, at::IntArrayRef batch) {
  auto expanded = [&](const at::Tensor& x, int64_t size) {
    std::vector<int64_t> sizes = batch.vec();
    sizes.push_back(size);
    return x.expand(sizes).contiguous();
  };
  std::vector<int64_t> sizes = batch.vec();
  sizes.insert(sizes.end(), {matrix.size(0), matrix.size(1)});
  return at::_sparse_compressed_tensor_unsafe(expanded(matrix.crow_indices(), matrix.size(0) + 1),
                                              expanded(matrix.col_indices(), matrix._nnz()),
                                              expanded(matrix.values(), matrix._nnz()), sizes, matrix.options());
}

}  // namespace

at::Tensor& sparse_sampled_addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                     const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  const char* op = "sparse_sampled_addmm";
  TORCH_CHECK(self.layout() == at::kSparseCsr && out.layout() == at::kSparseCsr, op,
              ": Expected self and the result to have sparse csr layout, but got ", self.layout(), " and ",
              out.layout());
  TORCH_CHECK(mat1.layout() == at::kStrided && mat2.layout() == at::kStrided, op,
              ": Expected mat1 and mat2 to have strided layout, but got ", mat1.layout(), " and ", mat2.layout());
  TORCH_CHECK(self.scalar_type() == mat1.scalar_type() && mat1.scalar_type() == mat2.scalar_type(), op,
              ": Expected mat1 and mat2 to have the dtype of self, but got ", mat1.scalar_type(), ", ",
              mat2.scalar_type(), " and ", self.scalar_type());
  TORCH_CHECK(mat1.dim() >= 2 && mat2.dim() >= 2, op,
              ": Expected mat1 and mat2 to have at least 2 dimensions, but got ", mat1.dim(), " and ", mat2.dim());
  const int64_t dims = mat1.dim();
  TORCH_CHECK(mat1.sizes().slice(0, std::size_t(dims - 2)) == mat2.sizes().slice(0, std::size_t(mat2.dim() - 2)), op,
              ": Expected mat1 and mat2 to have the same batch size, but got ", mat1.sizes(), " and ", mat2.sizes());
  TORCH_CHECK(mat1.size(-1) == mat2.size(-2), "mat1 and mat2 shapes cannot be multiplied (", mat1.size(-2), "x",
              mat1.size(-1), " and ", mat2.size(-2), "x", mat2.size(-1), ")");
  if (self.dim() == 2 && dims > 2) {  // of all products
    return sparse_sampled_addmm_out(repeated(self, mat1.sizes().slice(0, std::size_t(dims - 2))), mat1, mat2, beta,
                                    alpha, out);
  }
  TORCH_CHECK(self.dim() == dims &&
                  self.sizes().slice(0, std::size_t(dims - 1)) == mat1.sizes().slice(0, std::size_t(dims - 1)) &&
                  self.size(-1) == mat2.size(-1),
              op, ": Expected self to be a batch of ", mat1.size(-2), "x", mat2.size(-1), " matrices as mat1, but got ",
              self.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()) || at::isComplexType(self.scalar_type()), "\"", op,
                              "\" not implemented for '", self.scalar_type(), "'");
  if (!out.is_same(self)) take(out, self.clone());
  if (self._nnz() == 0 || self.numel() == 0) return out;
  const int64_t height = self.size(-2), width = self.size(-1), inner = mat1.size(-1);
  const at::Tensor starts = self.crow_indices(), plain = self.col_indices();
  const int64_t batch = starts.numel() / starts.size(-1), entries = plain.size(-1);
  const at::Tensor place =
      at::_convert_indices_from_csr_to_coo(starts.reshape({batch, -1}), plain.reshape({batch, entries}));
  const at::Tensor rows = place.select(0, 1).add(place.select(0, 0), height);
  const at::Tensor columns = place.select(0, 2).add(place.select(0, 0), width);
  const at::Tensor left = mat1.resolve_conj().reshape({batch * height, inner});
  const at::Tensor right = mat2.resolve_conj().transpose(-2, -1).reshape({batch * width, inner}).contiguous().t();
  const at::Tensor old = self.values().resolve_conj().contiguous().view({-1}), values = at::empty_like(old);
  dlprim::sampled_product(current_queue(out.device()), view_of(rows, op), view_of(columns, op), view_of(left, op),
                          view_of(right, op), view_of(old, op), view_of(values, op),
                          std::complex<double>(alpha.toComplexDouble()), std::complex<double>(beta.toComplexDouble()));
  out.values().copy_(values.view(out.values().sizes()));
  return out;
}

at::Tensor sparse_sampled_addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                const at::Scalar& beta, const at::Scalar& alpha) {
  at::Tensor out = at::empty({0, 0}, self.options());
  return sparse_sampled_addmm_out(self, mat1, mat2, beta, alpha, out);
}

namespace {

// Sums (or products) of the columns, the rows, or of all, as a matrix of rows whose empty positions are left out.
at::Tensor reduced(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype,
                   bool product) {
  TORCH_CHECK(self.layout() == at::kSparseCsr && self.dim() == 2, "expected a 2-D sparse csr tensor, got ",
              self.layout());
  TORCH_CHECK(keepdim, "reduction operations on CSR tensors with keepdim=False is unsupported");
  std::array<bool, 2> over{dim.empty(), dim.empty()};
  for (const int64_t d : dim) over[std::size_t(at::maybe_wrap_dim(d, 2))] = true;
  at::Tensor values = self.values();
  const bool integers = at::isIntegralType(values.scalar_type(), /*includeBool=*/true);
  if (dtype || integers) values = values.to(dtype.value_or(at::kLong));
  const auto index = self.crow_indices().options();
  if (over[0] && over[1]) {
    const int64_t entries = std::min<int64_t>(1, values.numel());
    const at::Tensor all = (product ? values.prod() : values.sum()).reshape({1}).narrow(0, 0, entries);
    return made(at::arange(2, index).mul_(entries), at::zeros({entries}, index), all,
                {1, std::min<int64_t>(1, self.size(1))}, self.layout());
  }
  const at::Tensor place = at::_convert_indices_from_csr_to_coo(self.crow_indices(), self.col_indices());
  const Runs runs = runs_of(place.select(0, over[0] ? 1 : 0).contiguous());
  at::Tensor result;
  if (product) {
    const at::Tensor run_of = at::repeat_interleave(runs.starts.diff(), std::optional<int64_t>(values.size(0)));
    result = at::ones({runs.keys.size(0)}, values.options())
                 .scatter_reduce_(0, run_of, values.index_select(0, runs.order), "prod");
  } else {
    result = sums_of_runs(runs, values);
  }
  const int64_t entries = runs.keys.size(0);
  if (over[0])
    return made(at::arange(2, index).mul_(entries), runs.keys.to(index.dtype()), result, {1, self.size(1)},
                self.layout());
  const bool narrow = self.crow_indices().scalar_type() == at::kInt;
  return made(at::_convert_indices_from_coo_to_csr(runs.keys, self.size(0), narrow), at::zeros({entries}, index),
              result, {self.size(0), 1}, self.layout());
}

}  // namespace

at::Tensor _sparse_csr_sum_dim_dtype(const at::Tensor& self, at::IntArrayRef dim, bool keepdim,
                                     std::optional<at::ScalarType> dtype) {
  return reduced(self, dim, keepdim, dtype, false);
}

at::Tensor _sparse_csr_prod_dim_dtype(const at::Tensor& self, at::IntArrayRef dim, bool keepdim,
                                      std::optional<at::ScalarType> dtype) {
  return reduced(self, dim, keepdim, dtype, true);
}

// As CUDA's: the second result stays empty.
std::tuple<at::Tensor&, at::Tensor&> triangular_solve_X(const at::Tensor& self, const at::Tensor& A, bool upper,
                                                        bool transpose, bool unitriangular, at::Tensor& X,
                                                        at::Tensor& M) {
  const char* op = "triangular_solve";
  TORCH_CHECK(self.layout() == at::kStrided && X.layout() == at::kStrided, op,
              ": expected a strided right side and result, got ", self.layout(), " and ", X.layout());
  TORCH_CHECK(A.dim() == 2 && self.dim() == 2 && A.size(0) == A.size(1) && A.size(0) == self.size(0), op,
              ": expected a square sparse matrix and a right side of as many rows, got ", A.sizes(), " and ",
              self.sizes());
  TORCH_CHECK(A.scalar_type() == self.scalar_type(), op, ": expected operands of one dtype, got ", A.scalar_type(),
              " and ", self.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble ||
                                  self.scalar_type() == at::kComplexFloat || self.scalar_type() == at::kComplexDouble,
                              "\"", op, "\" not implemented for '", self.scalar_type(), "'");
  at::native::resize_output(X, self.sizes());
  if (X.numel() == 0) return {X, M};
  if (A._nnz() == 0) {
    X.fill_(std::numeric_limits<double>::quiet_NaN());  // whatever the diagonal is said to be
    return {X, M};
  }
  const EntriesByRow rows = transpose ? columns_of_sparse(A) : rows_of_sparse(A);
  if (!X.is_same(self)) X.copy_(self);
  const at::Tensor x = X.is_conj() ? at::Tensor(X.resolve_conj()) : X;
  dlprim::sparse_triangular_solve(
      current_queue(X.device()),
      {view_of(rows.starts, op), view_of(rows.columns, op), view_of(rows.values, op), A.size(0)}, view_of(x, op),
      upper != transpose, unitriangular);
  if (!x.is_same(X)) X.copy_(x);
  return {X, M};
}

}  // namespace pytorch_ocl::sparse_csr
