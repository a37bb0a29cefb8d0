// SPDX-License-Identifier: MIT
// Products by a matrix that stays the same, which is packed once on CPUs.
#include <dlprim/primitives/gemm.hpp>

#include <algorithm>
#include <cmath>

#include "floats.hpp"
#include "gemm/core.hpp"

namespace dlprim {
namespace {

using testing::Elements;
using testing::queue;

struct Case {
  std::int64_t m, n, k;
  bool along_k = false;       // B
  std::int64_t gap = 0;       // between rows of A and of C
  int addend = 0;             // 1: a row for all, 2: of C's shape
  double alpha = 1, beta = 1;
};

void check(const Case& t) {
  SCOPED_TRACE(::testing::Message() << t.m << " x " << t.n << " x " << t.k << " addend " << t.addend);
  const std::int64_t a_row = t.k + t.gap, c_row = t.n + t.gap, d_row = t.addend == 2 ? t.n : 0;
  constexpr DataType type = DataType::float32;
  const Elements a(type, std::size_t(t.m * a_row), 1), b(type, std::size_t(t.k * t.n), 2),
      c(type, std::size_t(t.m * c_row), 3), d(type, std::size_t(t.m * t.n), 4);
  const auto view = [&](const Elements& x, std::int64_t rows, std::int64_t columns, std::int64_t row,
                        std::int64_t column) {
    return TensorView(x.data(), type, std::vector<std::int64_t>{rows, columns}, std::vector<std::int64_t>{row, column});
  };
  const std::int64_t b_row = t.along_k ? 1 : t.n, b_column = t.along_k ? t.k : 1;
  std::optional<Workspace> kept;
  GemmOptions options{.alpha = t.alpha, .activation = Activation::relu, .kept = &kept};
  if (t.addend) options.beta = t.beta, options.addend = view(d, t.m, t.n, d_row, 1);
  const auto multiply = [&] {
    gemm(queue(), view(a, t.m, t.k, a_row, 1), view(b, t.k, t.n, b_row, b_column), view(c, t.m, t.n, c_row, 1),
         options);
  };
  multiply();
  const DeviceInfo& info = testing::device().info();
  EXPECT_EQ(kept.has_value(), info.cpu && info.local_memory >= 102400);  // which holds sums of tiles
  for (int call = 0; call < 2; call++, multiply()) {
    const std::vector<double> found = c.read();
    double error = 0, norm = 0;
    for (std::int64_t i = 0; i < t.m; i++)
      for (std::int64_t j = 0; j < t.n; j++) {
        double sum = 0;
        for (std::int64_t l = 0; l < t.k; l++)
          sum += a.host(std::size_t(i * a_row + l)) * b.host(std::size_t(l * b_row + j * b_column));
        sum *= t.alpha;
        if (t.addend) sum += t.beta * d.host(std::size_t(i * d_row + j));
        const double expected = std::max(sum, 0.0), difference = found[std::size_t(i * c_row + j)] - expected;
        error += difference * difference, norm += expected * expected;
      }
    EXPECT_LE(std::sqrt(error), 1e-6 * std::sqrt(norm) + 1e-30) << "call " << call;
    for (std::int64_t i = 0; i + 1 < t.m; i++)  // what lies between rows is nobody's
      for (std::int64_t j = t.n; j < c_row; j++)
        EXPECT_EQ(found[std::size_t(i * c_row + j)], c.host(std::size_t(i * c_row + j)));
  }
}

TEST(Gemm, ByAConstant) {
  const testing::Variable forced("DLPRIM_GEMM", "constant");
  for (const Case& t : {
           Case{1, 1, 1},
           Case{1, 5, 3, true},
           Case{49, 24, 16, true, 3, 1},
           Case{13, 48, 600, false, 0, 1},          // slices of k
           Case{300, 100, 70, false, 5, 2, 1.5, -2},  // tiles of rows, a narrow last panel
           Case{9, 200, 1030, true, 1, 2},
           Case{40, 33, 20, true, 0, 0, -0.5},
       })
    check(t);
}

}  // namespace
}  // namespace dlprim
