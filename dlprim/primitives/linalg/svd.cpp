// SPDX-License-Identifier: MIT
// Singular values: columns made orthogonal by one-sided rotations and sorted by their norms. Their QR factors give left
// vectors that are orthogonal whatever the norms, and complete them.
#include <dlprim/primitives/copy.hpp>

#include "../grid.hpp"
#include "jacobi.hpp"
#include "whole.hpp"

namespace dlprim {

using namespace linalg;

namespace {

// u = Q of `x` with the signs that make R's diagonal positive; `x` is overwritten.
void left_vectors(Queue& queue, const TensorView& x, const TensorView& u) {
  const Temporary tau(queue, x.dtype, {x.size(0), x.size(2)});
  qr_factor(queue, x, tau, true);
  orthogonal_factor(queue, x, tau, u);
  const struct {
    Strides u, r;
    cl_long rows, columns;
  } p{strides_of(u), strides_of(x), u.size(1), x.size(2)};
  launch(queue, column_kernel(queue, x.dtype, ColumnKernel::orient), Grid(p.columns, p.rows, u.size(0)).range(), u.data,
         x.data, p, cl_long(u.size(0)));
}

// Of more rows than a work-item takes, on CPUs: R's, whose left vectors Q turns.
void svd_of_r(Queue& queue, const TensorView& a, const TensorView& u, const TensorView& s, const TensorView& v,
              const TensorView& info) {
  const std::int64_t batch = a.size(0), m = a.size(1), n = a.size(2);
  const Temporary scales = norms_of(queue, a), columns(queue, a.dtype, {batch, n, m}), tau(queue, a.dtype, {batch, n}),
                  r(queue, a.dtype, {batch, n, n}), values(queue, a.dtype, {batch, n});
  const TensorView x = transposed(columns);
  copy_part(queue, x, a, MatrixPart::all);
  divide(queue, x, scales);
  qr_factor(queue, x, tau, true);
  copy_part(queue, r, block(x, 0, 0, n, n), MatrixPart::upper);
  if (u.defined()) {
    const Temporary left(queue, a.dtype, {batch, n, n});
    svd_whole(queue, r, left, values, v, info);
    copy_part(queue, u, {}, MatrixPart::identity);
    copy(queue, block(u, 0, 0, n, n), left);
    reflect(queue, x, tau, u, false);
  } else {
    svd_whole(queue, r, {}, values, {}, info);
  }
  rank(queue, values, scales, s, true, a.dtype);
  report(queue, scales, info, -4, a.dtype, true);
}

}  // namespace

void svd(Queue& queue, const TensorView& a, const TensorView& u, const TensorView& s, const TensorView& v,
         const TensorView& info) {
  check_matrix("svd", a);
  const std::int64_t batch = a.size(0), m = a.size(1), n = a.size(2);
  const bool vectors = u.defined() && v.defined();
  check(m >= n && s.dtype == real_of(a.dtype) && s.is_contiguous() && s.dims == 2 && s.size(0) == batch &&
            s.size(1) == n && info.dtype == DataType::int32 && info.is_contiguous() && info.numel() == batch,
        "svd", "matrices of no more columns than rows, real values [batch, n] and info of int32 [batch], contiguous");
  check(!vectors || (u.dtype == a.dtype && v.dtype == a.dtype && u.dims == 3 && v.dims == 3 && u.size(1) == m &&
                     (u.size(2) == n || u.size(2) == m) && v.size(1) == n && v.size(2) == n),
        "svd", "left vectors [batch, m, n or m] and right vectors [batch, n, n] of the matrices' dtype");
  if (a.numel() == 0) return fill(queue, info, 0);
  const DeviceInfo& device = queue.device().info();
  const TensorView left = vectors ? u : TensorView();
  if (svd_is_whole(device, a.dtype, m)) return svd_whole(queue, a, left, s, v, info);
  if (svd_is_whole(device, a.dtype, n)) return svd_of_r(queue, a, left, s, v, info);
  const OneSided rotated = rotate_columns(queue, a);
  const TensorView x = block(rotated.x, 0, 0, m, n);
  const Temporary norms(queue, s.dtype, {batch, n});
  column_products(queue, x, x, norms, true);
  const Temporary order = rank(queue, norms, rotated.scales, s, true, a.dtype);
  report(queue, rotated.scales, info, -4, a.dtype);
  if (!rotated.converged) fill(queue, info, 1);
  if (!vectors) return;
  permute_rows(queue, transposed(v), transposed(block(rotated.v, 0, 0, n, n)), order, true);
  const Temporary sorted(queue, a.dtype, {batch, n, m});  // columns lie in memory one after the other
  permute_rows(queue, sorted, transposed(x), order, true);
  left_vectors(queue, transposed(sorted), u);
}

}  // namespace dlprim
