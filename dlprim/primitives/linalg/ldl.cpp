// SPDX-License-Identifier: MIT
// Symmetric indefinite matrices (J. Bunch, L. Kaufman, 1977; G. Golub, C. Van Loan, Matrix Computations, 4.4): a
// work-group a matrix, unblocked. Solves are triangular ones with the blocks of D between.
#include <dlprim/primitives/copy.hpp>

#include "../grid.hpp"
#include "../narrow.hpp"
#include "linalg.hpp"

namespace dlprim {

using namespace linalg;

namespace {

struct Key {
  DataType type;
  std::uint8_t kernel, hermitian, group;
};

enum Which : std::uint8_t { factor, unpack, blocks };

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  constexpr const char* names[] = {"ldl_factor", "ldl_unpack", "ldl_blocks"};
  return cache.get(queue.device(), key, [&] {
    return source(key.kernel == factor ? "ldl.cl" : "ldl_solve.cl", names[key.kernel], key.type)
        .define(key.kernel == factor ? "SIDE" : "GROUP", std::int64_t(key.group))
        .define("HERMITIAN", std::int64_t(key.hermitian));
  });
}

void check_factor(const char* op, const TensorView& a, const TensorView& pivots) {
  check_matrix(op, a);
  check(a.size(1) == a.size(2) && pivots.dtype == DataType::int32 && pivots.dims == 2 && pivots.is_contiguous() &&
            pivots.size(0) == a.size(0) && pivots.size(1) == a.size(1),
        op, "square matrices and pivots of int32 [batch, n], contiguous");
}

}  // namespace

void ldl_factor(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& info, bool hermitian) {
  check_factor("ldl_factor", a, pivots);
  check(info.dtype == DataType::int32 && info.is_contiguous() && info.numel() == a.size(0), "ldl_factor",
        "info of int32 [batch]");
  if (a.numel() == 0) return fill(queue, info, 0);
  const std::int64_t n = a.size(1);
  std::size_t side = n <= 32 || queue.device().info().cpu ? 8 : 16;
  while (side * side > queue.device().info().max_work_group) side /= 2;
  const Key key{a.dtype, factor, hermitian && is_complex(a.dtype), std::uint8_t(side)};
  const struct {
    Strides a;
    cl_int n, unused;
  } p{strides_of(a), narrow("ldl_factor", "rows", n), 0};
  launch(queue, kernel_for(queue, key), NDRange(std::size_t(a.size(0)) * side * side, side * side), a.data, pivots.data,
         info.data, p);
}

void ldl_solve(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& x, bool hermitian) {
  check_factor("ldl_solve", a, pivots);
  check(x.dims == 3 && x.dtype == a.dtype && x.size(0) == a.size(0) && x.size(1) == a.size(1), "ldl_solve",
        "right sides of as many rows, of the dtype of the factors");
  if (x.numel() == 0) return;
  const std::int64_t batch = a.size(0), n = a.size(1), columns = x.size(2);
  const bool adjoint = hermitian && is_complex(a.dtype);
  const Temporary l(queue, a.dtype, {batch, n, n}), before(queue, a.dtype, {batch, n, columns}),
      order(queue, DataType::int32, {batch, n}), kinds(queue, DataType::int32, {batch, n});
  copy_part(queue, l, a, MatrixPart::lower);
  const Key key{a.dtype, unpack, adjoint, std::uint8_t(fitting_group(queue.device().info(), 64))};
  const struct {
    Strides a;
    cl_int n, chunks;
  } p{strides_of(l), narrow("ldl_solve", "rows", n), cl_int(n / key.group + 1)};
  launch(queue, kernel_for(queue, key), NDRange(std::size_t(batch * p.chunks) * key.group, key.group), l.view().data,
         pivots.data, order.view().data, kinds.view().data, p);
  copy_part(queue, before, x, MatrixPart::all);
  permute_rows(queue, x, before, order, false);
  triangular_solve(queue, l, x, {.upper = false, .unit = true, .conjugate = false});
  const struct {
    Strides a, x;
    cl_long rows, columns, batches;
  } q{strides_of(a), strides_of(x), n, columns, batch};
  launch(queue, kernel_for(queue, {a.dtype, blocks, adjoint, 1}), Grid(columns, n, batch).range(), a.data, x.data,
         kinds.view().data, q);
  triangular_solve(queue, transposed(l), x, {.upper = true, .unit = true, .conjugate = adjoint});
  copy_part(queue, before, x, MatrixPart::all);
  permute_rows(queue, x, before, order, true);
}

}  // namespace dlprim
