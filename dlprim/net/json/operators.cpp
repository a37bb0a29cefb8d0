// SPDX-License-Identifier: MIT
// The operator types of JSON networks: what nodes they become, and the sizes of what they give.
#include <dlprim/error.hpp>

#include <algorithm>

#include "../checked.hpp"
#include "importer.hpp"

namespace dlprim {

namespace {

using Integers = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

DataType floating(const JsonOperator& op, int i) {
  if (!is_floating(op.input(i).dtype))
    op.fail(std::string("expected floating numbers, got ") + name(op.input(i).dtype));
  return op.input(i).dtype;
}

int axis(const JsonOperator& op, const Shape& shape, std::int64_t dim, int extra = 0) {
  try {
    return shape.axis(dim, extra);
  } catch (const ValidationError& error) {
    op.fail(error.what());
  }
}

void give(JsonOperator& op, JsonValue value) { op.outputs.push_back(std::move(value)); }

void softmax(JsonOperator& op) {
  op.expect(1), op.expect_dims(0, 2, 8);
  const JsonValue& x = op.input(0);
  give(op, op.emit(op.options.flag("log", false) ? "LogSoftmax" : "Softmax", {x.id}, x.shape, floating(op, 0),
                   {{"axis", std::int64_t(1)}}));
}

// Labels [N] or [N, 1] of any number type.
int labels(JsonOperator& op) {
  const JsonValue &x = op.input(0), &target = op.input(1);
  const bool fits = target.shape.size() >= 1 && target.shape.size() <= 2 && target.shape[0] == x.shape[0] &&
                    (target.shape.size() == 1 || target.shape[1] == 1);
  if (!fits) op.fail("expected a label for each of " + x.shape.text() + ", got " + target.shape.text());
  return op.emit("ClassLabels", {target.id, x.id}, {x.shape[0]}, DataType::int64, {}, "dlprim").id;
}

// Losses of rows, put together as `how` says. A label that is no class costs nothing.
void class_loss(JsonOperator& op, const char* node, const std::string& how) {
  op.expect(2), op.expect_dims(0, 2, 2);
  const std::int64_t rows = op.input(0).shape[0];
  const JsonValue loss = op.emit(node, {op.input(0).id, labels(op)}, {rows}, floating(op, 0),
                                 {{"reduction", std::string("none")}, {"ignore_index", std::int64_t(-1)}});
  if (how == "none") return give(op, loss);
  give(op, op.emit(how == "sum" ? "ReduceSum" : "ReduceMean", {loss.id}, {1}, loss.dtype, {{"axes", Integers{0}}}));
}

std::string reduction(JsonOperator& op) { return op.options.choice("reduce", "none|mean|sum", "mean"); }

void softmax_with_loss(JsonOperator& op) { class_loss(op, "SoftmaxCrossEntropyLoss", "mean"); }
void nll_loss(JsonOperator& op) { class_loss(op, "NegativeLogLikelihoodLoss", reduction(op)); }

void mse_loss(JsonOperator& op) {
  op.expect(2);
  const JsonValue &x = op.input(0), &y = op.input(1);
  if (!(x.shape == y.shape)) op.fail("expected equal shapes, got " + x.shape.text() + " and " + y.shape.text());
  const JsonValue difference = op.emit("Sub", {x.id, y.id}, x.shape, floating(op, 0));
  JsonValue loss = op.emit("Mul", {difference.id, difference.id}, x.shape, x.dtype);
  const std::string how = reduction(op);
  if (how != "none")
    loss = op.emit(how == "sum" ? "ReduceSum" : "ReduceMean", {loss.id}, {}, x.dtype, {{"keepdims", std::int64_t(0)}});
  give(op, loss);
}

void activation(JsonOperator& op) {
  op.expect(1), floating(op, 0);
  give(op, op.activated(op.input(0)));
}

void elementwise(JsonOperator& op) {
  op.expect(2);
  const DataType dtype = floating(op, 0);
  if (op.input(1).dtype != dtype) op.fail("expected inputs of one dtype");
  const std::string how = op.options.choice("operation", "sum|prod|max", "sum");
  int terms[2];
  Shape shape;
  try {
    shape = broadcast(op.input(0).shape, op.input(1).shape);
  } catch (const ValidationError& error) {
    op.fail(error.what());
  }
  for (int i : {0, 1}) {
    const JsonValue& x = op.input(i);
    const double factor = op.options.real(i ? "coef2" : "coef1", 1.0);
    terms[i] = factor == 1 ? x.id : op.emit("Mul", {x.id, op.constant(factor, dtype)}, x.shape, dtype).id;
  }
  const char* node = how == "sum" ? "Add" : how == "prod" ? "Mul" : "Max";
  give(op, op.activated(op.emit(node, {terms[0], terms[1]}, shape, dtype)));
}

// Positions of a window along each of two dimensions.
Shape windows(JsonOperator& op, const Integers& kernel, const Integers& stride, const Integers& pad,
              const Integers& dilate, bool ceil = false) {
  Shape out;
  for (std::size_t i = 0; i < 2; i++) {
    const std::int64_t size = op.input(0).shape[int(i) + 2], room = size + 2 * pad[i] - dilate[i] * (kernel[i] - 1) - 1;
    if (room < 0) op.fail("the kernel " + Shape(kernel).text() + " does not fit " + op.input(0).shape.text());
    std::int64_t places = (room + (ceil ? stride[i] - 1 : 0)) / stride[i] + 1;
    if (ceil && (places - 1) * stride[i] >= size + pad[i]) places--;
    out.push_back(places);
  }
  return out;
}

Integers twice(const Integers& pad) { return {pad[0], pad[1], pad[0], pad[1]}; }

void pooling(JsonOperator& op) {
  op.expect(1), op.expect_dims(0, 4, 4);
  const JsonValue& x = op.input(0);
  const bool average = op.options.choice("mode", "max|avg", "max") == "avg";
  const Integers kernel = op.options.pair("kernel", {}, 1), stride = op.options.pair("stride", 1, 1),
                 pad = op.options.pair("pad", 0, 0);
  const bool ceil = op.options.flag("ceil_mode", false), count = op.options.flag("count_include_pad", false);
  const Shape out = windows(op, kernel, stride, pad, {1, 1}, ceil);
  Attributes attributes{
      {"kernel_shape", kernel}, {"strides", stride}, {"pads", twice(pad)}, {"ceil_mode", std::int64_t(ceil)}};
  if (average) attributes["count_include_pad"] = std::int64_t(count);
  give(op, op.emit(average ? "AveragePool" : "MaxPool", {x.id}, {x.shape[0], x.shape[1], out[0], out[1]},
                   floating(op, 0), attributes));
}

void global_pooling(JsonOperator& op) {
  op.expect(1), op.expect_dims(0, 4, 4);
  const JsonValue& x = op.input(0);
  const bool average = op.options.choice("mode", "max|avg", "max") == "avg";
  give(op, op.emit(average ? "GlobalAveragePool" : "GlobalMaxPool", {x.id}, {x.shape[0], x.shape[1], 1, 1},
                   floating(op, 0)));
}

void inner_product(JsonOperator& op) {
  op.expect(1), op.expect_dims(0, 2, 8);
  const JsonValue& x = op.input(0);
  const DataType dtype = floating(op, 0);
  const std::int64_t rows = x.shape[0], length = x.shape.product(1, x.shape.size());
  const std::int64_t outputs = op.options.integer("outputs", {}, 1), inputs = op.options.integer("inputs", length, -1);
  if (inputs != length && inputs > 0) op.fail("expected " + std::to_string(inputs) + " inputs, got " + x.shape.text());
  int in = x.id;
  if (x.shape.size() > 2) in = op.emit("Flatten", {in}, {rows, length}, dtype).id;
  std::vector<int> operands{in, op.parameter({outputs, length}, dtype, Parameter::uniform, double(length))};
  if (op.options.flag("bias", true))
    operands.push_back(op.parameter({outputs}, dtype, Parameter::uniform, double(length)));
  give(op, op.activated(op.emit("Gemm", operands, {rows, outputs}, dtype, {{"transB", std::int64_t(1)}})));
}

// Options that both convolutions share.
struct Convolution {
  std::int64_t channels, groups;
  Integers kernel, stride, pad, dilate;
  bool bias;

  explicit Convolution(JsonOperator& op) {
    op.expect(1), op.expect_dims(0, 4, 4);
    const std::int64_t in = op.input(0).shape[1], given = op.options.integer("channels_in", in, -1);
    if (given != in && given > 0)
      op.fail("expected " + std::to_string(given) + " channels, got " + op.input(0).shape.text());
    channels = op.options.integer("channels_out", {}, 1), groups = op.options.integer("groups", 1, 1);
    kernel = op.options.pair("kernel", {}, 1), stride = op.options.pair("stride", 1, 1);
    pad = op.options.pair("pad", 0, 0), dilate = op.options.pair("dilate", 1, 1);
    bias = op.options.flag("bias", true);
    if (in % groups || channels % groups)
      op.fail("expected channels in " + std::to_string(groups) + " equal groups, got " + std::to_string(in) + " and " +
              std::to_string(channels));
    // The algorithm is chosen anew for every call; what a file asks for is checked and not needed.
    for (const char* key : {"fwd_algo", "bwd_data_algo", "bwd_filter_algo"})
      op.options.choice(key, "|auto|gemm|winograd|depthwise_separable", "auto");
  }
  Attributes attributes() const {
    return {{"strides", stride}, {"pads", twice(pad)}, {"dilations", dilate}, {"group", groups}};
  }
};

void convolution(JsonOperator& op) {
  const Convolution c(op);
  const JsonValue& x = op.input(0);
  const DataType dtype = floating(op, 0);
  const Shape weights{c.channels, x.shape[1] / c.groups, c.kernel[0], c.kernel[1]};
  const Shape out = windows(op, c.kernel, c.stride, c.pad, c.dilate);
  const double fan_in = double(weights[1]) * double(weights[2]) * double(weights[3]);
  std::vector<int> operands{x.id, op.parameter(weights, dtype, Parameter::uniform, fan_in)};
  if (c.bias) operands.push_back(op.parameter({c.channels}, dtype, Parameter::uniform, fan_in));
  give(op, op.activated(op.emit("Conv", operands, {x.shape[0], c.channels, out[0], out[1]}, dtype, c.attributes())));
}

void transposed_convolution(JsonOperator& op) {
  const Convolution c(op);
  const JsonValue& x = op.input(0);
  const DataType dtype = floating(op, 0);
  const Integers extra = op.options.pair("output_pad", 0, 0);
  const Shape weights{x.shape[1], c.channels / c.groups, c.kernel[0], c.kernel[1]};
  Shape shape{x.shape[0], c.channels};
  for (std::size_t i = 0; i < 2; i++) {
    const std::int64_t strides = checked_multiply(x.shape[int(i) + 2] - 1, c.stride[i]);
    shape.push_back(checked_add(strides, c.dilate[i] * (c.kernel[i] - 1) + 1 + extra[i] - 2 * c.pad[i]));
    if (shape[int(i) + 2] < 1) op.fail("the padding leaves nothing of " + x.shape.text());
    if (extra[i] >= std::max(c.stride[i], c.dilate[i])) op.fail("expected output_pad below the stride or dilation");
  }
  const double fan_in = double(weights[1]) * double(weights[2]) * double(weights[3]);
  std::vector<int> operands{x.id, op.parameter(weights, dtype, Parameter::uniform, fan_in)};
  if (c.bias) operands.push_back(op.parameter({c.channels}, dtype, Parameter::uniform, fan_in));
  Attributes attributes = c.attributes();
  attributes["output_padding"] = extra;
  give(op, op.activated(op.emit("ConvTranspose", operands, shape, dtype, attributes)));
}

void batch_norm(JsonOperator& op) {
  op.expect(1), op.expect_dims(0, 2, 8);
  const JsonValue& x = op.input(0);
  const DataType dtype = floating(op, 0);
  const std::int64_t channels = x.shape[1], features = op.options.integer("features", channels, -1);
  if (features != channels && features > 0)
    op.fail("expected " + std::to_string(features) + " channels, got " + x.shape.text());
  const double eps = op.options.real("eps", 1e-5), momentum = op.options.real("momentum", 0.1);
  const bool affine = op.options.flag("affine", true), fixed = op.options.flag("use_global_stats", false);
  const Shape shape{channels};
  const int mean = op.parameter(shape, dtype, Parameter::zeros, 1, false);
  const int variance = op.parameter(shape, dtype, Parameter::ones, 1, false);
  int gamma, beta;
  if (affine) {
    gamma = op.parameter(shape, dtype, Parameter::ones), beta = op.parameter(shape, dtype, Parameter::zeros);
  } else {
    const Integers sizes{channels};
    gamma = op.emit("Expand", {op.constant(1, dtype), op.constant(Tensor::from_integers(sizes))}, shape, dtype).id;
    beta = op.emit("Expand", {op.constant(0, dtype), op.constant(Tensor::from_integers(sizes))}, shape, dtype).id;
  }
  Attributes attributes{{"epsilon", eps}, {"momentum", 1 - momentum}};
  if (fixed) attributes["is_test"] = std::int64_t(1);
  give(op, op.emit("BatchNormalization", {x.id, gamma, beta, mean, variance}, x.shape, dtype, attributes));
}

void concat(JsonOperator& op) {
  if (op.inputs.empty()) op.fail("expected at least one input");
  op.expect(op.inputs.size());
  Shape shape = op.input(0).shape;
  const int dim = axis(op, shape, op.options.integer("dim", 1, 0));
  std::vector<int> ids;
  std::int64_t total = 0;
  for (const JsonValue& x : op.inputs) {
    Shape rest = x.shape;
    if (rest.size() == shape.size()) total += rest[dim], rest[dim] = shape[dim];
    if (!(rest == shape) || x.dtype != op.input(0).dtype)
      op.fail("tensors " + shape.text() + " and " + x.shape.text() + " do not join");
    ids.push_back(x.id);
  }
  shape[dim] = total;
  give(op, op.emit("Concat", ids, shape, op.input(0).dtype, {{"axis", std::int64_t(dim)}}));
}

void slice(JsonOperator& op) {
  op.expect(1);
  const JsonValue& x = op.input(0);
  const int dim = axis(op, x.shape, op.options.integer("dim", 1, 0));
  const std::int64_t begin = op.options.integer("begin", 0, 0), end = op.options.integer("end", x.shape[dim], 0);
  if (begin >= end || end > x.shape[dim])
    op.fail("expected begin < end within " + x.shape.text() + ", got " + std::to_string(begin) + " and " +
            std::to_string(end));
  Shape shape = x.shape;
  shape[dim] = end - begin;
  give(op, op.emit("Slice", {x.id}, shape, x.dtype,
                   {{"starts", Integers{begin}}, {"ends", Integers{end}}, {"axes", Integers{dim}}}));
}

void flatten(JsonOperator& op) {
  op.expect(1), op.expect_dims(0, 1, 8);
  const Shape& s = op.input(0).shape;
  give(op, op.emit("Flatten", {op.input(0).id}, {s[0], s.product(1, s.size())}, op.input(0).dtype));
}

void absolute(JsonOperator& op) {
  op.expect(1);
  give(op, op.emit("Abs", {op.input(0).id}, op.input(0).shape, floating(op, 0)));
}

void squeeze(JsonOperator& op) {
  op.expect(1);
  const JsonValue& x = op.input(0);
  const bool given = op.options.has("dims"), all = op.options.flag("all", !given);
  if (all && given) op.fail("expected either dims or all");
  if (!all && !given) return give(op, op.emit("Identity", {x.id}, x.shape, x.dtype));
  Integers dims;
  if (given)
    for (std::int64_t dim : op.options.integers("dims")) dims.push_back(axis(op, x.shape, dim));
  Shape shape;
  for (int d = 0; d < x.shape.size(); d++) {
    const bool drop = given ? std::find(dims.begin(), dims.end(), d) != dims.end() : x.shape[d] == 1;
    if (drop && x.shape[d] != 1) op.fail("dimension " + std::to_string(d) + " of " + x.shape.text() + " is not 1");
    if (!drop) shape.push_back(x.shape[d]);
  }
  Attributes attributes;
  if (given) attributes["axes"] = dims;
  give(op, op.emit("Squeeze", {x.id}, shape, x.dtype, attributes));
}

void reshape(JsonOperator& op) {
  op.expect(1);
  const JsonValue& x = op.input(0);
  const Integers dims = op.options.integers("dims");
  Shape shape(dims);
  std::int64_t rest = x.shape.total_size();
  int open = -1;
  for (int d = 0; d < shape.size(); d++) {
    if (shape[d] == 0 && d < x.shape.size()) shape[d] = x.shape[d];
    if (shape[d] == -1 && open < 0) open = d;
    else if (shape[d] < 1 || rest % shape[d])
      op.fail("shape " + x.shape.text() + " cannot become " + Shape(dims).text());
    else rest /= shape[d];
  }
  if (open >= 0) shape[open] = rest;
  else if (rest != 1) op.fail("shape " + x.shape.text() + " cannot become " + Shape(dims).text());
  give(op, op.emit("Reshape", {x.id}, shape, x.dtype, {{"shape", dims}}));
}

void reduction_op(JsonOperator& op) {
  op.expect(1);
  const JsonValue& x = op.input(0);
  const std::string method = op.options.choice("method", "sum|sumsq|abssum|mean", "sum");
  if (op.options.has("dims") && op.options.has("start_axis")) op.fail("expected either dims or start_axis");
  Integers dims;
  if (op.options.has("dims"))
    for (std::int64_t dim : op.options.integers("dims")) dims.push_back(axis(op, x.shape, dim));
  else
    for (int d = axis(op, x.shape, op.options.integer("start_axis", 0)); d < x.shape.size(); d++) dims.push_back(d);
  const bool keep = op.options.flag("keep_dim", true);
  const double scale = op.options.real("output_scale", 1.0);
  Shape shape;
  for (int d = 0; d < x.shape.size(); d++) {
    const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!reduced || keep) shape.push_back(reduced ? 1 : x.shape[d]);
  }
  const char* node = method == "sum"     ? "ReduceSum"
                     : method == "mean"  ? "ReduceMean"
                     : method == "sumsq" ? "ReduceSumSquare"
                                         : "ReduceL1";
  JsonValue y = op.emit(node, {x.id}, shape, floating(op, 0),
                        {{"axes", dims}, {"keepdims", std::int64_t(keep)}, {"noop_with_empty_axes", std::int64_t(1)}});
  if (scale != 1) y = op.emit("Mul", {y.id, op.constant(scale, y.dtype)}, shape, y.dtype);
  give(op, y);
}

void threshold(JsonOperator& op) {
  op.expect(1);
  const JsonValue& x = op.input(0);
  const int limit = op.constant(op.options.real("threshold", 0.0), floating(op, 0));
  const JsonValue above = op.emit("Greater", {x.id, limit}, x.shape, DataType::boolean);
  give(op, op.emit("CastLike", {above.id, x.id}, x.shape, x.dtype));
}

void hardtanh(JsonOperator& op) {
  op.expect(1);
  const double low = op.options.real("min_val", -1.0), high = op.options.real("max_val", 1.0);
  if (low > high) op.fail("expected min_val up to max_val");
  give(op, op.emit("Clip", {op.input(0).id}, op.input(0).shape, floating(op, 0), {{"min", low}, {"max", high}}));
}

void parameter(JsonOperator& op) {
  op.expect(0);
  const Shape shape = op.options.shape("shape");
  const DataType dtype = op.options.dtype("dtype");
  const int id = op.parameter(shape, dtype, Parameter::zeros, 1, op.options.flag("is_trainable", true));
  give(op, op.emit("Identity", {id}, shape, dtype));
}

void interpolation(JsonOperator& op) {
  op.expect(1), op.expect_dims(0, 4, 4);
  const JsonValue& x = op.input(0);
  const std::string method = op.options.choice("method", "nearest|nearest-exact|bilinear");
  // -1 stands for what is not given.
  const std::int64_t rows = op.options.integer("out_h", -1, -1), columns = op.options.integer("out_w", -1, -1);
  const double factors[] = {op.options.real("scale_y", -1.0), op.options.real("scale_x", -1.0)};
  const bool sizes = rows > 0 && columns > 0, scaled = factors[0] > 0 && factors[1] > 0;
  const bool mixed = (rows > 0 || columns > 0) == (factors[0] > 0 || factors[1] > 0);
  if (mixed || (!sizes && !scaled)) op.fail("expected either out_h and out_w or scale_y and scale_x");
  const bool align = op.options.flag("align_corners", false);
  if (align && method != "bilinear") op.fail("align_corners goes with bilinear");
  Shape shape = x.shape;
  Attributes attributes{{"method", method}, {"align_corners", std::int64_t(align)}};
  if (sizes) {
    shape[2] = rows, shape[3] = columns;
    attributes["sizes"] = Integers{rows, columns};
  } else {
    for (int i : {0, 1}) {
      if (!(factors[i] < 1e6)) op.fail("expected scales above 0");
      shape[i + 2] = std::int64_t(double(x.shape[i + 2]) * factors[i]);
      if (shape[i + 2] < 1) op.fail("the scale leaves nothing of " + x.shape.text());
    }
    attributes["scales"] = std::vector<double>{factors[0], factors[1]};
  }
  give(op, op.emit("Interpolation", {x.id}, shape, floating(op, 0), attributes, "dlprim"));
}

const std::map<std::string, void (*)(JsonOperator&)> types = {
    {"Softmax", softmax},
    {"SoftmaxWithLoss", softmax_with_loss},
    {"NLLLoss", nll_loss},
    {"MSELoss", mse_loss},
    {"Activation", activation},
    {"Elementwise", elementwise},
    {"Pooling2D", pooling},
    {"GlobalPooling", global_pooling},
    {"InnerProduct", inner_product},
    {"Convolution2D", convolution},
    {"TransposedConvolution2D", transposed_convolution},
    {"BatchNorm", batch_norm},
    {"Concat", concat},
    {"Slice", slice},
    {"Flatten", flatten},
    {"Abs", absolute},
    {"Squeeze", squeeze},
    {"Reshape", reshape},
    {"Reduction", reduction_op},
    {"Threshold", threshold},
    {"Hardtanh", hardtanh},
    {"Parameter", parameter},
    {"Interpolation", interpolation},
};

}  // namespace

void translate(JsonOperator& op) {
  auto it = types.find(op.type);
  if (it == types.end())
    throw NotImplementedError("[operator '" + op.name + "'] there is no type '" + op.type + "' of operators");
  it->second(op);
}

}  // namespace dlprim
