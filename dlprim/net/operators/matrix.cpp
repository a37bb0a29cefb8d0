// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/range.hpp>

#include "../array.hpp"
#include "../matrix.hpp"
#include "../inner.hpp"

namespace dlprim {

double determinant(std::vector<double> a, std::size_t n) {
  double result = 1;
  for (std::size_t c = 0; c < n; c++) {
    std::size_t pivot = c;
    for (std::size_t r = c + 1; r < n; r++)
      if (std::abs(a[r * n + c]) > std::abs(a[pivot * n + c])) pivot = r;
    if (pivot != c) {
      std::swap_ranges(a.begin() + std::ptrdiff_t(c * n), a.begin() + std::ptrdiff_t(c * n + n),
                       a.begin() + std::ptrdiff_t(pivot * n));
      result = -result;
    }
    result *= a[c * n + c];
    if (a[c * n + c] == 0) break;
    for (std::size_t r = c + 1; r < n; r++) {
      const double factor = a[r * n + c] / a[c * n + c];
      for (std::size_t k = c; k < n; k++) a[r * n + k] -= factor * a[c * n + k];
    }
  }
  return result;
}

Tensor identity_matrix(Queue& queue, DataType dtype, std::int64_t size) {
  const Tensor result = filled(queue, dtype, {size, size}, 0);
  if (size) fill(queue, result.strided({size}, {size + 1}).view(queue), 1);
  return result;
}

namespace operators {

namespace {

struct MatrixAttributes {
  explicit MatrixAttributes(const AttributeReader& reader)
      : upper(reader.integer("upper", 1)), time_axis(reader.integer("time_axis", 0)),
        batch_axis(reader.integer("batch_axis", 1)) {}
  std::int64_t upper, time_axis, batch_axis;
};

const MatrixAttributes& attributes_of(const Call& call) { return call.attributes<MatrixAttributes>(); }

void trilu(Call& call) {
  const Tensor x = contiguous(call.queue(), call.input(0));
  if (x.shape().size() < 2) call.fail("expected a matrix, got " + x.shape().text());
  const std::int64_t k = call.has(1) ? call.read_integers(1).at(0) : 0;
  const TensorView y = call.out(0, x.dtype(), x.shape());
  if (y.numel()) triangle(call.queue(), y, x.view(call.queue()), k, !attributes_of(call).upper);
}

// On the host: matrices given to Det are small.
void det(Call& call) {
  const Tensor& x = call.input(0);
  const int rank = x.shape().size();
  if (rank < 2 || x.shape()[rank - 1] != x.shape()[rank - 2])
    call.fail("expected square matrices, got " + x.shape().text());
  const auto n = std::size_t(x.shape()[rank - 1]);
  const std::vector<double> all = to_reals(call.queue(), x);
  const Shape shape(std::vector<std::int64_t>(x.shape().begin(), x.shape().end() - 2));
  std::vector<double> results;
  for (std::int64_t m = 0; m < shape.total_size(); m++)
    results.push_back(
        determinant({all.begin() + m * std::ptrdiff_t(n * n), all.begin() + (m + 1) * std::ptrdiff_t(n * n)}, n));
  if (x.dtype() == DataType::float64) return call.set(0, Tensor::from_host(DataType::float64, shape, results.data()));
  const std::vector<float> floats(results.begin(), results.end());
  call.set(0, cast(call.queue(), Tensor::from_host(DataType::float32, shape, floats.data()), x.dtype()));
}

// The first `lengths` elements of each sequence in reverse order.
void reverse_sequence(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const int time = x.shape().axis(attributes_of(call).time_axis),
            batch = x.shape().axis(attributes_of(call).batch_axis);
  if (time == batch) call.fail("time_axis and batch_axis are the same");
  Tensor steps(queue, DataType::int64, {x.shape()[time]});
  sequence(queue, steps.view(queue), 0, 1);
  auto along = [&](Tensor t, int dim) {
    for (int d = dim + 1; d < x.shape().size(); d++) t = unsqueeze(t, t.shape().size());
    return t;
  };
  const Tensor index = apply(queue, "y0 = x0 < x1 ? x1 - 1 - x0 : x0;",
                             {along(steps, time), along(cast(queue, call.input(1), DataType::int64), batch)});
  const Tensor whole = contiguous(queue, expand(index, x.shape()));
  call.set(0, call.run(inner<"GatherElements", "axis">(time), {x, whole})[0]);
}

}  // namespace

void matrix(Registry& registry) {
  registry.add<MatrixAttributes>("Trilu", trilu, "upper");
  registry.add("Det", det);
  registry.add<MatrixAttributes>("ReverseSequence", reverse_sequence, "batch_axis time_axis");
}

}  // namespace operators
}  // namespace dlprim
