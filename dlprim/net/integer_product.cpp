// SPDX-License-Identifier: MIT
#include "integer_product.hpp"

#include <dlprim/primitives/bytes.hpp>
#include <dlprim/primitives/quantized_conv.hpp>

#include "array.hpp"

namespace dlprim {

struct KeptWeights {
  std::optional<Workspace> panels;
  Tensor bytes, sums;  // as int8, and the sums of its columns, int32 [n], where they were asked for
  DataType of = DataType::int8;  // what panels were packed for
};

IntegerProductAttributes::IntegerProductAttributes(const AttributeReader& reader) {
  if (reader.given("constant_weights")) kept = std::make_shared<KeptWeights>();
}

namespace {

bool serves(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& a_zero, const Tensor& b_zero) {
  const auto one = [](const Tensor& zero) { return !zero.defined() || zero.numel() == 1; };
  if (!is_byte(a.dtype()) || !is_byte(b.dtype()) || b.shape().size() != 2 || a.shape().size() < 1 || a.numel() == 0 ||
      b.numel() == 0)
    return false;
  return one(a_zero) && one(b_zero) && a.shape()[a.shape().size() - 1] == b.shape()[0] &&
         has_quantized_conv(queue.device());
}

// What b and its zero point are less, to be int8.
std::int64_t moved(const Tensor& b) { return b.dtype() == DataType::uint8 ? 128 : 0; }

Tensor as_int8(Queue& queue, const Tensor& b) {
  const Scalar less[] = {moved(b)};
  const Tensor inputs[] = {b};
  return moved(b) ? apply(queue, "y0 = x0 - w0;", inputs, less, DataType::int8, DataType::int32) : b;
}

Tensor column_sums(Queue& queue, const Tensor& b) {
  return reshape(queue, reduce(queue, ReduceId::sum, cast(queue, b, DataType::int32), {0}), {b.shape()[1]});
}

}  // namespace

Tensor integer_product(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& a_zero, const Tensor& b_zero,
                       KeptWeights* kept) {
  if (!serves(queue, a, b, a_zero, b_zero)) return {};
  KeptWeights own;
  KeptWeights& weights = kept ? *kept : own;
  if (!weights.bytes.defined()) weights.bytes = as_int8(queue, b);
  if (weights.of != a.dtype()) weights.panels.reset(), weights.of = a.dtype();
  const int last = a.shape().size() - 1;
  const std::int64_t k = b.shape()[0], n = b.shape()[1], rows = a.numel() / k;
  const Tensor x = contiguous(queue, a);
  Shape shape = a.shape();
  shape[last] = n;
  Tensor y(queue, DataType::int32, shape);
  const TensorView columns = weights.bytes.view(queue);
  const std::int64_t sizes[] = {n, k, 1}, strides[] = {columns.stride(1), columns.stride(0), 1};
  quantized_conv(queue, x.strided({1, k, rows}, {rows * k, 1, k}).view(queue),
                 TensorView(columns.data, DataType::int8, sizes, strides),
                 y.strided({1, n, rows}, {rows * n, 1, n}).view(queue), {}, {}, &weights.panels);
  const auto known = [&](const Tensor& zero) { return zero.defined() ? known_number(zero) : std::optional(0.0); };
  const auto number = [&](const Tensor& zero) { return cast(queue, reshape(queue, zero, {}), DataType::int32); };
  const Tensor za = known(a_zero) == 0 ? Tensor() : number(a_zero);
  if (za.defined()) {
    if (!weights.sums.defined()) weights.sums = column_sums(queue, weights.bytes);
    y = apply(queue, "y0 = x0 - x1 * x2;", {y, za, weights.sums});
  }
  if (known(b_zero) == double(moved(b))) return y;
  // The sums of a's rows belong to what b is less by.
  const Tensor zb = b_zero.defined() ? number(b_zero) : filled(queue, DataType::int32, {}, 0);
  const Tensor row_sums = reduce(queue, ReduceId::sum, cast(queue, a, DataType::int32), {last});
  const Scalar scalars[] = {moved(b), k};
  const Tensor inputs[] = {y, row_sums, zb, za.defined() ? za : filled(queue, DataType::int32, {}, 0)};
  return apply(queue, "y0 = x0 - (x2 - w0) * (x1 - w1 * x3);", inputs, scalars, DataType::int32);
}

}  // namespace dlprim
