// SPDX-License-Identifier: MIT
// What JSON operators the types of ONNX nodes become.
#include <cmath>

#include "../window.hpp"
#include "exporter.hpp"

namespace dlprim {

namespace {

using Integers = std::vector<std::int64_t>;

// One padding for both sides that gives as many positions: what lies behind the last window does not matter.
Integers symmetric_pads(JsonExport& call, const Window& w, const Shape& x, bool ceil, bool* needs_ceil = nullptr) {
  for (bool up : {ceil, true}) {
    bool fits = !up || ceil || needs_ceil;
    for (int i = 0; i < 2; i++) {
      const auto k = std::size_t(i);
      const std::int64_t span = (w.kernel[k] - 1) * w.dilation[k] + 1, room = x[i + 2] + 2 * w.before[k] - span;
      std::int64_t places = (room + (up ? w.stride[k] - 1 : 0)) / w.stride[k] + 1;
      if (up && (places - 1) * w.stride[k] >= x[i + 2] + w.before[k]) places--;
      fits &= w.before[k] >= 0 && room >= 0 && places == w.out[k];
    }
    if (fits) {
      if (needs_ceil) *needs_ceil = up;
      return w.before;
    }
  }
  call.expect(false, "its padding differs before and behind");
  return {};
}

Integers kernel_of(const Shape& weights) { return {weights.begin() + 2, weights.end()}; }

std::vector<std::string> weights_and_bias(JsonExport& call) {
  std::vector<std::string> params{call.parameter_name(1)};
  if (call.has(2)) params.push_back(call.parameter_name(2));
  return params;
}

void convolution(JsonExport& call) {
  call.expect(call.shape(0).size() == 4, "it is not two-dimensional");
  const Tensor& weights = call.expect_constant(1);
  Window w = read_window(call, WindowAttributes(call), call.shape(0), kernel_of(weights.shape()));
  const Integers more = call.take_padding();
  Shape x = call.shape(0);
  for (std::size_t i : {0, 1}) w.before[i] += more[i], x[int(i) + 2] -= more[i] + more[i + 2];
  const Integers pads = symmetric_pads(call, w, x, false);
  call.emit("Convolution2D", {call.value_name(0)}, call.output_name(),
            {{"channels_out", weights.shape()[0]},
             {"channels_in", x[1]},
             {"kernel", w.kernel},
             {"stride", w.stride},
             {"pad", pads},
             {"dilate", w.dilation},
             {"groups", call.integer("group", 1)},
             {"bias", call.has(2)}},
            weights_and_bias(call));
}

void transposed_convolution(JsonExport& call) {
  call.expect(call.shape(0).size() == 4, "it is not two-dimensional");
  const Tensor& weights = call.expect_constant(1);
  const Window w = read_transposed_window(call, WindowAttributes(call), call.shape(0), kernel_of(weights.shape()));
  const std::int64_t groups = call.integer("group", 1);
  Integers extra(2);
  for (int i : {0, 1}) {
    const auto k = std::size_t(i);
    extra[k] =
        w.out[k] - ((call.shape(0)[i + 2] - 1) * w.stride[k] - 2 * w.before[k] + (w.kernel[k] - 1) * w.dilation[k] + 1);
    call.expect(w.before[k] >= 0 && extra[k] >= 0 && extra[k] < std::max(w.stride[k], w.dilation[k]),
                "its padding differs before and behind");
  }
  call.emit("TransposedConvolution2D", {call.value_name(0)}, call.output_name(),
            {{"channels_out", weights.shape()[1] * groups},
             {"kernel", w.kernel},
             {"stride", w.stride},
             {"pad", w.before},
             {"dilate", w.dilation},
             {"output_pad", extra},
             {"groups", groups},
             {"bias", call.has(2)}},
            weights_and_bias(call));
}

void gemm(JsonExport& call) {
  call.expect(call.real("alpha", 1) == 1 && (!call.has(2) || call.real("beta", 1) == 1), "alpha or beta is not 1");
  call.expect(!call.integer("transA", 0), "transA is set");
  const Tensor& weights = call.expect_constant(1);
  const bool flip = !call.integer("transB", 0);
  const std::int64_t outputs = weights.shape()[flip ? 1 : 0];
  std::vector<std::string> params{flip ? call.parameter(contiguous(call.queue(), transpose(weights)))
                                       : call.parameter_name(1)};
  if (call.has(2)) {
    const Tensor& bias = call.expect_constant(2);
    call.expect(bias.numel() == outputs && (bias.shape().size() == 1 || bias.shape()[0] == 1), "its addend is no row");
    params.push_back(bias.shape().size() == 1 ? call.parameter_name(2)
                                              : call.parameter(reshape(call.queue(), bias, {outputs})));
  }
  call.emit("InnerProduct", {call.value_name(0)}, call.output_name(), {{"outputs", outputs}, {"bias", call.has(2)}},
            params);
}

void mat_mul(JsonExport& call) {
  const Tensor& weights = call.expect_constant(1);
  call.expect(call.shape(0).size() == 2 && weights.shape().size() == 2, "it is no product of two matrices");
  call.emit("InnerProduct", {call.value_name(0)}, call.output_name(),
            {{"outputs", weights.shape()[1]}, {"bias", false}},
            {call.parameter(contiguous(call.queue(), transpose(weights)))});
}

void batch_norm(JsonExport& call) {
  for (int i : {1, 2, 3, 4}) call.expect_constant(i);
  call.expect(!call.integer("training_mode", 0), "training_mode is set");
  call.emit("BatchNorm", {call.value_name(0)}, call.output_name(),
            {{"features", call.shape(0)[1]},
             {"eps", call.real("epsilon", 1e-5)},
             {"momentum", 1 - call.real("momentum", 0.9)},
             {"use_global_stats", call.integer("is_test", 0) != 0}},
            {call.parameter_name(3), call.parameter_name(4), call.parameter_name(1), call.parameter_name(2)});
}

void identity(JsonExport& call) { call.same(call.value_name(0)); }
void activation(JsonExport& call) {
  const std::string name = call.type() == "Relu" ? "relu" : call.type() == "Tanh" ? "tanh" : "sigmoid";
  call.emit("Activation", {call.value_name(0)}, call.output_name(), {{"activation", name}});
}

void clip(JsonExport& call) {
  auto bound = [&](int i, const char* name, double otherwise) {
    return call.has(i) ? to_reals(call.queue(), call.expect_constant(i)).at(0) : call.real(name, otherwise);
  };
  const double low = bound(1, "min", -3.4e38), high = bound(2, "max", 3.4e38);
  if (low == 0 && high == 6)
    return call.emit("Activation", {call.value_name(0)}, call.output_name(), {{"activation", "relu6"}});
  call.emit("Hardtanh", {call.value_name(0)}, call.output_name(), {{"min_val", low}, {"max_val", high}});
}

// operation(coef1 a, coef2 b)
void combine(JsonExport& call, const char* operation, const std::string& a, const std::string& b, const std::string& y,
             double coef1 = 1, double coef2 = 1) {
  call.expect(is_floating(call.output_dtype()), "it computes integers");
  Json options = {{"operation", operation}};
  if (coef1 != 1) options["coef1"] = coef1;
  if (coef2 != 1) options["coef2"] = coef2;
  call.emit("Elementwise", {a, b}, y, options);
}

void binary(JsonExport& call) {
  call.expect(call.inputs() == 2, "it has other than two inputs");
  const std::string type = call.type();
  const char* operation = type == "Mul" ? "prod" : type == "Max" ? "max" : "sum";
  const std::string a = call.value_name(0), b = call.value_name(1);
  combine(call, operation, a, b, call.output_name(), 1, type == "Sub" ? -1 : 1);
}

void divide(JsonExport& call) {
  const Tensor& by = call.expect_constant(1);
  call.expect(is_floating(by.dtype()), "it computes integers");
  combine(call, "prod", call.value_name(0), call.constant_value(apply(call.queue(), "y0 = 1 / x0;", {by})),
          call.output_name());
}

void negate(JsonExport& call) {
  combine(call, "sum", call.value_name(0), call.value_name(0), call.output_name(), -1, 0);
}
void leaky_relu(JsonExport& call) {
  const double slope = call.real("alpha", 0.01);
  call.expect(slope <= 1, "its slope is above 1");
  combine(call, "max", call.value_name(0), call.value_name(0), call.output_name(), 1, slope);
}

void power(JsonExport& call) {
  const Tensor& exponent = call.expect_constant(1);
  call.expect(exponent.numel() == 1 && to_reals(call.queue(), exponent)[0] == 2, "the exponent is not 2");
  combine(call, "prod", call.value_name(0), call.value_name(0), call.output_name());
}

std::string hard_sigmoid(JsonExport& call, const std::string& y, double alpha, double beta) {
  const std::string line = call.fresh_name();
  combine(call, "sum", call.value_name(0), call.constant_value(call.number(beta)), line, alpha);
  call.emit("Hardtanh", {line}, y, {{"min_val", 0}, {"max_val", 1}});
  return y;
}

void hard_sigmoid_op(JsonExport& call) {
  hard_sigmoid(call, call.output_name(), call.real("alpha", 0.2), call.real("beta", 0.5));
}
void hard_swish(JsonExport& call) {
  combine(call, "prod", call.value_name(0), hard_sigmoid(call, call.fresh_name(), 1.0 / 6, 0.5), call.output_name());
}

void softmax(JsonExport& call) {
  const Shape& x = call.shape(0);
  const int axis = x.axis(call.integer("axis", call.version() < 13 ? 1 : -1));
  const bool row = call.version() >= 13 || x.product(2, x.size()) == 1;  // before, what follows the axis belongs to it
  call.expect(axis == 1 && x.size() >= 2 && row, "it goes along another axis than 1");
  call.emit("Softmax", {call.value_name(0)}, call.output_name(), {{"log", call.type() == "LogSoftmax"}});
}

void pooling(JsonExport& call) {
  call.expect(call.shape(0).size() == 4, "it is not two-dimensional");
  const bool average = call.type() == "AveragePool", ceil = call.integer("ceil_mode", 0);
  const Integers more = call.take_padding();
  Window w = read_window(call, WindowAttributes(call), call.shape(0), call.integers("kernel_shape"));
  call.expect(!dilated(w) && !(call.outputs() > 1 && call.wants(1)), "it has dilations or gives indices");
  Shape x = call.shape(0);
  bool count = call.integer("count_include_pad", 0), padded = false;
  for (std::size_t i : {0, 1}) {
    padded |= more[i] + more[i + 2] != 0;
    call.expect(!padded || w.before[i] == 0, "it pads what is padded");
    w.before[i] += more[i], x[int(i) + 2] -= more[i] + more[i + 2];
  }
  call.expect(!padded || average, "zeros around it may be larger than what it holds");
  bool up = ceil;
  const Integers pads = symmetric_pads(call, w, x, ceil, count || padded ? nullptr : &up);
  Json options = {
      {"mode", average ? "avg" : "max"}, {"kernel", w.kernel}, {"stride", w.stride}, {"pad", pads}, {"ceil_mode", up}};
  if (average) options["count_include_pad"] = count || padded;
  call.emit("Pooling2D", {call.value_name(0)}, call.output_name(), options);
}

void global_pooling(JsonExport& call) {
  call.expect(call.shape(0).size() == 4, "it is not two-dimensional");
  call.emit("GlobalPooling", {call.value_name(0)}, call.output_name(),
            {{"mode", call.type() == "GlobalMaxPool" ? "max" : "avg"}});
}

void concat_op(JsonExport& call) {
  std::vector<std::string> inputs;
  for (int i = 0; i < call.inputs(); i++) inputs.push_back(call.value_name(i));
  call.emit("Concat", inputs, call.output_name(), {{"dim", call.shape(0).axis(call.integer("axis", 1))}});
}

// Sizes are those of the run; the first is kept open where it stays the same.
void reshape_op(JsonExport& call) {
  Integers dims = call.output_shape().sizes();
  call.expect(!dims.empty() && dims.size() <= 8, "it gives a single number or too many dimensions");
  const Shape& x = call.shape(0);
  if (x.size() == 2 && dims == x.sizes()) return identity(call);
  if (x.size() && x[0] == dims[0]) dims[0] = 0;
  call.emit("Reshape", {call.value_name(0)}, call.output_name(), {{"dims", dims}});
}

void transpose_op(JsonExport& call) {
  Integers order = call.integers("perm"), moved;
  const Shape& x = call.shape(0);
  if (!call.given("perm"))
    for (int d = x.size() - 1; d >= 0; d--) order.push_back(d);
  for (std::int64_t d : order)
    if (x[x.axis(d)] != 1) moved.push_back(x.axis(d));
  call.expect(std::is_sorted(moved.begin(), moved.end()), "it moves elements");
  reshape_op(call);
}

void slice_op(JsonExport& call) {
  const bool in = call.has(1);
  auto list = [&](int i, const char* name) {
    return in ? (call.has(i) ? to_integers(call.queue(), call.expect_constant(i)) : Integers()) : call.integers(name);
  };
  const Integers starts = list(1, "starts"), ends = list(2, "ends"), steps = list(4, "steps");
  Integers axes = list(3, "axes");
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); i++) axes.push_back(std::int64_t(i));
  std::string from = call.value_name(0);
  for (std::size_t i = 0; i < starts.size(); i++) {
    const int d = call.shape(0).axis(axes[i]);
    const std::int64_t size = call.shape(0)[d];
    auto clamped = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
    call.expect(steps.empty() || steps[i] == 1, "its step is not 1");
    call.expect(clamped(starts[i]) < clamped(ends[i]), "it is empty");
    const std::string to = i + 1 == starts.size() ? call.output_name() : call.fresh_name();
    call.emit("Slice", {from}, to, {{"dim", d}, {"begin", clamped(starts[i])}, {"end", clamped(ends[i])}});
    from = to;
  }
}

void split(JsonExport& call) {
  const int d = call.shape(0).axis(call.integer("axis", 0));
  std::int64_t begin = 0;
  for (int i = 0; i < call.outputs(); i++) {
    const std::int64_t end = begin + call.output_shape(i)[d];
    if (call.wants(i))
      call.emit("Slice", {call.value_name(0)}, call.output_name(i), {{"dim", d}, {"begin", begin}, {"end", end}});
    begin = end;
  }
}

void reduction(JsonExport& call) {
  Integers axes = call.integers("axes");
  if (call.has(1)) axes = to_integers(call.queue(), call.expect_constant(1));
  const Shape& x = call.shape(0);
  if (axes.empty() && call.integer("noop_with_empty_axes", 0)) return identity(call);
  if (axes.empty())
    for (int d = 0; d < x.size(); d++) axes.push_back(d);
  for (std::int64_t& axis : axes) axis = x.axis(axis);
  const std::map<std::string, const char*> methods = {
      {"ReduceSum", "sum"}, {"ReduceMean", "mean"}, {"ReduceL1", "abssum"}, {"ReduceSumSquare", "sumsq"}};
  call.expect(is_floating(call.output_dtype()), "it computes integers");
  call.emit("Reduction", {call.value_name(0)}, call.output_name(),
            {{"method", methods.at(call.type())}, {"dims", axes}, {"keep_dim", call.integer("keepdims", 1) != 0}});
}

void pad_op(JsonExport& call) {
  call.expect(call.text("mode", "constant") == "constant" && call.shape(0).size() == 4 && !call.has(3),
              "it pads by other than zeros around images");
  if (call.has(2))
    call.expect(to_reals(call.queue(), call.expect_constant(2)).at(0) == 0, "it pads by other than zeros");
  call.expect(call.real("value", 0) == 0, "it pads by other than zeros");
  const Integers pads = call.has(1) ? to_integers(call.queue(), call.expect_constant(1)) : call.integers("pads");
  call.expect(pads.size() == 8 && !pads[0] && !pads[1] && !pads[4] && !pads[5], "it pads other than height and width");
  const Integers around{pads[2], pads[3], pads[6], pads[7]};
  call.expect(std::all_of(around.begin(), around.end(), [](std::int64_t p) { return p >= 0; }), "it cuts off");
  if (around == Integers{0, 0, 0, 0}) return identity(call);
  call.leave_padding(around);
}

void cast_op(JsonExport& call) {
  call.expect(call.input(0).dtype() == call.output_dtype(), "it changes the type");
  identity(call);
}

void resize(JsonExport& call) {
  const Shape &x = call.shape(0), &y = call.output_shape();
  call.expect(x.size() == 4 && x[0] == y[0] && x[1] == y[1], "it resizes other than height and width");
  const bool old = call.version() < 11;
  const std::string mode = call.text("mode", "nearest"),
                    rounding = call.text("nearest_mode", old ? "floor" : "round_prefer_floor");
  std::string place = old ? "asymmetric" : call.text("coordinate_transformation_mode", "half_pixel");
  if (place == "pytorch_half_pixel" && y[2] > 1 && y[3] > 1) place = "half_pixel";
  const bool whole = y[2] % x[2] == 0 && y[3] % x[3] == 0;
  std::string method;
  if (mode == "linear" && (place == "half_pixel" || place == "align_corners")) method = "bilinear";
  if (mode == "nearest" && place == "asymmetric" && rounding == "floor") method = "nearest";
  if (mode == "nearest" && place == "half_pixel" && whole && rounding.starts_with("round")) method = "nearest";
  if (mode == "nearest" && place == "half_pixel" && rounding == "round_prefer_ceil") method = "nearest-exact";
  call.expect(!method.empty() && !call.integer("antialias", 0) && !call.integer("exclude_outside", 0),
              "it resizes in another way");
  std::vector<double> scales = call.reals("scales");
  const int first = old ? 1 : 2;
  if (call.has(first) && call.input(first).numel()) scales = to_reals(call.queue(), call.expect_constant(first));
  for (std::size_t i = 0; i < 2 && scales.size() >= 2; i++) {
    const double scale = scales[scales.size() - 2 + i];
    call.expect(std::fabs(scale * double(x[int(i) + 2]) - double(y[int(i) + 2])) < 1e-3,
                "its scale is not that of the sizes");
  }
  Json options = {{"method", method}, {"out_h", y[2]}, {"out_w", y[3]}};
  if (place == "align_corners") options["align_corners"] = true;
  call.emit("Interpolation", {call.value_name(0)}, call.output_name(), options);
}

void interpolation(JsonExport& call) {
  const Shape& y = call.output_shape();
  const std::vector<double> scales = call.reals("scales");
  Json options = {{"method", call.text("method", "nearest")}};
  if (scales.empty()) options["out_h"] = y[2], options["out_w"] = y[3];
  else options["scale_y"] = scales.at(0), options["scale_x"] = scales.at(1);
  if (call.integer("align_corners", 0)) options["align_corners"] = true;
  call.emit("Interpolation", {call.value_name(0)}, call.output_name(), options);
}

void absolute(JsonExport& call) { call.emit("Abs", {call.value_name(0)}, call.output_name()); }

void labels(JsonExport& call) { call.alias(); }  // losses bring their labels into form themselves

void expect_plain_rows(JsonExport& call) {
  call.expect(call.shape(0).size() == 2 && !call.has(2), "it has weights or is no loss of rows");
  call.expect(call.integer("ignore_index", -1) < 0, "it ignores a class");
}

void likelihood(JsonExport& call) {
  expect_plain_rows(call);
  const std::string how = call.text("reduction", "mean");
  call.expect(how == "none" || !call.given("ignore_index"), "it ignores labels");
  call.emit("NLLLoss", {call.value_name(0), call.value_name(1)}, call.output_name(), {{"reduce", how}});
}

void cross_entropy(JsonExport& call) {
  expect_plain_rows(call);
  const std::string how = call.text("reduction", "mean");
  call.expect(how == "none" || !call.given("ignore_index"), "it ignores labels");
  if (how == "mean") return call.emit("SoftmaxWithLoss", {call.value_name(0), call.value_name(1)}, call.output_name());
  const std::string logs = call.fresh_name();
  call.emit("Softmax", {call.value_name(0)}, logs, {{"log", true}});
  call.emit("NLLLoss", {logs, call.value_name(1)}, call.output_name(), {{"reduce", how}});
}

const std::map<std::string, JsonExportFunction> exports = {
    {"Conv", convolution},
    {"ConvTranspose", transposed_convolution},
    {"Gemm", gemm},
    {"MatMul", mat_mul},
    {"BatchNormalization", batch_norm},
    {"Identity", identity},
    {"Dropout", identity},
    {"Relu", activation},
    {"Tanh", activation},
    {"Sigmoid", activation},
    {"Clip", clip},
    {"Add", binary},
    {"Sub", binary},
    {"Mul", binary},
    {"Max", binary},
    {"Sum", binary},
    {"Div", divide},
    {"Neg", negate},
    {"LeakyRelu", leaky_relu},
    {"Pow", power},
    {"HardSigmoid", hard_sigmoid_op},
    {"HardSwish", hard_swish},
    {"Softmax", softmax},
    {"LogSoftmax", softmax},
    {"MaxPool", pooling},
    {"AveragePool", pooling},
    {"GlobalAveragePool", global_pooling},
    {"GlobalMaxPool", global_pooling},
    {"Concat", concat_op},
    {"Reshape", reshape_op},
    {"Flatten", reshape_op},
    {"Squeeze", reshape_op},
    {"Unsqueeze", reshape_op},
    {"Transpose", transpose_op},
    {"Slice", slice_op},
    {"Split", split},
    {"ReduceSum", reduction},
    {"ReduceMean", reduction},
    {"ReduceL1", reduction},
    {"ReduceSumSquare", reduction},
    {"Pad", pad_op},
    {"Cast", cast_op},
    {"CastLike", cast_op},
    {"Resize", resize},
    {"Upsample", resize},
    {"Abs", absolute},
    {"Interpolation", interpolation},
    {"SoftmaxCrossEntropyLoss", cross_entropy},
    {"NegativeLogLikelihoodLoss", likelihood},
    {"ClassLabels", labels},
};

}  // namespace

JsonExportFunction find_json_export(const std::string& type) {
  auto it = exports.find(type);
  return it == exports.end() ? nullptr : it->second;
}

}  // namespace dlprim
