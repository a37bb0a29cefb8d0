// SPDX-License-Identifier: MIT
#include "contrib.hpp"

#include <dlprim/primitives/pointwise.hpp>

namespace dlprim {

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
  const double steps = double(1 << (8 * size_of(type)));
  const double low = is_signed(type) ? -steps / 2 : 0, high = low + steps - 1;
  const DataType compute = promote(compute_type(x.dtype()), compute_type(scale.dtype()));
  const Tensor inputs[] = {x, scale, zero};
  const Scalar bounds[] = {low, high};
  return apply(call.queue(), "y0 = nan_min(nan_max(rint(x0 / x1) + x2, w0), w1);", inputs, bounds, type, compute);
}

void expect_attribute(const AttributeReader& reader, const char* name, std::int64_t understood) {
  if (const std::int64_t value = reader.integer(name, understood); value != understood)
    throw ValidationError("attribute " + std::string(name) + " of " + std::to_string(value) + " is not supported");
}

}  // namespace dlprim
