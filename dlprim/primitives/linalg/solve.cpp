// SPDX-License-Identifier: MIT
// Triangular systems: halves of the matrix one after the other, with a product between them; the smallest by substitution.
#include "linalg.hpp"

namespace dlprim {

using namespace linalg;

namespace {

constexpr std::int64_t leaf = 64;  // rows solved by substitution

struct Key {
  DataType type;
  std::uint8_t tile, group, unit, conjugate;
};

void substitute(Queue& queue, const TensorView& a, const TensorView& x, const Triangle& t) {
  static KernelCache<Key> cache;
  const DeviceInfo& device = queue.device().info();
  const bool small = device.cpu || is_complex(a.dtype);
  const Key key{a.dtype, std::uint8_t(small ? 16 : 32), std::uint8_t(fitting_group(device, 64)), t.unit, t.conjugate};
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    return source("solve.cl", "triangular_solve", key.type)
        .define("TILE", std::int64_t(key.tile))
        .define("GROUP", std::int64_t(key.group))
        .define("UNIT", std::int64_t(key.unit))
        .define("CONJUGATE", std::int64_t(key.conjugate));
  });
  struct {
    Strides a, x;
    cl_long columns, chunks;
    cl_int n, unused;
  } p{strides_of(a), strides_of(x), x.size(2), (x.size(2) + key.group - 1) / key.group, cl_int(a.size(1)), 0};
  BufferRef a_data = a.data, x_data = x.data;
  if (t.upper) {  // seen from its last element, it is lower
    a_data.offset += std::size_t((p.n - 1) * (p.a.row + p.a.col)) * size_of(a.dtype);
    x_data.offset += std::size_t((p.n - 1) * p.x.row) * size_of(a.dtype);
    p.a.row = -p.a.row, p.a.col = -p.a.col, p.x.row = -p.x.row;
  }
  launch(queue, kernel, NDRange(std::size_t(p.chunks * x.size(0) * key.group), key.group), a_data, x_data, p);
}

void solve(Queue& queue, const TensorView& a, const TensorView& x, const Triangle& t) {
  const std::int64_t n = a.size(1), k = x.size(2);
  if (n <= leaf) return substitute(queue, a, x, t);
  const std::int64_t half = (n / 2 + leaf - 1) / leaf * leaf, rest = n - half;
  const TensorView top = block(x, 0, 0, half, k), bottom = block(x, half, 0, rest, k);
  if (t.upper) {
    solve(queue, block(a, half, half, rest, rest), bottom, t);
    multiply(queue, block(a, 0, half, half, rest), bottom, top, -1, 1);
    solve(queue, block(a, 0, 0, half, half), top, t);
  } else {
    solve(queue, block(a, 0, 0, half, half), top, t);
    multiply(queue, block(a, half, 0, rest, half), top, bottom, -1, 1);
    solve(queue, block(a, half, half, rest, rest), bottom, t);
  }
}

}  // namespace

void triangular_solve(Queue& queue, const TensorView& a, const TensorView& x, const Triangle& triangle) {
  check_matrix("triangular_solve", a);
  check(a.size(1) == a.size(2) && x.dims == 3 && x.dtype == a.dtype && x.size(0) == a.size(0) && x.size(1) == a.size(1),
        "triangular_solve", "square matrices and right sides of as many rows, of one dtype");
  if (x.numel() == 0) return;
  Triangle t = triangle;
  t.conjugate = t.conjugate && is_complex(a.dtype);
  Temporary storage;
  if (!t.conjugate || a.size(1) <= leaf) return solve(queue, a, x, t);
  const TensorView plain = conjugated(queue, a, storage);  // products know no conjugate operands
  t.conjugate = false;
  solve(queue, plain, x, t);
}

}  // namespace dlprim
