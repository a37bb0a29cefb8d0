// SPDX-License-Identifier: MIT
// A product of matrices, compared with sums on the host.
#pragma once
#include <dlprim/primitives/gemm.hpp>

#include <cmath>
#include <numbers>
#include <optional>

#include "floats.hpp"

namespace dlprim::testing::products {

// A matrix in a larger memory: element (i, j) of batch b at offset + b * batch + i * row + j * column.
struct Layout {
  std::int64_t row, column, batch, offset;
  TensorView view(const Elements& memory, std::int64_t b, std::int64_t m, std::int64_t n) const {
    BufferRef data = memory.data();
    data.offset += std::size_t(offset) * size_of(memory.type());
    return TensorView(data, memory.type(), std::vector<std::int64_t>{b, m, n},
                      std::vector<std::int64_t>{batch, row, column});
  }
};

inline Layout rows(std::int64_t m, std::int64_t n, std::int64_t gap = 0, std::int64_t offset = 0) {
  return {n + gap, 1, m * (n + gap), offset};
}
inline Layout columns(std::int64_t m, std::int64_t n, std::int64_t gap = 0, std::int64_t offset = 0) {
  return {1, m + gap, n * (m + gap), offset};
}

struct Case {
  std::int64_t batches, m, n, k;
  bool a_transposed = false, b_transposed = false, c_transposed = false;
  std::int64_t gap = 0, offset = 0;
  double alpha = 1, beta = 0;
  Activation activation = Activation::none;
  bool broadcast_addend = false, broadcast_b = false, allow_tf32 = false;
};

inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::relu: return x < 0 ? 0 : x;
    case Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    default: return x;
  }
}

inline void check(const Case& t, DataType type, std::optional<DataType> other = {},
                  std::optional<Layout> addends = {}) {
  const DataType result_type = other.value_or(type);
  auto layout = [&](bool transposed, std::int64_t m, std::int64_t n) {
    return transposed ? columns(m, n, t.gap, t.offset) : rows(m, n, t.gap, t.offset);
  };
  Layout la = layout(t.a_transposed, t.m, t.k), lb = layout(t.b_transposed, t.k, t.n),
         lc = layout(t.c_transposed, t.m, t.n);
  auto memory = [&](const Layout& l, std::int64_t m, std::int64_t n, unsigned seed, DataType of) {
    return Elements(of, std::size_t(l.offset + t.batches * l.batch + (m + n + 2) * t.gap + 1), seed);
  };
  const Elements a = memory(la, t.m, t.k, 1, type), b = memory(lb, t.k, t.n, 2, type);
  if (t.broadcast_b) lb.batch = 0;
  const Layout ld = addends.value_or(t.broadcast_addend ? Layout{0, 1, 0, 0} : rows(t.m, t.n));
  const Elements c = memory(lc, t.m, t.n, 3, result_type);
  const std::int64_t last = ld.offset + t.batches * ld.batch + t.m * ld.row + t.n * ld.column;
  const Elements addend(result_type, std::size_t(last), 4);
  GemmOptions options{t.alpha, t.beta, ld.view(addend, t.batches, t.m, t.n), t.activation};
  options.allow_tf32 = t.allow_tf32;
  gemm(queue(), la.view(a, t.batches, t.m, t.k), lb.view(b, t.batches, t.k, t.n), lc.view(c, t.batches, t.m, t.n),
       options);
  const auto result = c.read();
  double error = 0, norm = 0;
  std::vector<bool> written(result.size());
  for (std::int64_t z = 0; z < t.batches; z++)
    for (std::int64_t i = 0; i < t.m; i++)
      for (std::int64_t j = 0; j < t.n; j++) {
        double sum = 0;
        for (std::int64_t l = 0; l < t.k; l++)
          sum += a.host(la.offset + z * la.batch + i * la.row + l * la.column) *
                 b.host(lb.offset + z * lb.batch + l * lb.row + j * lb.column);
        double expected = t.alpha * sum;
        if (t.beta != 0) expected += t.beta * addend.host(ld.offset + z * ld.batch + i * ld.row + j * ld.column);
        expected = activate(t.activation, expected);
        const std::size_t at = std::size_t(lc.offset + z * lc.batch + i * lc.row + j * lc.column);
        written[at] = true;
        if (is_integral(type)) ASSERT_EQ(result[at], expected) << i << " " << j;
        error += (result[at] - expected) * (result[at] - expected), norm += expected * expected;
      }
  for (std::size_t i = 0; i < result.size(); i++)
    if (!written[i]) ASSERT_EQ(result[i], c.host(i)) << "element " << i << " outside the result was overwritten";
  const double tolerance = epsilon(result_type) +
                           1e-6 * std::sqrt(double(t.k + 1)) * (type == DataType::float64 ? 1e-8 : 1) +
                           (t.allow_tf32 && type == DataType::float32 ? 1e-3 : 0);
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(norm) + 1e-30)
      << name(type) << " " << t.batches << " x " << t.m << " x " << t.n << " x " << t.k << " transposed "
      << t.a_transposed << t.b_transposed << t.c_transposed << " gap " << t.gap << " offset " << t.offset;
}

}  // namespace dlprim::testing::products
