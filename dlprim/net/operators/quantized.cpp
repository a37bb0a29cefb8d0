// SPDX-License-Identifier: MIT
// Products and sums of bytes that stand for numbers, as optimize() makes them of constant scales (quantized_graph.cpp).
#include <dlprim/primitives/byte_table.hpp>
#include <dlprim/primitives/bytes.hpp>
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/primitives/quantized_conv.hpp>
#include <dlprim/primitives/requantize.hpp>

#include "../array.hpp"
#include "../checked.hpp"
#include "../contrib.hpp"
#include "../operator.hpp"
#include "../quantized_graph.hpp"
#include "../window.hpp"

namespace dlprim::operators {

namespace {

// The type of that name, or float32.
DataType byte_type(const std::string& text) {
  return text == "uint8" ? DataType::uint8 : text == "int8" ? DataType::int8 : DataType::float32;
}

// Of a result: bytes with a zero point, or floats.
struct ResultAttributes {
  explicit ResultAttributes(const AttributeReader& reader)
      : zero(reader.integer("y_zero", 0)), type(byte_type(reader.text("result", ""))) {}
  std::int64_t zero;
  DataType type;
};

struct ProductAttributes {
  explicit ProductAttributes(const AttributeReader& reader)
      : result(reader), x_type(byte_type(reader.text("x_type", ""))), x_zero(reader.integer("x_zero", 0)),
        group(reader.integer("group", 1)), transposed(reader.integer("transB", 0) != 0), window(reader) {}
  ResultAttributes result;
  DataType x_type;
  std::int64_t x_zero, group;
  bool transposed;
  WindowAttributes window;
  std::shared_ptr<std::optional<Workspace>> kept = std::make_shared<std::optional<Workspace>>();
};

const ProductAttributes& attributes_of(const Call& call) { return call.attributes<ProductAttributes>(); }

// Inputs: x, constant weights, scales, a bias.
void run(Call& call, const TensorView& x, const TensorView& w, const TensorView& y, const ConvOptions& options) {
  const auto& a = attributes_of(call);
  if (x.dtype != a.x_type)
    call.fail(std::string("expected ") + name(a.x_type) + ", as the zero point, got " + name(x.dtype));
  QuantizedConv quantized{.x_zero = a.x_zero, .bias = {}, .scale = call.in(2), .y_zero = a.result.zero};
  if (call.has(3)) quantized.bias = call.in(3);
  if (y.numel()) quantized_conv(call.queue(), x, w, y, options, quantized, a.kept.get());
}

void conv(Call& call) {
  const Tensor& x = call.input(0);
  const Shape& weights = call.input(1).shape();
  const auto& a = attributes_of(call);
  const std::vector<std::int64_t> kernel(weights.begin() + std::min(2, weights.size()), weights.end());
  if (!a.window.kernel.empty() && a.window.kernel != kernel)
    call.fail("expected weights of the kernel_shape, got " + weights.text());
  const Window w = read_window(call, a.window, x.shape(), kernel);
  Shape shape{x.shape()[0]};
  for (std::int64_t size : w.out) shape.push_back(size);
  shape.push_back(weights[0]);
  ConvOptions options;
  for (std::size_t i = 0; i < std::size_t(w.dims()); i++)
    options.stride[i] = w.stride[i], options.padding[i] = w.before[i], options.dilation[i] = w.dilation[i];
  options.groups = checked_range(a.group, 1, std::int64_t(1) << 30, "groups");
  const Tensor y = channels_second(Tensor(call.queue(), a.result.type, shape));
  run(call, call.in(0), call.in(1), y.view(call.queue()), options);
  call.set(0, y);
}

// Rows of x are positions of one image, their elements its channels.
void mat_mul(Call& call) {
  const bool transposed = attributes_of(call).transposed;
  const Tensor &given = call.input(0), &w = call.input(1);
  const int rank = given.shape().size();
  const std::int64_t k = w.shape()[transposed ? 1 : 0], n = w.shape()[transposed ? 0 : 1];
  if (rank < 1 || given.shape()[rank - 1] != k)
    call.fail("matrices " + given.shape().text() + " and " + w.shape().text() + " do not match");
  const Tensor x = contiguous(call.queue(), given);
  const std::int64_t rows = k ? x.numel() / k : 0;
  Shape shape = x.shape();
  shape[rank - 1] = n;
  const Tensor y(call.queue(), attributes_of(call).result.type, shape);
  const Tensor columns =
      w.strided({n, k, 1}, transposed ? std::vector<std::int64_t>{k, 1, 1} : std::vector<std::int64_t>{1, n, 1});
  run(call, x.strided({1, k, rows}, {rows * k, 1, k}).view(call.queue()), columns.view(call.queue()),
      y.strided({1, n, rows}, {rows * n, 1, n}).view(call.queue()), {});
  call.set(0, y);
}

// Of one operand or two: what their numbers times their scales are, in steps of the result, and their zero points.
struct SumAttributes {
  explicit SumAttributes(const AttributeReader& reader)
      : result(reader), factors(reader.reals("factors")), zeros(reader.integers("zeros")) {
    if (factors.size() != 2 || zeros.size() != 2) throw ValidationError("a list of two, factors or zeros, is missing");
  }
  ResultAttributes result;
  std::vector<double> factors;
  std::vector<std::int64_t> zeros;
};

void add(Call& call) {
  const auto& a = call.attributes<SumAttributes>();
  const double offset = -double(a.zeros[0]) * a.factors[0] - double(a.zeros[1]) * a.factors[1];
  Queue& queue = call.queue();
  const std::size_t larger = call.input(0).numel() < call.input(1).numel() ? 1 : 0;
  const Tensor inputs[] = {call.input(int(larger)), call.input(int(1 - larger))};
  const double factors[] = {a.factors[larger], a.factors[1 - larger]};
  if (broadcast(inputs[0].shape(), inputs[1].shape()) == inputs[0].shape()) {
    const Tensor y = empty_like(queue, a.result.type, inputs[0]);
    const TensorView x[] = {inputs[0].view(queue), inputs[1].view(queue)};
    if (can_requantize(queue.device(), x, y.view(queue))) {
      requantize(
          queue, x, y.view(queue),
          {.factors = {float(factors[0]), float(factors[1])}, .offset = float(offset), .zero = float(a.result.zero)});
      return call.set(0, y);
    }
  }
  const double low = lowest_byte(a.result.type);
  const Scalar scalars[] = {factors[0], factors[1], offset, double(a.result.zero), low, low + 255};
  call.set(0, apply(queue, "y0 = fmin(fmax(rint(x0 * w0 + x1 * w1 + w2) + w3, w4), w5);", inputs, scalars,
                    a.result.type, DataType::float32));
}

// Inputs: bytes; images [N, C, spatial...] may have a byte for each of their channels.
void mul(Call& call) {
  const auto& a = call.attributes<SumAttributes>();
  Queue& queue = call.queue();
  const std::size_t larger = call.input(0).numel() < call.input(1).numel() ? 1 : 0;
  const Tensor &x = call.input(int(larger)), &gate = call.input(int(1 - larger));
  const float zeros[] = {float(a.zeros[larger]), float(a.zeros[1 - larger])};
  const float factor = float(a.factors[0] * a.factors[1]);
  if (broadcast(x.shape(), gate.shape()) == x.shape()) {
    const Tensor y = empty_like(queue, a.result.type, x);
    if (can_gate_bytes(queue.device(), x.view(queue), gate.view(queue), y.view(queue))) {
      gate_bytes(queue, x.view(queue), gate.view(queue), y.view(queue),
                 {{zeros[0], zeros[1]}, factor, float(a.result.zero)});
      return call.set(0, y);
    }
  }
  const double low = lowest_byte(a.result.type);
  const Scalar scalars[] = {zeros[0], zeros[1], factor, double(a.result.zero), low, low + 255};
  const Tensor inputs[] = {x, gate};
  call.set(0, apply(queue, "y0 = fmin(fmax(rint((x0 - w0) * (x1 - w1) * w2) + w3, w4), w5);", inputs, scalars,
                    a.result.type, DataType::float32));
}

struct TableAttributes {
  explicit TableAttributes(const AttributeReader& reader) : type(DataType(reader.integer("type", 0))) {}
  DataType type;  // of what is looked up
};

Tensor looked_up(Call& call, const Tensor& given, const Tensor& entries) {
  Queue& queue = call.queue();
  if (entries.numel() != 256) call.fail("expected a table of 256 entries, got " + entries.shape().text());
  Tensor y = empty_like(queue, entries.dtype(), given), x = given;
  if (y.strides() != x.strides()) x = contiguous(queue, x), y = Tensor(queue, entries.dtype(), x.shape());
  look_up_bytes(queue, x.view(queue), reshape(queue, entries, {256}).view(queue), y.view(queue));
  return y;
}

// Inputs: bytes, and what each of the 256 becomes.
void table(Call& call) {
  const DataType type = call.attributes<TableAttributes>().type;
  if (call.input(0).dtype() != type)
    call.fail(std::string("expected ") + name(type) + ", as the zero point, got " + name(call.input(0).dtype()));
  call.set(0, looked_up(call, call.input(0), call.input(1)));
}

struct ConcatAttributes {
  explicit ConcatAttributes(const AttributeReader& reader) : axis(reader.integer("axis", 0)) {}
  std::int64_t axis;
};

// Inputs: tensors of bytes, each followed by a table of what its bytes become, or by none.
void concat_op(Call& call) {
  std::vector<Tensor> parts;
  for (int i = 0; i < call.inputs(); i += 2)
    parts.push_back(call.has(i + 1) ? looked_up(call, call.input(i), call.input(i + 1)) : call.input(i));
  if (parts.empty()) call.fail("an input is missing");
  call.set(0, concat(call.queue(), parts, parts[0].shape().axis(call.attributes<ConcatAttributes>().axis)));
}

// The mean of each image's channels.
void average(Call& call) {
  const auto& a = call.attributes<SumAttributes>();
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  std::vector<int> dims;
  for (int d = 2; d < x.shape().size(); d++) dims.push_back(d);
  const Tensor mean[] = {reduce(queue, ReduceId::mean, x, dims, DataType::float32)};
  const double low = lowest_byte(a.result.type);
  const Scalar scalars[] = {double(a.zeros[0]), a.factors[0], double(a.result.zero), low, low + 255};
  call.set(0, apply(queue, "y0 = fmin(fmax(rint((x0 - w0) * w1) + w2, w3), w4);", mean, scalars, a.result.type,
                    DataType::float32));
}

}  // namespace

void quantized(Registry& registry) {
  registry.add<ProductAttributes>(
      "Conv", conv,
      "auto_pad=NOTSET|VALID|SAME_UPPER|SAME_LOWER dilations group kernel_shape pads strides "
      "x_type x_zero y_zero result",
      quantized_domain);
  registry.add<ProductAttributes>("MatMul", mat_mul, "transB x_type x_zero y_zero result", quantized_domain);
  registry.add<SumAttributes>("Add", add, "factors zeros y_zero result", quantized_domain);
  registry.add<SumAttributes>("Mul", mul, "factors zeros y_zero result", quantized_domain);
  registry.add<SumAttributes>("GlobalAveragePool", average, "factors zeros y_zero result", quantized_domain);
  registry.add<ConcatAttributes>("Concat", concat_op, "axis", quantized_domain);
  registry.add<TableAttributes>("Table", table, "type", quantized_domain);
}

}  // namespace dlprim::operators
