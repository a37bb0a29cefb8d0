// SPDX-License-Identifier: MIT
// Mixtures of experts of ONNX Runtime's domain: for each token the products of a few of many weights.
#include <dlprim/primitives/pointwise_code.hpp>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <span>

#include "../checked.hpp"
#include "../contrib.hpp"

namespace dlprim::operators {

namespace {

enum Layer { first, second, third };  // fc1, fc2 and fc3

struct MixtureAttributes {
  explicit MixtureAttributes(const AttributeReader& reader)
      : quantized(reader.node().type == "QMoE"),
        chosen(checked_range(reader.integer("k", 1), 1, std::int64_t(1) << 20, "k")),
        fusion(checked_range(reader.integer("swiglu_fusion", 0), 0, 2, "swiglu_fusion")),
        block(checked_range(reader.integer("block_size", 0), 0, std::int64_t(1) << 20, "block_size")),
        normalized(reader.integer("normalize_routing_weights", 0)), activation(reader.text("activation_type", "relu")),
        alpha(reader.real("activation_alpha", 1)), beta(reader.real("activation_beta", 0)),
        limit(reader.real("swiglu_limit", std::numeric_limits<float>::max())) {
    for (const char* name : {"use_sparse_mixer", "swiglu_limit_after_activation"}) expect_attribute(reader, name, 0);
    if (reader.integer("weights_prepacked", -1) == 1) throw ValidationError("prepacked weights are not supported");
    const std::int64_t usual = reader.integer("expert_weight_bits", 4);
    bits[first] = reader.integer("fc1_expert_weight_bits", usual);
    bits[second] = reader.integer("fc2_expert_weight_bits", usual);
    bits[third] = reader.integer("fc3_expert_weight_bits", usual);
    for (std::int64_t n : bits)
      if (n != 4 && n != 8) throw ValidationError("weights of 4 and 8 bits are supported, got " + std::to_string(n));
    if (activation == "geglu" && !fusion) throw ValidationError("geglu needs its products fused");
    if (reader.given("constant_weights")) kept = std::make_shared<std::map<std::int64_t, FewBits>>();
  }
  /// Whether each pair of columns of the first product makes one.
  bool paired() const { return activation == "geglu" || (activation == "swiglu" && fusion); }

  bool quantized;
  std::int64_t chosen, fusion, block;
  bool normalized;
  std::string activation;
  double alpha, beta, limit;
  std::int64_t bits[3];
  std::shared_ptr<std::map<std::int64_t, FewBits>> kept;  // of constant weights, by expert and layer
};

Tensor of_expert(Call& call, int i, std::int64_t expert) {
  return call.has(i) ? select(call.input(i), 0, expert) : Tensor();
}

int weights_input(const MixtureAttributes& a, Layer layer) { return a.quantized ? 2 + 3 * layer : 2 + 2 * layer; }

// The weights [n, k] of one expert. Without blocks a row has one scale, and zero points of 4 bits are packed over rows.
FewBits quantized_weights(Call& call, Layer layer, std::int64_t expert, std::int64_t k) {
  Queue& queue = call.queue();
  const auto& a = call.attributes<MixtureAttributes>();
  const int input = weights_input(a, layer);
  const Tensor weights = of_expert(call, input, expert), scales = of_expert(call, input + 1, expert);
  if (!scales.defined()) call.fail("scales are missing");
  const std::int64_t n = weights.shape()[0], block = a.block ? a.block : k, blocks = k / block;
  if (k % block || k % 2) call.fail("rows of " + std::to_string(k) + " are no whole blocks");
  Tensor zeros = of_expert(call, 11 + layer, expert);
  if (zeros.defined()) {
    if (a.bits[layer] == 4) zeros = unpacked(call, contiguous(queue, zeros), a.block ? blocks : n);
    zeros = reshape(queue, zeros, {n, blocks});
  }
  return few_bits(call, {n, k, block, a.bits[layer], {}, {}, {}}, weights, scales, zeros);
}

Tensor product(Call& call, Layer layer, std::int64_t expert, const Tensor& x) {
  const auto& a = call.attributes<MixtureAttributes>();
  const int input = weights_input(a, layer);
  if (!call.has(input) || call.input(input).shape().size() != 3) call.fail("expected weights of experts");
  const Tensor bias = of_expert(call, input + (a.quantized ? 2 : 1), expert);
  const std::int64_t k = x.shape()[1];
  if (!a.quantized) return matmul(call.queue(), x, transpose(of_expert(call, input, expert)), bias);
  if (!a.kept) return few_bits_product(call, x, quantized_weights(call, layer, expert, k), bias);
  const std::int64_t key = 3 * expert + layer;
  auto found = a.kept->find(key);
  if (found == a.kept->end()) found = a.kept->emplace(key, quantized_weights(call, layer, expert, k)).first;
  return few_bits_product(call, x, found->second, bias);
}

// What stands between the products, of one or two values.
std::string code_of(const MixtureAttributes& a) {
  const std::string& name = a.activation;
  if (name == "swiglu")
    return "T g = nan_min(x0, w2), l = nan_max(nan_min(x1, w2), -w2); y0 = g / (1 + exp(-w0 * g)) * (l + w1);";
  const PointwiseId gelu = PointwiseId::gelu_tanh;
  const std::string one = name == "relu"       ? "g = x0 > 0 ? x0 : 0;"
                          : name == "relu2"    ? "g = x0 > 0 ? x0 * x0 : 0;"
                          : name == "silu"     ? "g = x0 / (1 + exp(-x0));"
                          : name == "identity" ? "g = x0;"
                                               : assign_row(gelu, "g", {"x0"});
  return "T g = 0; " + one + (name == "geglu" ? " y0 = g * x1;" : " y0 = g;");
}

Tensor activated(Call& call, std::int64_t expert, const Tensor& x) {
  const auto& a = call.attributes<MixtureAttributes>();
  Queue& queue = call.queue();
  std::vector<Tensor> inputs{product(call, first, expert, x)};
  const DataType type = x.dtype(), compute = compute_type(type);
  const bool third_product = call.has(weights_input(a, third));
  if (a.paired()) {
    if (third_product) call.fail("fused products have no third weights");
    const Tensor both = inputs[0];
    const std::int64_t half = both.shape()[1] / 2, step = a.fusion == 1 ? 2 : 1;
    if (both.shape()[1] % 2) call.fail("fused products have an odd width");
    inputs = {narrow(both, 1, 0, half, step), narrow(both, 1, step == 2 ? 1 : half, half, step)};
  } else if (third_product) {
    inputs.push_back(product(call, third, expert, x));
  } else if (a.activation == "swiglu") {
    call.fail("the third weights are missing");
  }
  const Scalar numbers[] = {a.alpha, a.beta, a.limit};
  const bool gated = inputs.size() == 2 && !a.paired() && a.activation != "swiglu";
  const std::span of_code(inputs.data(), gated ? 1 : inputs.size());
  const Tensor y = apply(queue, code_of(a), of_code, numbers, type, compute);
  return gated ? apply(queue, "y0 = x0 * x1;", {y, inputs[1]}) : y;
}

// Which experts serve which tokens.
struct Routes {
  std::vector<std::vector<std::int64_t>> tokens;  // of each expert
  std::vector<std::int64_t> places;  // of each token's results among those of all experts, one behind the other
  std::vector<float> shares;  // of these results
};

// Experts by their scores [tokens, experts], which count as softmax says: of all scores, or of the chosen ones where
// weights are quantized; or as `weights` of the same sizes say.
Routes routes(Call& call, std::int64_t tokens, std::int64_t experts, const std::vector<double>& scores,
              const std::vector<double>& weights) {
  const auto& a = call.attributes<MixtureAttributes>();
  const std::int64_t k = a.chosen;
  Routes result;
  result.tokens.resize(std::size_t(experts));
  std::vector<std::pair<std::int64_t, std::int64_t>> served;  // the expert of each result, and its place there
  for (std::int64_t t = 0; t < tokens; t++) {
    const double* row = scores.data() + t * experts;
    std::vector<std::int64_t> order(std::size_t(experts), 0);
    std::iota(order.begin(), order.end(), std::int64_t(0));
    const auto score = [&](std::int64_t e) { return std::isnan(row[e]) ? -HUGE_VAL : row[e]; };
    std::ranges::stable_sort(order, std::greater(), score);
    std::vector<double> shares;
    double all = 0, chosen = 0;
    for (std::int64_t i = 0; i < experts; i++) all += std::exp(row[i] - row[order[0]]);
    for (std::int64_t i = 0; i < k; i++) {
      const std::int64_t e = order[std::size_t(i)];
      shares.push_back(weights.empty() ? std::exp(row[e] - row[order[0]]) : weights[std::size_t(t * experts + e)]);
      chosen += shares.back();
      auto& own = result.tokens[std::size_t(e)];
      served.emplace_back(e, std::int64_t(own.size()));
      own.push_back(t);
    }
    const bool of_chosen = a.normalized || (a.quantized && weights.empty());
    const double sum = of_chosen ? chosen : weights.empty() ? all : 1;
    for (double share : shares) result.shares.push_back(float(sum != 0 ? share / sum : share));
  }
  std::vector<std::int64_t> begins{0};
  for (const auto& own : result.tokens) begins.push_back(begins.back() + std::int64_t(own.size()));
  for (const auto& [expert, place] : served) result.places.push_back(begins[std::size_t(expert)] + place);
  return result;
}

// Inputs: x, scores of experts for each token, then of each layer weights [experts, n, k], scales (of quantized ones)
// and bias; behind them zero points and shares that the scores do not give.
void mixture(Call& call) {
  Queue& queue = call.queue();
  const auto& a = call.attributes<MixtureAttributes>();
  const Tensor& input = call.input(0);
  const Shape shape = input.shape(), &scores = call.input(1).shape();
  const int last = shape.size() - 1;
  if (last < 1 || scores.size() != 2) call.fail("expected tokens and their scores, got " + shape.text());
  for (int i = 15; i < call.inputs(); i++)
    if (call.has(i)) call.fail("input " + std::to_string(i) + " is not supported");
  const std::int64_t tokens = shape.product(0, last), experts = scores[1], width = shape[last], k = a.chosen;
  if (scores[0] != tokens || k > experts) call.fail("scores " + scores.text() + " do not fit " + shape.text());
  for (const Layer layer : {first, second, third})
    for (int i = weights_input(a, layer); i < weights_input(a, Layer(layer + 1)); i++)
      if (call.has(i) && (call.input(i).shape().size() < 2 || call.input(i).shape()[0] != experts))
        call.fail("expected input " + std::to_string(i) + " of each of " + std::to_string(experts) + " experts");
  if (tokens == 0) return call.set(0, input);
  const bool shared = a.quantized && call.has(14);
  if (shared && call.input(14).shape() != scores) call.fail("shares do not fit the scores");
  const Routes r = routes(call, tokens, experts, to_reals(queue, call.input(1)),
                          shared ? to_reals(queue, call.input(14)) : std::vector<double>());
  const Inner& gather = inner<"Gather", "axis">(0);
  const Tensor x = reshape(queue, input, {tokens, width});
  std::vector<Tensor> results;
  for (std::int64_t e = 0; e < experts; e++) {
    const auto& own = r.tokens[std::size_t(e)];
    if (own.empty()) continue;
    const Tensor rows = tokens == 1 ? x : call.run(gather, {x, Tensor::from_integers(own)})[0];
    results.push_back(product(call, second, e, activated(call, e, rows)));
  }
  const Tensor all = concat(queue, results, 0);
  if (all.shape()[1] != width) call.fail("weights do not fit " + shape.text());
  const Tensor ordered =
      reshape(queue, call.run(gather, {all, Tensor::from_integers(r.places)})[0], {tokens, k, width});
  const Tensor shares = Tensor::from_host(DataType::float32, {tokens, k, 1}, r.shares.data());
  const Tensor y = apply_sum_to(queue, "y0 = x0 * x1;", {ordered, shares}, {}, {tokens, 1, width}, input.dtype());
  call.set(0, reshape(queue, y, shape));
}

}  // namespace

void contrib_moe(Registry& registry) {
  const std::string shared =
      "k activation_type=relu|relu2|gelu|geglu|silu|swiglu|identity activation_alpha activation_beta swiglu_fusion "
      "swiglu_limit swiglu_limit_after_activation normalize_routing_weights use_sparse_mixer";
  registry.add<MixtureAttributes>("MoE", mixture, shared.c_str(), contrib_domain);
  const std::string packed =
      shared + " expert_weight_bits fc1_expert_weight_bits fc2_expert_weight_bits fc3_expert_weight_bits block_size "
               "quant_type=int weights_prepacked accuracy_level";
  registry.add<MixtureAttributes>("QMoE", mixture, packed.c_str(), contrib_domain);
}

}  // namespace dlprim::operators
