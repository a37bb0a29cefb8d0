// SPDX-License-Identifier: MIT
// Operators of ONNX Runtime's domain, which its optimizers put in the place of several of ONNX's: products, convolutions
// and activations. None of that domain has a gradient: networks are trained before they are optimized.
#include <dlprim/primitives/pointwise_code.hpp>

#include "../array.hpp"
#include "../contrib.hpp"

namespace dlprim::operators {

namespace {

struct ProductAttributes {
  explicit ProductAttributes(const AttributeReader& reader)
      : transpose_a(reader.integer("transA", 0)), transpose_b(reader.integer("transB", 0)),
        batch_a(reader.integer("transBatchA", 0)), batch_b(reader.integer("transBatchB", 0)),
        alpha(reader.real("alpha", 1)) {
    if (reader.given("constant_weights")) kept = std::make_shared<std::optional<Workspace>>();
  }
  bool transpose_a, transpose_b;
  bool batch_a, batch_b;  // the first dimension is that of rows, what follows are batches
  double alpha;
  std::shared_ptr<std::optional<Workspace>> kept;  // of constant weights
};

Tensor operand(const Tensor& x, bool transposed, bool batch_behind) {
  const int rank = x.shape().size();
  Tensor y = x;
  if (batch_behind && rank > 2) {
    std::vector<std::int64_t> order;
    for (int d = 1; d < rank - 1; d++) order.push_back(d);
    order.push_back(0), order.push_back(rank - 1);
    y = permute(x, order);
  }
  return transposed && rank > 1 ? transpose(y) : y;
}

void fused_mat_mul(Call& call) {
  const auto& a = call.attributes<ProductAttributes>();
  const Tensor y = matmul(call.queue(), operand(call.input(0), a.transpose_a, a.batch_a),
                          operand(call.input(1), a.transpose_b, a.batch_b), {}, Activation::none, a.kept.get());
  call.set(0, a.alpha == 1 ? y : apply(call.queue(), "y0 = x0 * w0;", {y}, {a.alpha}));
}

// Activations that may follow, and which of their attributes the numbers in the file are.
const std::map<std::string, std::vector<const char*>>& activations() {
  static const std::map<std::string, std::vector<const char*>> all{
      {"Relu", {}},
      {"Tanh", {}},
      {"Sigmoid", {}},
      {"Softplus", {}},
      {"Softsign", {}},
      {"HardSwish", {}},
      {"LeakyRelu", {"alpha"}},
      {"Elu", {"alpha"}},
      {"ThresholdedRelu", {"alpha"}},
      {"Clip", {"min", "max"}},
      {"HardSigmoid", {"alpha", "beta"}},
  };
  return all;
}

std::string activation_words() {
  std::string words = "activation=";
  for (const auto& [name, numbers] : activations()) words += "|" + name;
  return words;
}

// A convolution or product, and what is done to its result: ReLU as it is written, others behind.
struct FusedAttributes {
  FusedAttributes(const AttributeReader& reader, const char* type, const std::vector<double>& numbers)
      : op(type, plain(reader)) {
    const std::string name = reader.text("activation", "");
    if (name.empty() || name == "Relu") return;
    Inner::Attributes attributes;
    const auto& names = activations().at(name);
    for (std::size_t i = 0; i < names.size() && i < numbers.size(); i++) attributes[names[i]] = numbers[i];
    activation.emplace(name.c_str(), std::move(attributes));
  }
  Inner op;
  std::optional<Inner> activation;

 private:
  static Inner::Attributes plain(const AttributeReader& reader) {
    Inner::Attributes attributes = reader.node().attributes;
    for (const char* name :
         {"activation", "activation_params", "activation_alpha", "activation_beta", "activation_gamma"})
      attributes.erase(name);
    if (reader.text("activation", "") == "Relu") attributes["activation"] = std::string("Relu");
    const auto& inputs = reader.node().inputs;
    if (reader.node().type == "FusedConv" && inputs.size() > 3 && inputs[3] >= 0)
      attributes["residual"] = std::int64_t(1);
    return attributes;
  }
};

struct FusedConvAttributes : FusedAttributes {
  explicit FusedConvAttributes(const AttributeReader& reader)
      : FusedAttributes(reader, "Conv", reader.reals("activation_params")) {}
};
struct FusedGemmAttributes : FusedAttributes {
  explicit FusedGemmAttributes(const AttributeReader& reader)
      : FusedAttributes(reader, "Gemm", {reader.real("activation_alpha", 0), reader.real("activation_beta", 0)}) {}
};

void run_fused(Call& call, const FusedAttributes& fused) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < call.inputs(); i++) inputs.push_back(call.has(i) ? call.input(i) : Tensor());
  const Tensor y = call.run(fused.op, inputs)[0];
  call.set(0, fused.activation ? call.run(*fused.activation, {y})[0] : y);
}
void fused_conv(Call& call) { run_fused(call, call.attributes<FusedConvAttributes>()); }
void fused_gemm(Call& call) { run_fused(call, call.attributes<FusedGemmAttributes>()); }

// A convolution of images [N, height, width, C]; weights lie as ONNX's do.
struct NhwcConvAttributes {
  explicit NhwcConvAttributes(const AttributeReader& reader) : conv("Conv", reader.node().attributes) {}
  Inner conv;
};
void nhwc_conv(Call& call) {
  const Tensor bias = call.has(2) ? call.input(2) : Tensor();
  const Inner& conv = call.attributes<NhwcConvAttributes>().conv;
  call.set(0, channels_behind(call.run(conv, {channels_second(call.input(0)), call.input(1), bias})[0]));
}

// A row of the pointwise table of the sum of the inputs.
void of_sum(Call& call, PointwiseId id) {
  const PointwiseRow& row = pointwise_row(id);
  if (!call.has(1)) return call.set(0, apply(call.queue(), row.name, {call.input(0)}));
  call.set(0, apply(call.queue(), "T s = x0 + x1; " + assign_row(id, "y0", {"s"}), {call.input(0), call.input(1)}));
}
void gelu(Call& call) { of_sum(call, PointwiseId::gelu); }
void fast_gelu(Call& call) { of_sum(call, PointwiseId::gelu_tanh); }

struct QuickGeluAttributes {
  explicit QuickGeluAttributes(const AttributeReader& reader) : alpha(reader.real("alpha", 1.702)) {}
  double alpha;
};
void quick_gelu(Call& call) {
  call.set(0, apply(call.queue(), "y0 = x0 / (1 + exp(-w0 * x0));", {call.input(0)},
                    {call.attributes<QuickGeluAttributes>().alpha}));
}

void bias_add(Call& call) {
  call.set(0, apply(call.queue(), "y0 = x0 + x1 + x2;", {call.input(0), call.input(1), call.input(2)}));
}

// The first half of x + bias times Gelu of the second.
void bias_split_gelu(Call& call) {
  Queue& queue = call.queue();
  const Tensor sum = apply(queue, "y0 = x0 + x1;", {call.input(0), call.input(1)});
  const int last = sum.shape().size() - 1;
  if (last < 0 || sum.shape()[last] % 2) call.fail("expected rows of even length, got " + sum.shape().text());
  const std::int64_t half = sum.shape()[last] / 2;
  const std::string code = "T g = 0; " + assign_row(PointwiseId::gelu, "g", {"x1"}) + " y0 = x0 * g;";
  call.set(0, apply(queue, code, {narrow(sum, last, 0, half), narrow(sum, last, half, half)}));
}

}  // namespace

void contrib(Registry& registry) {
  const std::string window = "auto_pad=NOTSET|VALID|SAME_UPPER|SAME_LOWER dilations group kernel_shape pads strides ";
  registry.add<ProductAttributes>("FusedMatMul", fused_mat_mul, "alpha transA transB transBatchA transBatchB",
                                  contrib_domain);
  registry.add<ProductAttributes>("TransposeMatMul", fused_mat_mul, "alpha transA transB", contrib_domain);
  registry.add<FusedConvAttributes>("FusedConv", fused_conv,
                                    (window + "activation_params " + activation_words()).c_str(), contrib_domain);
  registry.add<FusedGemmAttributes>(
      "FusedGemm", fused_gemm,
      ("alpha beta transA transB activation_alpha activation_beta activation_gamma " + activation_words()).c_str(),
      contrib_domain);
  registry.add<NhwcConvAttributes>("NhwcConv", nhwc_conv, window.c_str(), contrib_domain);
  registry.add("Gelu", gelu, "", contrib_domain);
  registry.add("BiasGelu", gelu, "", contrib_domain);
  registry.add("FastGelu", fast_gelu, "", contrib_domain);
  registry.add<QuickGeluAttributes>("QuickGelu", quick_gelu, "alpha", contrib_domain);
  registry.add("BiasAdd", bias_add, "", contrib_domain);
  registry.add("BiasSplitGelu", bias_split_gelu, "", contrib_domain);
}

}  // namespace dlprim::operators
