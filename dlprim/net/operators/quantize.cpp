// SPDX-License-Identifier: MIT
// Numbers as integers times a scale: real = (integer - zero point) * scale.
#include <dlprim/primitives/pointwise.hpp>

#include "../array.hpp"
#include "../checked.hpp"
#include "../composition.hpp"
#include "../contrib.hpp"
#include "../integer_product.hpp"

namespace dlprim::operators {

namespace {

// The convolution in a QLinearConv has its attributes.
struct QuantizedConv {
  explicit QuantizedConv(const AttributeReader& reader)
      : convolution("ConvInteger", reader.node().attributes, reader.node().version) {}
  Inner convolution;
};

struct QuantizeAttributes {
  explicit QuantizeAttributes(const AttributeReader& reader)
      : axis(reader.find<std::int64_t>("axis")), block_size(reader.integer("block_size", 0)),
        output_dtype(reader.integer("output_dtype", 0)) {}
  std::optional<std::int64_t> axis;
  std::int64_t block_size, output_dtype;
};

const QuantizeAttributes& attributes_of(const Call& call) { return call.attributes<QuantizeAttributes>(); }

// Scales and zero points belong to the whole tensor, to the slices of an axis, or to blocks along it: as x broadcasts.
Tensor along(Call& call, const Tensor& x, const Tensor& parameter, std::int64_t default_axis) {
  const int rank = x.shape().size();
  Queue& queue = call.queue();
  if (parameter.shape().size() == 0 || rank == 0 || (parameter.shape().size() == 1 && parameter.numel() == 1))
    return reshape(queue, parameter, {});  // the axis, by default that of channels, need not exist
  const int axis = x.shape().axis(attributes_of(call).axis.value_or(default_axis));
  if (parameter.shape().size() == 1) {
    Shape shape(std::vector<std::int64_t>(std::size_t(rank), 1));
    shape[axis] = parameter.numel();
    return reshape(queue, parameter, shape);
  }
  const std::int64_t block = attributes_of(call).block_size;
  if (parameter.shape().size() != rank || block < 1)
    call.fail("parameters " + parameter.shape().text() + " do not fit");
  Shape repeated = parameter.shape(), joined = parameter.shape();
  repeated.insert(axis + 1, block), joined[axis] = checked_multiply(joined[axis], block);
  return narrow(reshape(queue, expand(unsqueeze(parameter, axis + 1), repeated), joined), axis, 0, x.shape()[axis]);
}

void quantize_op(Call& call) {
  const Tensor& x = call.input(0);
  DataType type = call.has(2) ? call.input(2).dtype() : DataType::uint8;
  if (attributes_of(call).output_dtype) type = element_type(attributes_of(call).output_dtype);
  const Tensor zero = call.has(2) ? along(call, x, call.input(2), 1) : filled(call.queue(), type, {}, 0);
  call.set(0, quantized(call, x, along(call, x, call.input(1), 1), zero, type));
}

void dequantize_op(Call& call) {
  const Tensor &x = call.input(0), scale = along(call, x, call.input(1), 1);
  const DataType type =
      attributes_of(call).output_dtype ? element_type(attributes_of(call).output_dtype) : scale.dtype();
  const DataType compute = compute_type(scale.dtype());
  if (call.has(2)) {
    const Tensor inputs[] = {x, scale, along(call, x, call.input(2), 1)};
    call.set(0, apply(call.queue(), "y0 = (x0 - x2) * x1;", inputs, {}, type, compute));
  } else {
    call.set(0, apply(call.queue(), "y0 = x0 * x1;", {x, scale}, {}, type, compute));
  }
}

// Scale and zero point from the range of x, which always holds 0.
void dynamic_quantize(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  std::vector<int> dims;
  for (int d = 0; d < x.shape().size(); d++) dims.push_back(d);
  const Tensor low = reshape(queue, reduce(queue, ReduceId::min_values, x, dims), {});
  const Tensor high = reshape(queue, reduce(queue, ReduceId::max_values, x, dims), {});
  const Tensor scale = apply(queue, "y0 = (fmax(x1, 0) - fmin(x0, 0)) / 255;", {low, high});
  const Tensor zero =
      apply(queue, "y0 = rint(fmin(fmax(-fmin(x0, 0) / x1, 0), 255));", {low, scale}, {}, DataType::uint8);
  call.set(0, quantized(call, x, scale, zero, DataType::uint8));
  call.set(1, scale);
  call.set(2, zero);
}

// As Dequantize with the scale in the place of a variable.
void dequantize_parts(Composition& c) {
  Call& call = c.call;
  const Tensor& x = call.input(0);
  Composition::Part scale = c.input(1);
  const DataType type = scale.tensor.dtype();
  Tensor steps = cast(call.queue(), x, type);
  if (call.has(2))
    steps = apply(call.queue(), "y0 = x0 - x1;", {steps, cast(call.queue(), along(call, x, call.input(2), 1), type)});
  const int rank = x.shape().size();
  const bool whole = scale.tensor.numel() == 1 || rank == 0;
  const int axis = whole ? 0 : x.shape().axis(attributes_of(call).axis.value_or(1));
  if (whole) {
    scale = c.reshape(scale, {});
  } else if (scale.shape().size() == 1) {
    Shape shape(std::vector<std::int64_t>(std::size_t(rank), 1));
    shape[axis] = scale.shape()[0];
    scale = c.reshape(scale, shape);
  } else {
    const std::int64_t block = attributes_of(call).block_size;
    if (block < 1) call.fail("expected a block_size of 1 or more");
    std::vector<std::int64_t> index(host_elements(x.shape()[axis], "a size"));
    for (std::size_t i = 0; i < index.size(); i++) index[i] = std::int64_t(i) / block;
    scale = c(inner<"Gather", "axis">(axis), {scale, c.constant(Tensor::from_integers(index))});
  }
  c.set(0, c("Mul"_op, {c.constant(steps), scale}));
}

// Integers less their zero point, as int32. A zero point of one dimension belongs to rows or columns of a matrix.
Tensor centered(Call& call, int i, int zero_point, bool columns) {
  Queue& queue = call.queue();
  const Tensor x = cast(queue, call.input(i), DataType::int32);
  if (!call.has(zero_point)) return x;
  Tensor zero = cast(queue, call.input(zero_point), DataType::int32);
  if (zero.numel() == 1) zero = reshape(queue, zero, {});
  else if (zero.shape().size() == 1 && !columns) zero = unsqueeze(zero, 1);
  return apply(queue, "y0 = x0 - x1;", {x, zero});
}

void mat_mul_integer(Call& call) {
  const auto zero = [&](int i) { return call.has(i) ? call.input(i) : Tensor(); };
  const Tensor sums = integer_product(call.queue(), call.input(0), call.input(1), zero(2), zero(3),
                                      call.attributes<IntegerProductAttributes>().kept.get());
  if (sums.defined()) return call.set(0, sums);
  call.set(0, matmul(call.queue(), centered(call, 0, 2, false), centered(call, 1, 3, true)));
}

// Inputs: a, its scale and zero point, b, its scale and zero point, the result's scale and zero point.
void q_linear_mat_mul(Call& call) {
  Queue& queue = call.queue();
  const Tensor product = matmul(queue, centered(call, 0, 2, false), centered(call, 3, 5, true));
  auto scale = [&](int i, bool columns) {
    const Tensor& s = call.input(i);
    return s.numel() == 1 ? reshape(queue, s, {}) : columns || s.shape().size() != 1 ? s : unsqueeze(s, 1);
  };
  const Tensor factors = apply(queue, "y0 = x0 * x1;", {scale(1, false), scale(4, true)}, {}, DataType::float32);
  const Tensor real = apply(queue, "y0 = x0 * x1;", {product, factors}, {}, DataType::float32, DataType::float32);
  call.set(0, quantized(call, real, scale(6, true), reshape(queue, call.input(7), {}), call.input(7).dtype()));
}

// Inputs: x, its scale and zero point, weights, theirs, the result's, bias (int32).
void q_linear_conv(Call& call) {
  Queue& queue = call.queue();
  const int rank = call.input(0).shape().size();
  auto channels = [&](const Tensor& t, int dim) {
    if (t.numel() == 1) return reshape(queue, t, {});
    Shape shape(std::vector<std::int64_t>(std::size_t(rank), 1));
    shape[dim] = t.numel();
    return reshape(queue, t, shape);
  };
  std::vector<Tensor> inputs{call.input(0), call.input(3), call.input(2), call.input(5)};
  Tensor sums = call.run(call.attributes<QuantizedConv>().convolution, inputs)[0];
  if (call.has(8)) sums = apply(queue, "y0 = x0 + x1;", {sums, channels(call.input(8), 1)});
  const Tensor factors = apply(queue, "y0 = x0 * x1;", {channels(call.input(1), 1), channels(call.input(4), 1)});
  const Tensor real = apply(queue, "y0 = x0 * x1;", {sums, factors}, {}, DataType::float32, DataType::float32);
  call.set(0, quantized(call, real, reshape(queue, call.input(6), {}), reshape(queue, call.input(7), {}),
                        call.input(7).dtype()));
}

}  // namespace

void quantize(Registry& registry) {
  registry.add<QuantizeAttributes>("QuantizeLinear", quantize_op, "axis block_size output_dtype saturate precision");
  registry.add<QuantizeAttributes>("DequantizeLinear", dequantize_op, "axis block_size output_dtype", "",
                                   dequantize_parts);
  registry.add<QuantizeAttributes>("QuantizeLinear", quantize_op, "axis", contrib_domain);
  registry.add<QuantizeAttributes>("DequantizeLinear", dequantize_op, "axis", contrib_domain);
  registry.add("DynamicQuantizeLinear", dynamic_quantize);
  registry.add<IntegerProductAttributes>("MatMulInteger", mat_mul_integer);
  registry.add("QLinearMatMul", q_linear_mat_mul);
  registry.add<QuantizedConv>("QLinearConv", q_linear_conv,
                              "auto_pad=NOTSET|VALID|SAME_UPPER|SAME_LOWER dilations group kernel_shape pads strides");
}

}  // namespace dlprim::operators
