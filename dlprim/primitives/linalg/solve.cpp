// SPDX-License-Identifier: MIT
// Triangular systems: halves of the matrix one after the other, with a product between them; the smallest by substitution,
// or, of one large matrix on a GPU, by products with inverses of the blocks on the diagonal, all made at once.
#include <dlprim/primitives/copy.hpp>

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
  // On CPUs no work-item and no row of a tile are in vain.
  const bool narrow = device.cpu && x.size(2) <= 16, low = device.cpu && a.size(1) <= 8;
  const Key key{a.dtype,
                std::uint8_t(low     ? 8
                             : small ? 16
                                     : 32),
                std::uint8_t(fitting_group(device, narrow ? 16 : 64)), t.unit, t.conjugate};
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

constexpr std::int64_t pair = 2 * leaf;  // rows of an inverted block

// The squares of `rows` rows on the diagonal of one matrix.
TensorView diagonal_blocks(const TensorView& a, std::int64_t rows) {
  const std::int64_t sizes[] = {a.size(1) / rows, rows, rows};
  const std::int64_t strides[] = {rows * (a.strides[1] + a.strides[2]), a.strides[1], a.strides[2]};
  return TensorView(a.data, a.dtype, sizes, strides);
}

// The inverses [n / pair, pair, pair] of blocks of `a` [1, n, n]: of halves of them by substitution, then
// (A 0; C D)^-1 = (A^-1 0; -D^-1 C A^-1 D^-1).
Temporary inverses(Queue& queue, const TensorView& a, const Triangle& t) {
  const std::int64_t count = a.size(1) / pair;
  const TensorView whole = block(a, 0, 0, count * pair, count * pair);
  const Temporary halves(queue, a.dtype, {2 * count, leaf, leaf}), products(queue, a.dtype, {count, leaf, leaf});
  copy_part(queue, halves, {}, MatrixPart::identity);
  substitute(queue, diagonal_blocks(whole, leaf), halves, t);
  Temporary result(queue, a.dtype, {count, pair, pair});
  fill(queue, result, 0);
  const std::int64_t sizes[] = {count, 2, leaf, leaf}, strides[] = {pair * pair, leaf * (pair + 1), pair, 1};
  copy(queue, TensorView(result.view().data, a.dtype, sizes, strides), halves.view().reshaped({count, 2, leaf, leaf}));
  const std::int64_t row = t.upper ? 0 : leaf, column = leaf - row;
  const TensorView corner = block(diagonal_blocks(whole, pair), row, column, leaf, leaf);
  multiply(queue, corner, block(result, column, column, leaf, leaf), products);
  multiply(queue, block(result, row, row, leaf, leaf), products, block(result, row, column, leaf, leaf), -1);
  return result;
}

// y = a^-1 x; x is overwritten. `inverted` has the blocks of `a` from row `from` on.
void solve_by_inverses(Queue& queue, const TensorView& a, const TensorView& x, const TensorView& y,
                       const TensorView& inverted, std::int64_t from, const Triangle& t) {
  const std::int64_t n = a.size(1), k = x.size(2);
  if (n == pair) return multiply(queue, inverted.narrowed(0, from / pair, 1), x, y);
  if (n < pair) return solve(queue, a, x, t), copy(queue, y, x);
  const std::int64_t half = (n / 2 + pair - 1) / pair * pair, rest = n - half;
  auto part = [&](bool second) {
    const std::int64_t at = second ? half : 0, rows = second ? rest : half;
    solve_by_inverses(queue, block(a, at, at, rows, rows), block(x, at, 0, rows, k), block(y, at, 0, rows, k), inverted,
                      from + at, t);
  };
  part(t.upper);
  if (t.upper)
    multiply(queue, block(a, 0, half, half, rest), block(y, half, 0, rest, k), block(x, 0, 0, half, k), -1, 1);
  else multiply(queue, block(a, half, 0, rest, half), block(y, 0, 0, half, k), block(x, half, 0, rest, k), -1, 1);
  part(!t.upper);
}

void solve_large(Queue& queue, const TensorView& a, const TensorView& x, const Triangle& t) {
  const bool by_columns = x.strides[1] <= x.strides[2];
  const Temporary storage(queue, x.dtype, {1, x.size(by_columns ? 2 : 1), x.size(by_columns ? 1 : 2)});
  const TensorView y = by_columns ? transposed(storage) : storage.view();
  solve_by_inverses(queue, a, x, y, inverses(queue, a, t), 0, t);
  copy(queue, x, y);
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
  const bool large = queue.device().info().gpu && a.size(0) == 1 && a.size(1) >= 2 * pair;
  if (large && !t.conjugate) return solve_large(queue, a, x, t);
  if (!t.conjugate || a.size(1) <= leaf) return solve(queue, a, x, t);
  const TensorView plain = conjugated(queue, a, storage);  // products know no conjugate operands
  t.conjugate = false;
  if (large) solve_large(queue, plain, x, t);
  else solve(queue, plain, x, t);
}

}  // namespace dlprim
