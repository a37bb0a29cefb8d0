// SPDX-License-Identifier: MIT
#include "contrib.hpp"

#include <dlprim/primitives/bytes.hpp>
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/primitives/quantized.hpp>
#include <dlprim/primitives/requantize.hpp>

#include "checked.hpp"

namespace dlprim {

namespace {

Tensor bytes(const Call& call, const Tensor& t, const char* code) {
  return apply(call.queue(), code, {t}, {}, DataType::int8, DataType::int32);
}

}  // namespace

Tensor channels_second(const Tensor& x) {
  const int rank = x.shape().size();
  if (rank < 2) throw ValidationError("expected images with channels, got " + x.shape().text());
  std::vector<std::int64_t> order{0, rank - 1};
  for (int d = 1; d < rank - 1; d++) order.push_back(d);
  return permute(x, order);
}

Tensor channels_behind(const Tensor& x) {
  const int rank = x.shape().size();
  if (rank < 2) throw ValidationError("expected images with channels, got " + x.shape().text());
  std::vector<std::int64_t> order{0};
  for (int d = 2; d < rank; d++) order.push_back(d);
  order.push_back(1);
  return permute(x, order);
}

Tensor quantized(const Call& call, const Tensor& x, const Tensor& scale, const Tensor& zero, DataType type) {
  if (!is_integral(type) || size_of(type) > 2)
    call.fail(std::string("8- and 16-bit integers are supported, got ") + name(type));
  if (call.queue().device().info().cpu && is_byte(type) && x.dtype() == DataType::float32 &&
      scale.dtype() == DataType::float32 && zero.dtype() == type && scale.numel() == 1 && zero.numel() == 1) {
    Queue& queue = call.queue();
    const Tensor y = empty_like(queue, type, x);
    const TensorView inputs[] = {x.view(queue)};
    if (can_requantize(queue.device(), inputs, y.view(queue))) {
      Requantize options;
      const auto known_scale = known_number(scale), known_zero = known_number(zero);
      if (known_scale && known_zero) options.scale = float(*known_scale), options.zero = float(*known_zero);
      else options.scale_memory = scale.view(queue).data, options.zero_memory = zero.view(queue).data;
      requantize(queue, inputs, y.view(queue), options);
      return y;
    }
  }
  const double steps = double(1 << (8 * size_of(type)));
  const double low = is_signed(type) ? -steps / 2 : 0, high = low + steps - 1;
  const DataType compute = promote(compute_type(x.dtype()), compute_type(scale.dtype()));
  const Tensor inputs[] = {x, scale, zero};
  const Scalar bounds[] = {low, high};
  return apply(call.queue(), "y0 = nan_min(nan_max(rint(x0 / x1) + x2, w0), w1);", inputs, bounds, type, compute);
}

Tensor half_of(const Call& call, const Tensor& t, int i) {
  return bytes(call, t, i ? "y0 = (x0 >> 4) & 15;" : "y0 = x0 & 15;");
}

Tensor unpacked(const Call& call, const Tensor& t, std::int64_t count) {
  const int last = t.shape().size() - 1;
  const Tensor halves[] = {unsqueeze(half_of(call, t, 0), last + 1), unsqueeze(half_of(call, t, 1), last + 1)};
  Shape shape = t.shape();
  shape[last] = checked_multiply(2, shape[last]);
  return narrow(reshape(call.queue(), concat(call.queue(), halves, last + 1), shape), last, 0, count);
}

FewBits few_bits(const Call& call, FewBits w, const Tensor& weights, const Tensor& scales, const Tensor& zeros) {
  Queue& queue = call.queue();
  if (size_of(weights.dtype()) != 1 || weights.numel() != checked_multiply(w.n, w.k) * w.bits / 8)
    call.fail("weights " + weights.shape().text() + " do not fit their sizes");
  const std::int64_t blocks = w.k / w.block;
  if (scales.numel() != checked_multiply(w.n, blocks)) call.fail("scales do not fit the weights");
  w.scales = reshape(queue, scales, {w.n, blocks}), w.data = contiguous(queue, weights), w.zeros = zeros;
  if (zeros.defined() && zeros.shape() != Shape{w.n, blocks}) call.fail("zero points do not fit the weights");
  if (w.bits == 4) return w;
  w.data = bytes(call, w.data, "y0 = x0 - 128;");
  if (zeros.defined())
    w.zeros =
        is_floating(zeros.dtype()) ? apply(queue, "y0 = x0 - 128;", {zeros}) : bytes(call, zeros, "y0 = x0 - 128;");
  return w;
}

Tensor few_bits_product(const Call& call, const Tensor& x, const FewBits& weights, const Tensor& bias) {
  Queue& queue = call.queue();
  PackedWeights w;
  w.format = weights.bits == 4 ? WeightFormat::int4 : WeightFormat::int8;
  w.n = weights.n, w.k = weights.k, w.group = weights.block, w.middle = weights.bits == 4 ? 8 : 0;
  if (weights.zeros.defined()) {
    w.zero_points = ZeroPoints::subtracted, w.middle = 0, w.zeros = weights.zeros.view(queue);
  }
  w.data = weights.data.view(queue).data, w.scales = weights.scales.view(queue);
  const Tensor rows = contiguous(queue, x), y(queue, x.dtype(), {x.shape()[0], weights.n});
  const Tensor sums = bias.defined() ? contiguous(queue, cast(queue, bias, x.dtype())) : Tensor();
  if (x.shape()[0])
    packed_product(queue, rows.view(queue), w, y.view(queue), sums.defined() ? sums.view(queue) : TensorView());
  return y;
}

void expect_attribute(const AttributeReader& reader, const char* name, std::int64_t understood) {
  if (const std::int64_t value = reader.integer(name, understood); value != understood)
    throw ValidationError("attribute " + std::string(name) + " of " + std::to_string(value) + " is not supported");
}

}  // namespace dlprim
