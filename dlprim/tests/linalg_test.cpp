// SPDX-License-Identifier: MIT
// Residuals of factorizations, in double on the host, relative to the roundoff of the type.
#include <dlprim/primitives/linalg.hpp>

#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;

using Values = std::vector<double>;

// One matrix on the host, row after row.
struct Host {
  std::int64_t rows, columns;
  Values values;
  Host(std::int64_t rows, std::int64_t columns) : rows(rows), columns(columns), values(std::size_t(rows * columns)) {}
  double& at(std::int64_t i, std::int64_t j) { return values[std::size_t(i * columns + j)]; }
  double at(std::int64_t i, std::int64_t j) const { return values[std::size_t(i * columns + j)]; }
};

Host product(const Host& a, const Host& b) {
  Host c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; i++)
    for (std::int64_t k = 0; k < a.columns; k++)
      for (std::int64_t j = 0; j < b.columns; j++) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}

Host transpose(const Host& a) {
  Host t(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; i++)
    for (std::int64_t j = 0; j < a.columns; j++) t.at(j, i) = a.at(i, j);
  return t;
}

Host identity(std::int64_t n) {
  Host one(n, n);
  for (std::int64_t i = 0; i < n; i++) one.at(i, i) = 1;
  return one;
}

Host slice(const Values& all, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  Host result(rows, columns);
  const auto first = all.begin() + batch * rows * columns;
  result.values.assign(first, first + rows * columns);
  return result;
}

// |a - b| <= count * roundoff * sqrt(size) * max |b|
void expect_near(const Host& a, const Host& b, DataType type, double count) {
  double most = 0, scale = 1e-30;
  for (std::size_t i = 0; i < b.values.size(); i++) {
    if (!(std::fabs(a.values[i] - b.values[i]) <= most)) most = std::fabs(a.values[i] - b.values[i]);
    scale = std::max(scale, std::fabs(b.values[i]));
  }
  const double roundoff = type == DataType::float64 ? 1.2e-16 : 6e-8;
  EXPECT_LE(most, count * roundoff * std::sqrt(double(b.columns)) * scale);
}

std::vector<DataType> types() {
  std::vector<DataType> all{DataType::float32};
  if (supports(DataType::float64)) all.push_back(DataType::float64);
  return all;
}

// Seen as [B, m, n] where `by_columns`, in which order elements lie in memory then.
TensorView matrices_of(const DeviceTensor& tensor, bool by_columns) {
  TensorView view = tensor;
  if (by_columns) std::swap(view.sizes[1], view.sizes[2]), std::swap(view.strides[1], view.strides[2]);
  return view;
}

Host slice(const Values& all, std::int64_t batch, std::int64_t rows, std::int64_t columns, bool by_columns) {
  return by_columns ? transpose(slice(all, batch, columns, rows)) : slice(all, batch, rows, columns);
}

DeviceTensor random_matrices(DataType type, std::int64_t batch, std::int64_t m, std::int64_t n, unsigned seed = 1) {
  return DeviceTensor(type, {batch, m, n}, random_values(std::size_t(batch * m * n), -1, 1, seed));
}

void check_triangular_solve(DataType type, std::int64_t n, std::int64_t k, bool upper, bool unit) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << n << " " << k << " " << upper << unit);
  Values a = random_values(std::size_t(n * n), -1, 1, 3);
  Host triangle(n, n);
  for (std::int64_t i = 0; i < n; i++)
    for (std::int64_t j = 0; j < n; j++) {
      double& v = a[std::size_t(i * n + j)];
      v = i == j ? 2 + v : v / double(n);
      v = rounded(type, v);
      if (upper ? j >= i : j <= i) triangle.at(i, j) = unit && i == j ? 1 : v;
    }
  const DeviceTensor matrix(type, {1, n, n}, a), x = random_matrices(type, 1, n, k);
  const Host b = slice(x.read(), 0, n, k);
  triangular_solve(queue(), matrix, x, {.upper = upper, .unit = unit, .conjugate = false});
  expect_near(product(triangle, slice(x.read(), 0, n, k)), b, type, 20);
}

TEST(Linalg, TriangularSolve) {
  for (DataType type : types())
    for (std::int64_t n : {1, 5, 64, 65, 200, 330})
      for (int form = 0; form < 4; form++) check_triangular_solve(type, n, n == 5 ? 70 : 3, form & 1, form & 2);
}

void check_cholesky(DataType type, std::int64_t n, bool by_columns = false) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << n << " " << by_columns);
  const std::int64_t batch = 2;
  const Values random = random_values(std::size_t(batch * n * n));
  Values values;
  for (std::int64_t b = 0; b < batch; b++) {
    Host g = slice(random, b, n, n), s = product(g, transpose(g));
    for (std::int64_t i = 0; i < n; i++) s.at(i, i) += double(n) / 8 + 1;
    values.insert(values.end(), s.values.begin(), s.values.end());
  }
  const DeviceTensor a(type, {batch, n, n}, values), info(DataType::int32, {batch});
  values = a.read();
  TensorView view = a;
  if (by_columns) std::swap(view.strides[1], view.strides[2]);
  cholesky(queue(), view, info);
  EXPECT_EQ(info.read(), Values(2, 0));
  for (std::int64_t b = 0; b < batch; b++) {
    Host l = slice(a.read(), b, n, n);
    if (by_columns) l = transpose(l);
    for (std::int64_t i = 0; i < n; i++)
      for (std::int64_t j = i + 1; j < n; j++) l.at(i, j) = 0;
    expect_near(product(l, transpose(l)), slice(values, b, n, n), type, 20);
  }
}

TEST(Linalg, Cholesky) {
  for (DataType type : types())
    for (std::int64_t n : {1, 7, 64, 129, 200}) check_cholesky(type, n);
  check_cholesky(DataType::float32, 150, true);
  check_cholesky(DataType::float32, 620, true);  // beyond a panel of blocks
}

TEST(Linalg, CholeskyTellsWhichMinorIsNotPositive) {
  for (std::int64_t n : {8, 150, 300}) {
    Values values(std::size_t(2 * n * n));
    for (std::int64_t i = 0; i < 2 * n; i++) values[std::size_t(i * n + i % n)] = i == 5 || i == 2 * n - 2 ? -1 : 1;
    const DeviceTensor a(DataType::float32, {2, n, n}, values), info(DataType::int32, {2});
    cholesky(queue(), a, info);
    EXPECT_EQ(info.read(), (Values{6, double(n - 1)}));
  }
}

void check_lu(DataType type, std::int64_t m, std::int64_t n, bool by_columns = false) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << m << "x" << n << " " << by_columns);
  const std::int64_t batch = 2, k = std::min(m, n);
  const DeviceTensor a = by_columns ? random_matrices(type, batch, n, m) : random_matrices(type, batch, m, n),
                     pivots(DataType::int32, {batch, k}), info(DataType::int32, {batch}),
                     order(DataType::int32, {batch, m});
  const Values before = a.read();
  lu_factor(queue(), matrices_of(a, by_columns), pivots, info);
  pivots_to_order(queue(), pivots, order);
  const Values factors = a.read(), places = order.read();
  EXPECT_EQ(info.read(), Values(2, 0));
  for (std::int64_t b = 0; b < batch; b++) {
    Host l(m, k), u(k, n), expected(m, n);
    const Host lu = slice(factors, b, m, n, by_columns), original = slice(before, b, m, n, by_columns);
    for (std::int64_t i = 0; i < m; i++)
      for (std::int64_t j = 0; j < n; j++) {
        if (j < i && j < k) l.at(i, j) = lu.at(i, j);
        if (j >= i) u.at(i, j) = lu.at(i, j);
        if (j < i && j < k) EXPECT_LE(std::fabs(lu.at(i, j)), 1) << "not the largest pivot";
        expected.at(i, j) = original.at(std::int64_t(places[std::size_t(b * m + i)]), j);
      }
    for (std::int64_t i = 0; i < k; i++) l.at(i, i) = 1;
    expect_near(product(l, u), expected, type, 30);
  }
}

TEST(Linalg, LuFactor) {
  const std::int64_t shapes[][2] = {{1, 1}, {5, 3}, {3, 5}, {40, 40}, {130, 60}, {60, 130}, {300, 20}, {270, 300}};
  for (DataType type : types())
    for (const auto& s : shapes)
      for (bool by_columns : {false, true}) check_lu(type, s[0], s[1], by_columns);
}

TEST(Linalg, LuOfManyRows) { check_lu(DataType::float32, 9000, 5); }  // the panel stays in memory

TEST(Linalg, LuTellsTheFirstZeroPivot) {
  for (std::int64_t n : {9, 70, 300})
    for (bool by_columns : {false, true}) {
      Values values(std::size_t(n * n), 0.0);
      for (std::int64_t i = 0; i < n; i++) values[std::size_t(i * n + i)] = i == n / 2 || i == n - 2 ? 0 : 2;
      const DeviceTensor a(DataType::float32, {1, n, n}, values), pivots(DataType::int32, {1, n}),
          info(DataType::int32, {1});
      lu_factor(queue(), matrices_of(a, by_columns), pivots, info);
      EXPECT_EQ(info.read(), Values{double(n / 2 + 1)});
      EXPECT_EQ(a.read(), values);
    }
}

// Zeros on the diagonal ask for blocks of two rows.
void check_ldl(DataType type, std::int64_t n, bool zeros) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << n << " " << zeros);
  const std::int64_t batch = 2;
  Values values = random_values(std::size_t(batch * n * n), -1, 1, 7);
  for (std::int64_t b = 0; b < batch; b++)
    for (std::int64_t i = 0; i < n; i++) {
      double* rows = values.data() + b * n * n;
      for (std::int64_t j = 0; j < i; j++) rows[j * n + i] = rows[i * n + j];
      if (zeros && n > 1) rows[i * n + i] = 0;
    }
  const DeviceTensor a(type, {batch, n, n}, values), pivots(DataType::int32, {batch, n}),
      info(DataType::int32, {batch}), x = random_matrices(type, batch, n, 3);
  const Values before = a.read(), right = x.read();
  ldl_factor(queue(), a, pivots, info, false);
  EXPECT_EQ(info.read(), Values(2, 0));
  ldl_solve(queue(), a, pivots, x, false);
  for (std::int64_t b = 0; b < batch; b++) {
    const Host solution = slice(x.read(), b, n, 3);
    double size = 1;
    for (const double v : solution.values) size = std::max(size, std::fabs(v));
    expect_near(product(slice(before, b, n, n), solution), slice(right, b, n, 3), type, 200 * size);
  }
}

TEST(Linalg, LdlOfSmallMatrices) {
  for (DataType type : types())
    for (std::int64_t n : {1, 2, 7}) check_ldl(type, n, false), check_ldl(type, n, true);
}

TEST(Linalg, Ldl) { check_ldl(DataType::float32, 70, true); }

TEST(Linalg, LdlTellsTheFirstZeroBlock) {
  Values values(25, 0.0);
  for (int i = 0; i < 5; i++) values[std::size_t(i * 6)] = i == 3 ? 0 : i + 1;
  const DeviceTensor a(DataType::float32, {1, 5, 5}, values), pivots(DataType::int32, {1, 5}),
      info(DataType::int32, {1});
  ldl_factor(queue(), a, pivots, info, false);
  EXPECT_EQ(info.read(), Values{4});
  EXPECT_EQ(pivots.read(), (Values{1, 2, 3, 4, 5}));
}

void check_qr(DataType type, std::int64_t m, std::int64_t n, bool by_columns) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << m << "x" << n << " " << by_columns);
  const std::int64_t batch = 2, k = std::min(m, n);
  const DeviceTensor a = by_columns ? random_matrices(type, batch, n, m) : random_matrices(type, batch, m, n),
                     tau(type, {batch, k}), q(type, {batch, m, m}), narrow(type, {batch, m, k}),
                     none(type, {batch, m, m});
  const Values before = a.read();
  const TensorView view = matrices_of(a, by_columns);
  qr_factor(queue(), view, tau);
  orthogonal_factor(queue(), view, tau, q);
  orthogonal_factor(queue(), view, tau, narrow);
  copy_part(queue(), none, q, MatrixPart::all);
  reflect(queue(), view, tau, none, true);  // Q^T Q
  for (std::int64_t b = 0; b < batch; b++) {
    Host r = slice(a.read(), b, m, n, by_columns);
    for (std::int64_t i = 0; i < m; i++)
      for (std::int64_t j = 0; j < std::min(i, n); j++) r.at(i, j) = 0;
    const Host orthogonal = slice(q.read(), b, m, m);
    expect_near(product(orthogonal, r), slice(before, b, m, n, by_columns), type, 30);
    expect_near(product(transpose(orthogonal), orthogonal), identity(m), type, 10);
    expect_near(slice(none.read(), b, m, m), identity(m), type, 20);
    Host first(m, k);
    for (std::int64_t i = 0; i < m; i++)
      for (std::int64_t j = 0; j < k; j++) first.at(i, j) = orthogonal.at(i, j);
    expect_near(slice(narrow.read(), b, m, k), first, type, 10);
  }
}

TEST(Linalg, Qr) {
  const std::int64_t shapes[][2] = {{1, 1}, {5, 3}, {3, 5}, {60, 40}, {40, 100}, {200, 50}, {300, 150}};
  for (DataType type : types())
    for (const auto& s : shapes)
      for (bool by_columns : {false, true}) check_qr(type, s[0], s[1], by_columns);
}

void check_qr_of_size(DataType type, double size, std::int64_t n, bool by_columns) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << size << " " << n << " " << by_columns);
  const std::int64_t m = 90, rows = by_columns ? n : m, columns = by_columns ? m : n;
  Values ones(std::size_t(m * n)), values;  // of rank 1
  for (std::size_t i = 0; i < ones.size(); i++) {
    const auto row = by_columns ? std::int64_t(i) % m : std::int64_t(i) / n;
    ones[i] = 1 + 0.1 * double(row % 7) + 0.01 * double(row);
    values.push_back(size * ones[i]);
  }
  const DeviceTensor a(type, {1, rows, columns}, values), tau(type, {1, n}), q(type, {1, m, m});
  const TensorView view = matrices_of(a, by_columns);
  qr_factor(queue(), view, tau);
  orthogonal_factor(queue(), view, tau, q);
  const Host orthogonal = slice(q.read(), 0, m, m);
  expect_near(product(transpose(orthogonal), orthogonal), identity(m), type, 10);
  Host r = slice(a.read(), 0, m, n, by_columns);
  for (std::int64_t i = 0; i < m; i++)
    for (std::int64_t j = 0; j < n; j++) r.at(i, j) = i <= j ? r.at(i, j) / size : 0;
  expect_near(product(orthogonal, r), slice(ones, 0, m, n, by_columns), type, 30);
}

// Columns that depend on others leave rounding alone, smaller each time, until squares underflow; all elements may be so
// small or large.
TEST(Linalg, QrOfAnySize) {
  for (DataType type : types())
    for (double size : {1.0, 1e-24, 1e-30, 1e-36, 1e25, 1e30})
      for (std::int64_t n : {7, 60})
        for (bool by_columns : {false, true}) check_qr_of_size(type, size, n, by_columns);
}

void check_eigen(const DeviceTensor& a) {
  const DataType type = a.view().dtype;
  const std::int64_t n = a.view().size(1);
  SCOPED_TRACE(::testing::Message() << name(type) << " " << n);
  const std::int64_t batch = a.view().size(0);
  const DeviceTensor values(type, {batch, n}), alone(type, {batch, n}), info(DataType::int32, {batch});
  const Values before = a.read();
  const DeviceTensor copied(type, {batch, n, n}, before);
  eigen_hermitian(queue(), copied, alone, info, false);
  EXPECT_EQ(info.read(), Values(std::size_t(batch), 0));
  eigen_hermitian(queue(), a, values, info, true);
  EXPECT_EQ(info.read(), Values(std::size_t(batch), 0));
  for (std::int64_t b = 0; b < batch; b++) {
    Host h = slice(before, b, n, n);
    for (std::int64_t i = 0; i < n; i++)
      for (std::int64_t j = i + 1; j < n; j++) h.at(i, j) = h.at(j, i);
    const Host v = slice(a.read(), b, n, n), w = slice(values.read(), b, 1, n);
    Host scaled = v;
    for (std::int64_t i = 0; i < n; i++)
      for (std::int64_t j = 0; j < n; j++) scaled.at(i, j) *= w.at(0, j);
    EXPECT_TRUE(std::is_sorted(w.values.begin(), w.values.end()));
    expect_near(slice(alone.read(), b, 1, n), w, type, 60);
    expect_near(product(scaled, transpose(v)), h, type, 60);
    expect_near(product(transpose(v), v), identity(n), type, 20);
  }
}

TEST(Linalg, EigenHermitian) {
  for (DataType type : types())
    for (std::int64_t n : {1, 2, 9, 32, 64, 101, 160}) check_eigen(random_matrices(type, 2, n, n));
  check_eigen(random_matrices(DataType::float32, 100, 5, 5));
}

void check_graded(DataType type, std::int64_t n) {
  Values values = random_values(std::size_t(2 * n * n), -1, 1, 5);
  const double range = type == DataType::float64 ? 250 : 24;
  for (std::int64_t i = 0; i < n * n; i++) {
    values[std::size_t(i)] *= std::pow(10.0, -range * double(i / n + i % n) / double(2 * n));
    values[std::size_t(n * n + i)] *= std::pow(10.0, -range * double(2 * n - i / n - i % n) / double(2 * n));
  }
  check_eigen(DeviceTensor(type, {2, n, n}, values));
}

// Equal and nearly equal eigenvalues, rows without neighbours, elements of many sizes: what divide and conquer leaves out.
// Squares of the last elements underflow.
TEST(Linalg, EigenvaluesOfGradedElements) {
  for (DataType type : types())
    for (std::int64_t n : {40, 131}) check_graded(type, n);
}

void check_clusters(DataType type, std::int64_t n, int form) {
  Values values(std::size_t(2 * n * n));
  for (std::int64_t b = 0; b < 2; b++)
    for (std::int64_t i = 0; i < n; i++)
      for (std::int64_t j = 0; j <= i; j++) {
        double v = 0;
        if (form == 0) v = i == j ? double(i % 3) : double(b) / 64;  // few values, and with them a matrix of rank one
        if (form == 1) v = i == j ? std::fabs(double(i % 22) - 10) : i == j + 1 ? (i % 22 ? 1 : double(b) * 1e-7) : 0;
        if (form == 2) v = std::pow(2.0, -double(i + j) / 8) * (b ? 1 : i == j);
        if (form == 3) v = i == 3 && j == 1 ? double(b) : 0;
        values[std::size_t((b * n + i) * n + j)] = v;
      }
  check_eigen(DeviceTensor(type, {2, n, n}, values));
}

TEST(Linalg, EigenvaluesInClusters) {
  for (DataType type : types())
    for (std::int64_t n : {40, 44, 50, 131})
      for (int form = 0; form < 4; form++) check_clusters(type, n, form);
}

// Columns get smaller by 10^range from the first to the last.
void check_svd(DataType type, std::int64_t m, std::int64_t n, std::int64_t rank, double range = 0) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << m << "x" << n << " of rank " << rank << " over " << range);
  const Host left = slice(random_values(std::size_t(m * rank)), 0, m, rank),
             right = slice(random_values(std::size_t(rank * n), -1, 1, 2), 0, rank, n);
  Host all = product(left, right);
  for (std::int64_t i = 0; i < m; i++)
    for (std::int64_t j = 0; j < n; j++) all.at(i, j) *= std::pow(10.0, -range * double(j) / double(n));
  const DeviceTensor a(type, {1, m, n}, all.values), u(type, {1, m, m}), s(type, {1, n}), v(type, {1, n, n}),
      info(DataType::int32, {1});
  svd(queue(), a, {}, s, {}, info);
  EXPECT_EQ(info.read(), Values{0});
  const Values alone = s.read();
  svd(queue(), a, u, s, v, info);
  EXPECT_EQ(info.read(), Values{0});
  const Host left_vectors = slice(u.read(), 0, m, m), right_vectors = slice(v.read(), 0, n, n);
  const Values sizes = s.read();
  expect_near(slice(alone, 0, 1, n), slice(sizes, 0, 1, n), type, 60);
  EXPECT_TRUE(std::is_sorted(sizes.rbegin(), sizes.rend()));
  Host scaled(m, n);
  for (std::int64_t i = 0; i < m; i++)
    for (std::int64_t j = 0; j < n; j++) scaled.at(i, j) = left_vectors.at(i, j) * sizes[std::size_t(j)];
  expect_near(product(scaled, transpose(right_vectors)), slice(a.read(), 0, m, n), type, 60);
  expect_near(product(transpose(left_vectors), left_vectors), identity(m), type, 20);
  expect_near(product(transpose(right_vectors), right_vectors), identity(n), type, 20);
}

TEST(Linalg, Svd) {
  const std::int64_t shapes[][3] = {{1, 1, 1},    {5, 3, 3},     {40, 40, 40}, {40, 30, 7},   {90, 80, 80}, {70, 66, 3},
                                    {17, 16, 16}, {200, 20, 20}, {33, 2, 1},   {300, 20, 20}, {260, 3, 1}};
  for (DataType type : types())
    for (const auto& s : shapes) check_svd(type, s[0], s[1], s[2]);
}

void check_thin_svd(DataType type, std::int64_t batch, std::int64_t m, std::int64_t n) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << m << "x" << n);
  const DeviceTensor a = random_matrices(type, batch, m, n), u(type, {batch, m, n}), s(type, {batch, n}),
                     v(type, {batch, n, n}), info(DataType::int32, {batch});
  svd(queue(), a, u, s, v, info);
  EXPECT_EQ(info.read(), Values(std::size_t(batch), 0));
  const Values sizes = s.read(), left = u.read(), right = v.read(), before = a.read();
  for (std::int64_t b = 0; b < batch; b++) {
    Host scaled = slice(left, b, m, n);
    expect_near(product(transpose(scaled), scaled), identity(n), type, 20);
    for (std::int64_t i = 0; i < m * n; i++) scaled.values[std::size_t(i)] *= sizes[std::size_t(b * n + i % n)];
    expect_near(product(scaled, transpose(slice(right, b, n, n))), slice(before, b, m, n), type, 60);
  }
}

TEST(Linalg, SvdOfManyMatrices) { check_thin_svd(DataType::float32, 100, 4, 3); }

TEST(Linalg, SvdOfManyRows) {
  for (DataType type : types()) check_thin_svd(type, 2, 1100, 20);
  DeviceTensor a = random_matrices(DataType::float32, 2, 1100, 3);
  Values with = a.read();
  with[1] = NAN;
  a.write(with);
  const DeviceTensor values(DataType::float32, {2, 3}), info(DataType::int32, {2});
  svd(queue(), a, {}, values, {}, info);
  EXPECT_EQ(info.read(), (Values{-4, 0}));
}

// Squares of the last columns underflow.
TEST(Linalg, SvdOfGradedColumns) {
  for (DataType type : types())
    for (std::int64_t n : {40, 120}) check_svd(type, n + 10, n, n, type == DataType::float64 ? 250 : 30);
}

TEST(Linalg, NumbersThatAreNoneEndWithAnError) {
  for (std::int64_t n : {6, 80, 140}) {
    DeviceTensor a = random_matrices(DataType::float32, 2, n, n);
    Values with = a.read();
    with[1] = with[std::size_t(n)] = NAN;
    a.write(with);
    const DeviceTensor values(DataType::float32, {2, n}), info(DataType::int32, {2});
    svd(queue(), a, {}, values, {}, info);
    EXPECT_EQ(info.read(), (Values{-4, 0}));
    EXPECT_TRUE(std::isnan(values.read()[0]));
    eigen_hermitian(queue(), a, values, info, true);
    EXPECT_EQ(info.read(), (Values{1, 0}));
    a.write(with);
    eigen_hermitian(queue(), a, values, info, false);
    EXPECT_EQ(info.read(), (Values{1, 0}));
  }
}

TEST(Linalg, WrongArgumentsAreNamed) {
  const DeviceTensor a(DataType::float32, {1, 3, 4}), info(DataType::int32, {1}), whole(DataType::int64, {1, 3, 3});
  EXPECT_THROW(cholesky(queue(), a, info), ValidationError);
  EXPECT_THROW(cholesky(queue(), whole, info), ValidationError);
  EXPECT_THROW(qr_factor(queue(), a, info), ValidationError);
  EXPECT_THROW(triangular_solve(queue(), a, a, {}), ValidationError);
}

}  // namespace
}  // namespace dlprim
