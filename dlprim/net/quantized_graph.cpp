// SPDX-License-Identifier: MIT
// Products of numbers that graphs hold as bytes: DequantizeLinear, Conv and QuantizeLinear as one operator, and the
// like.
#include <dlprim/primitives/bytes.hpp>
#include <dlprim/primitives/quantized_conv.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

#include "array.hpp"
#include "contrib.hpp"
#include "operator.hpp"
#include "optimize.hpp"
#include "quantized_graph.hpp"

namespace dlprim {

namespace {

bool is(const Node& node, const char* type) { return node.domain.empty() && node.type == type; }

bool of_quantization(const Node& node, const char* type) {
  return (node.domain.empty() || node.domain == contrib_domain) && node.type == type && node.inputs.size() >= 2 &&
         node.outputs.size() == 1 && !node.attributes.contains("block_size");
}

// One scale and zero point, and what is of them.
struct Scaled {
  int value;
  double scale, zero;
  DataType type;
  bool like(const Scaled& other) const { return scale == other.scale && zero == other.zero && type == other.type; }
};

// Constant weights as bytes, with a scale each channel or for all.
struct Weights {
  int value;
  const Tensor* bytes;
  std::vector<double> scales;
  double scale_of(std::int64_t channel) const { return scales[scales.size() == 1 ? 0 : std::size_t(channel)]; }
};

class QuantizedGraph {
 public:
  QuantizedGraph(Network& network, Queue& queue)
      : network_(network), nodes_(network.graph.nodes), queue_(queue), device_(queue.device()) {
    for (std::size_t i = 0; i < nodes_.size(); i++) {
      for (int id : nodes_[i].inputs) uses_[id]++;
      for (int id : nodes_[i].captured) uses_[id]++;
      for (int id : nodes_[i].outputs) producer_[id] = i;
    }
    for (int id : network_.graph.outputs) uses_[id]++;
  }

  void fuse() {
    for (Node& node : nodes_)
      if (of_quantization(node, "QuantizeLinear")) fuse_into(node);
    for (Node& node : nodes_) {
      if (node.outputs.empty() || uses_[node.outputs[0]] == 0) continue;
      if (is(node, "Gemm") || is(node, "MatMul")) fuse_product(node, node, {});
      else if (is(node, "Mul")) fuse_scales(node);
      else if (is(node, "Add")) fuse_bias(node);
      else if (is(node, "QLinearConv")) take_conv(node);
      else if (is(node, "QLinearMatMul")) take_product(node, 6, 7, -1);
      else if (node.domain == contrib_domain && node.type == "QGemm") take_product(node, 7, 8, 6);
      else if (node.domain == contrib_domain && node.type == "QLinearAdd") take_add(node);
    }
  }

 private:
  const Tensor* constant(int id) const {
    const auto it = network_.constants.find(id);
    return it == network_.constants.end() ? nullptr : &it->second;
  }

  Node* producer(int id) {
    const auto it = id < 0 ? producer_.end() : producer_.find(id);
    return it == producer_.end() ? nullptr : &nodes_[it->second];
  }
  // The node that makes a value for one reader alone.
  Node* sole_producer(int id) { return uses_[id] == 1 ? producer(id) : nullptr; }

  static bool all_zero(const Tensor& t) {
    return std::ranges::all_of(host_numbers(t), [](double value) { return value == 0; });
  }

  static int input(const Node& node, std::size_t i) { return i < node.inputs.size() ? node.inputs[i] : -1; }

  // A value of one constant scale and zero point; without the latter its type is not known.
  std::optional<Scaled> scaled(int value, int scale_id, int zero_id) const {
    const Tensor *scale = constant(scale_id), *zero = constant(zero_id);
    if (!scale || scale->numel() != 1 || scale->dtype() != DataType::float32) return {};
    if (!zero || zero->numel() != 1 || !is_byte(zero->dtype())) return {};
    const Scaled result{value, host_numbers(*scale)[0], host_numbers(*zero)[0], zero->dtype()};
    return result.scale > 0 && std::isfinite(result.scale) ? std::optional(result) : std::nullopt;
  }

  std::optional<Scaled> dequantized(int id) {
    const Node* node = producer(id);
    if (!node || !of_quantization(*node, "DequantizeLinear") || node->attributes.contains("output_dtype")) return {};
    return scaled(node->inputs[0], node->inputs[1], input(*node, 2));
  }

  // Constant weights with a scale for all, or for each slice of a dimension, and zero points of 0.
  std::optional<Weights> weights(int value, int scale_id, int zero_id, int slices) const {
    const Tensor *bytes = constant(value), *scale = constant(scale_id), *zero = constant(zero_id);
    if (!bytes || !scale || bytes->dtype() != DataType::int8 || scale->dtype() != DataType::float32) return {};
    if (slices >= bytes->shape().size()) return {};
    if (scale->numel() != 1 && (scale->shape().size() != 1 || scale->numel() != bytes->shape()[slices])) return {};
    if (zero_id >= 0 && (!zero || !is_byte(zero->dtype()))) return {};
    if (zero && ((zero->numel() != 1 && zero->numel() != scale->numel()) || !all_zero(*zero))) return {};
    return Weights{value, bytes, host_numbers(*scale)};
  }

  // Such weights from a DequantizeLinear.
  std::optional<Weights> weights(int id, int slices) {
    const Node* node = producer(id);
    if (!node || !of_quantization(*node, "DequantizeLinear") || node->attributes.contains("output_dtype")) return {};
    const auto result = weights(node->inputs[0], node->inputs[1], input(*node, 2), slices);
    if (!result || result->scales.size() == 1) return result;
    const auto given = node->attributes.find("axis");
    const auto* axis = given == node->attributes.end() ? nullptr : std::get_if<std::int64_t>(&given->second);
    const std::int64_t rank = result->bytes->shape().size();
    if (axis && (*axis < -rank || *axis >= rank)) return {};
    return (axis ? (*axis + rank) % rank : 1) == slices ? result : std::nullopt;
  }

  // The elements of a constant of one dimension, which may be dequantized.
  std::optional<std::vector<double>> vector(int id, std::int64_t size) {
    const Tensor *values = constant(id), *scale = nullptr;
    if (const Node* node = values ? nullptr : producer(id); node && of_quantization(*node, "DequantizeLinear")) {
      values = constant(node->inputs[0]), scale = constant(node->inputs[1]);
      const Tensor* zero = constant(input(*node, 2));
      if (node->attributes.contains("output_dtype") || (input(*node, 2) >= 0 && !zero)) return {};
      if (zero && (zero->dtype() != DataType::int32 || !all_zero(*zero))) return {};
      if (!scale || scale->dtype() != DataType::float32 || (scale->numel() != 1 && scale->numel() != size)) return {};
    }
    const DataType type = scale ? DataType::int32 : DataType::float32;
    if (!values || values->dtype() != type || values->shape() != Shape{size}) return {};
    std::vector<double> result = host_numbers(*values);
    const std::vector<double> steps = scale ? host_numbers(*scale) : std::vector<double>{1};
    for (std::size_t i = 0; i < result.size(); i++) result[i] *= steps[steps.size() == 1 ? 0 : i];
    return result;
  }

  int add_constant(DataType type, std::int64_t count, const void* values) {
    const int id = int(network_.values.size());
    network_.values.push_back("quantized");
    network_.constants[id] = Tensor::from_host(type, {count}, values);
    return id;
  }

  // An activation changes nothing where the numbers of a result end at its bounds.
  bool is_idle(const Node& node, const Scaled& y) const {
    const double low = (lowest_byte(y.type) - y.zero) * y.scale, high = low + 255 * y.scale;
    if (is(node, "Relu")) return low >= 0;
    if (!is(node, "Clip")) return false;
    const auto bound = [&](std::size_t input, const char* name, double otherwise) -> std::optional<double> {
      if (const auto it = node.attributes.find(name); it != node.attributes.end()) {
        const double* value = std::get_if<double>(&it->second);
        return value ? std::optional(*value) : std::nullopt;
      }
      if (input >= node.inputs.size() || node.inputs[input] < 0) return otherwise;
      const Tensor* t = constant(node.inputs[input]);
      return t && t->dtype() == DataType::float32 && t->numel() == 1 ? std::optional(host_numbers(*t)[0])
                                                                     : std::nullopt;
    };
    const auto from = bound(1, "min", -INFINITY), to = bound(2, "max", INFINITY);
    const double rounding = y.scale / 1000;
    return from && to && *from <= low + rounding && *to >= high - rounding;
  }

  // What gives the numbers that `quantize` makes bytes of, and writes these itself where it can.
  void fuse_into(Node& quantize) {
    if (quantize.attributes.contains("output_dtype") || quantize.attributes.contains("precision")) return;
    const std::optional<Scaled> y = scaled(-1, quantize.inputs[1], input(quantize, 2));
    Node* node = y ? sole_producer(quantize.inputs[0]) : nullptr;
    while (node && is_idle(*node, *y)) node = sole_producer(input(*node, 0));
    if (!node || node->outputs.size() != 1 || node->inputs.empty()) return;
    if (is(*node, "Conv")) return fuse_conv(*node, quantize, *y);
    if (is(*node, "Gemm") || is(*node, "MatMul")) return void(fuse_product(*node, quantize, y));
    if (is(*node, "Add")) return fuse_add(*node, quantize, *y);
    static const std::set<std::string> moving{"MaxPool",   "Reshape", "Flatten", "Transpose", "Squeeze",
                                              "Unsqueeze", "Slice",   "Gather",  "Identity"};
    if (node->domain.empty() && moving.contains(node->type)) {
      const auto x = dequantized(node->inputs[0]);
      if (!x || !x->like(*y)) return;
      Node moved = *node;
      moved.inputs[0] = x->value, moved.outputs = quantize.outputs;
      return replace(quantize, std::move(moved));
    }
    if (is(*node, "Concat")) return fuse_concat(*node, quantize, *y);
    if (tabulate(quantize)) return;
    const auto a = dequantized(node->inputs[0]), b = is(*node, "Mul") ? dequantized(input(*node, 1)) : a;
    if (!a || !b) return;
    if (is(*node, "Mul")) make_sum(quantize, "Mul", *a, *b, *y, a->scale, b->scale / y->scale);
    if (is(*node, "GlobalAveragePool")) make_sum(quantize, "GlobalAveragePool", *a, *a, *y, a->scale / y->scale, 1);
  }

  // Bytes that are joined as they are, or as those of the result's scale that stand for the nearest numbers.
  void fuse_concat(const Node& concat, Node& quantize, const Scaled& y) {
    Node node = in_place_of(quantize, quantized_domain, "Concat");
    node.attributes["axis"] = number_of(concat, "axis", std::int64_t(0));
    for (int id : concat.inputs) {
      const auto x = dequantized(id);
      if (!x || x->type != y.type) return;
      node.inputs.push_back(x->value), node.inputs.push_back(x->like(y) ? -1 : rescaled(*x, y));
    }
    replace(quantize, std::move(node));
  }

  // A table of what QuantizeLinear makes of DequantizeLinear's numbers.
  int rescaled(const Scaled& x, const Scaled& y) {
    std::vector<std::uint8_t> entries(256);
    for (int i = 0; i < 256; i++) {
      const int byte = x.type == DataType::int8 ? std::int8_t(i) : i;
      const float real = float(byte - x.zero) * float(x.scale), steps = std::nearbyint(real / float(y.scale));
      const double low = lowest_byte(y.type), value = std::clamp(double(steps) + y.zero, low, low + 255);
      entries[std::size_t(i)] = std::uint8_t(int(value));
    }
    return add_constant(y.type, 256, entries.data());
  }

  static constexpr int most_nodes = 32, most_tables = 1024;  // of a function that becomes a table; of a network

  // Nodes that make a value of one number each of another value's, of bytes: in the order they run.
  struct Function {
    int root = -1;
    DataType type{};
    std::vector<const Node*> nodes;
    std::set<int> made;
    int visited = 0;
  };

  static bool is_elementwise(const Node& node) {
    static const std::set<std::string> types{
        "Sigmoid", "Tanh",  "HardSigmoid", "HardSwish", "Relu", "Clip", "LeakyRelu", "Elu",       "Selu",
        "Celu",    "Gelu",  "Erf",         "Sqrt",      "Exp",  "Log",  "Neg",       "Abs",       "Softplus",
        "Mish",    "Round", "Floor",       "Ceil",      "Sign", "Mul",  "Add",       "Sub",       "Div",
        "Pow",     "Min",   "Max",         "Softsign",  "Sin",  "Cos",  "Identity",  "Reciprocal"};
    return node.domain.empty() && types.contains(node.type) && node.outputs.size() == 1;
  }

  // Whether the value is such a function; numbers that take part have no dimensions, so that shapes stay.
  bool collect(int id, Function& f) {
    if (id < 0 || f.made.contains(id)) return true;
    if (const Tensor* t = constant(id)) return t->shape().size() == 0;
    const Node* node = producer(id);
    if (!node || ++f.visited > most_nodes) return false;
    const Tensor* number = of_quantization(*node, "DequantizeLinear") ? constant(node->inputs[0]) : nullptr;
    if (number)
      for (int in : node->inputs)
        if (in >= 0 && (!constant(in) || constant(in)->shape().size() != 0)) return false;
    if (!number && of_quantization(*node, "DequantizeLinear")) {
      const auto x = dequantized(id);
      if (!x) return false;
      int value = x->value;
      DataType type = x->type;
      std::vector<const Node*> tables;
      for (const Node* table; (table = producer(value)) && is_table(*table); value = table->inputs[0]) {
        tables.push_back(table);
        type = DataType(std::get<std::int64_t>(table->attributes.at("type")));
      }
      if (f.root >= 0 && f.root != value) return false;
      f.root = value, f.type = type;
      for (auto table = tables.rbegin(); table != tables.rend(); ++table)
        if (f.made.insert((*table)->outputs[0]).second) f.nodes.push_back(*table);
    } else if (!number) {
      if (!is_elementwise(*node)) return false;
      for (int in : node->inputs)
        if (!collect(in, f)) return false;
    }
    f.made.insert(id), f.nodes.push_back(node);
    return true;
  }

  static bool is_table(const Node& node) { return node.domain == quantized_domain && node.type == "Table"; }

  // Bytes that are functions of other bytes alone become the entries of a table.
  bool tabulate(Node& quantize) {
    Function f;
    if (tables_ == most_tables || !collect(quantize.inputs[0], f) || f.root < 0 || constant(f.root)) return false;
    tables_++;
    std::vector<std::uint8_t> bytes(256);
    for (std::size_t i = 0; i < bytes.size(); i++) bytes[i] = std::uint8_t(i);
    Executor executor(queue_);
    executor.slot(f.root) = Value{Tensor::from_host(f.type, {256}, bytes.data()), nullptr, Known::never, Known::always};
    f.nodes.push_back(&quantize);
    for (const Node* node : f.nodes) {
      for (int id : node->inputs)
        if (id >= 0 && !executor.value(id).present() && constant(id))
          executor.slot(id) = Value{constant(id)->clone(queue_), nullptr, Known::always, Known::always};
      executor.run(*node);
    }
    const Tensor& entries = executor.value(quantize.outputs[0]).tensor;
    if (entries.shape() != Shape{256}) return false;
    Node node = in_place_of(quantize, quantized_domain, "Table");
    node.attributes["type"] = std::int64_t(f.type);
    node.inputs = {f.root, add_constant(entries.dtype(), 256, entries.read(queue_).data())};
    replace(quantize, std::move(node));
    return true;
  }

  // Another operator that gives the same outputs.
  static Node in_place_of(const Node& node, const char* domain, const char* type) {
    Node other;
    other.type = type, other.domain = domain, other.version = 1, other.name = node.name, other.outputs = node.outputs;
    other.implementation = Registry::get().find(other.domain, other.type);
    return other;
  }

  void replace(Node& node, Node by) {
    for (int id : by.inputs) uses_[id]++;
    for (int id : node.inputs) uses_[id]--;
    node = std::move(by);
  }

  // A product in the place of `result`: of weights whose slices of channels belong to scales, and what is added.
  bool make(Node& result, const char* type, const Scaled& x, const Weights& w, std::int64_t channels,
            const std::vector<double>& bias, const std::optional<Scaled>& y, std::map<std::string, Attribute> more) {
    const double largest = 255 * 128 * (double(w.bytes->numel()) / double(channels));
    std::vector<float> scale;
    std::vector<std::int32_t> sums;
    for (std::int64_t i = 0; i < channels; i++) {
      const double unit = x.scale * w.scale_of(i);
      scale.push_back(float(unit / (y ? y->scale : 1)));
      const double sum = bias.empty() ? 0 : std::nearbyint(bias[std::size_t(i)] / unit);
      if (!(std::abs(sum) + largest < 2147483647.0) || !std::isfinite(scale.back())) return false;  // of 32 bits
      sums.push_back(std::int32_t(sum));
    }
    Node node = in_place_of(result, quantized_domain, type);
    node.attributes = std::move(more);
    node.attributes["x_zero"] = std::int64_t(x.zero), node.attributes["x_type"] = name(x.type);
    if (y) node.attributes["y_zero"] = std::int64_t(y->zero), node.attributes["result"] = name(y->type);
    node.inputs = {x.value, w.value, add_constant(DataType::float32, channels, scale.data())};
    if (!bias.empty()) node.inputs.push_back(add_constant(DataType::int32, channels, sums.data()));
    replace(result, std::move(node));
    return true;
  }

  // A sum of integers that becomes a real number: as one product with its factors, which are one or two tensors.
  void fuse_scales(Node& mul) {
    for (std::size_t i = 0; i < 2 && mul.inputs.size() == 2; i++) {
      const Node* cast = sole_producer(mul.inputs[i]);
      if (!cast || !is(*cast, "Cast") || number_of(*cast, "to", std::int64_t(0)) != 1) continue;
      const Node* product = sole_producer(input(*cast, 0));
      if (!product || !is(*product, "MatMulInteger") || product->inputs.size() < 2) continue;
      const Node* scales = producer(mul.inputs[1 - i]);
      const bool pair = scales && is(*scales, "Mul") && scales->inputs.size() == 2;
      const float unit = 1;
      const int one = pair ? -1 : add_constant(DataType::float32, 1, &unit);
      Node node = in_place_of(mul, contrib_domain, "MatMulIntegerToFloat");
      node.inputs = {product->inputs[0],
                     product->inputs[1],
                     pair ? scales->inputs[0] : mul.inputs[1 - i],
                     pair ? scales->inputs[1] : one,
                     input(*product, 2),
                     input(*product, 3)};
      return replace(mul, std::move(node));
    }
  }

  // A vector that is added to such a product.
  void fuse_bias(Node& add) {
    for (std::size_t i = 0; i < 2 && add.inputs.size() == 2; i++) {
      const Node* product = sole_producer(add.inputs[i]);
      const Tensor* bias = constant(add.inputs[1 - i]);
      if (!product || product->domain != contrib_domain || product->type != "MatMulIntegerToFloat") continue;
      if (product->inputs.size() != 6 || !bias || bias->dtype() != DataType::float32 || bias->shape().size() > 1)
        continue;
      Node node = *product;
      node.inputs.push_back(add.inputs[1 - i]);
      node.outputs = add.outputs;
      return replace(add, std::move(node));
    }
  }

  bool serves(const Node& conv, const Weights& w) const {
    const Shape& shape = w.bytes->shape();
    const auto given = conv.attributes.find("group");
    const auto* groups = given == conv.attributes.end() ? nullptr : std::get_if<std::int64_t>(&given->second);
    return has_quantized_conv(device_, std::vector(shape.begin(), shape.end()), groups ? *groups : 1);
  }

  void fuse_conv(const Node& conv, Node& quantize, const Scaled& y) {
    const auto x = dequantized(conv.inputs[0]);
    const auto w = x ? weights(input(conv, 1), 0) : std::nullopt;
    if (!w || !serves(conv, *w)) return;
    std::vector<double> bias;
    if (input(conv, 2) >= 0) {
      const auto values = vector(conv.inputs[2], w->bytes->shape()[0]);
      if (!values) return;
      bias = *values;
    }
    make(quantize, "Conv", *x, *w, w->bytes->shape()[0], bias, y, conv.attributes);
  }

  // A bias in the units of the sums, as operators of integers have it; nothing where it is something else.
  std::optional<std::vector<double>> bias_of(int id, const Scaled& x, const Weights& w, std::int64_t channels) const {
    std::vector<double> result;
    if (id < 0) return result;
    const Tensor* bias = constant(id);
    if (!bias || bias->dtype() != DataType::int32 || bias->numel() != channels) return {};
    result = host_numbers(*bias);
    for (std::size_t i = 0; i < result.size(); i++) result[i] *= x.scale * w.scale_of(std::int64_t(i));
    return result;
  }

  // Inputs: x, its scale and zero point, weights, theirs, the result's, bias.
  void take_conv(Node& node) {
    const auto x = scaled(input(node, 0), input(node, 1), input(node, 2)),
               y = scaled(-1, input(node, 6), input(node, 7));
    const auto w = x && y ? weights(input(node, 3), input(node, 4), input(node, 5), 0) : std::nullopt;
    if (!w || !serves(node, *w)) return;
    const auto bias = bias_of(input(node, 8), *x, *w, w->bytes->shape()[0]);
    if (bias) make(node, "Conv", *x, *w, w->bytes->shape()[0], *bias, y, node.attributes);
  }

  // The same of matrices, with the numbers of the inputs that are the result's scale and zero point, and the bias.
  void take_product(Node& node, std::size_t scale, std::size_t zero, std::size_t bias_input) {
    const auto x = scaled(input(node, 0), input(node, 1), input(node, 2));
    const bool real = input(node, scale) < 0;  // the result stays a real number
    const auto y = real ? std::nullopt : scaled(-1, input(node, scale), input(node, zero));
    if (!x || (!real && !y) || number_of(node, "transA", std::int64_t(0)) || number_of(node, "alpha", 1.0) != 1) return;
    const bool transposed = number_of(node, "transB", std::int64_t(0)) != 0;
    const auto w = weights(input(node, 3), input(node, 4), input(node, 5), transposed ? 0 : 1);
    if (!w || w->bytes->shape().size() != 2 || w->bytes->numel() == 0) return;
    const std::int64_t columns = w->bytes->shape()[transposed ? 0 : 1];
    const auto bias = bias_of(input(node, bias_input), *x, *w, columns);
    if (bias) make(node, "MatMul", *x, *w, columns, *bias, y, {{"transB", std::int64_t(transposed)}});
  }

  void take_add(Node& node) {
    const auto a = scaled(input(node, 0), input(node, 1), input(node, 2)),
               b = scaled(input(node, 3), input(node, 4), input(node, 5));
    const auto y = scaled(-1, input(node, 6), input(node, 7));
    if (a && b && y) make_sum(node, "Add", *a, *b, *y, a->scale / y->scale, b->scale / y->scale);
  }

  template <class T>
  static T number_of(const Node& node, const char* name, T otherwise) {
    const auto it = node.attributes.find(name);
    const T* value = it == node.attributes.end() ? nullptr : std::get_if<T>(&it->second);
    return value ? *value : otherwise;
  }

  // A product of constant weights, with a vector that is added to its rows.
  bool fuse_product(const Node& product, Node& result, const std::optional<Scaled>& y) {
    const auto x = dequantized(input(product, 0));
    const bool transposed = number_of(product, "transB", std::int64_t(0)) != 0;
    if (!x || number_of(product, "transA", std::int64_t(0)) != 0) return false;
    if (number_of(product, "alpha", 1.0) != 1 || number_of(product, "beta", 1.0) != 1) return false;
    const auto w = weights(input(product, 1), transposed ? 0 : 1);
    if (!w || w->bytes->shape().size() != 2 || w->bytes->numel() == 0) return false;
    const std::int64_t columns = w->bytes->shape()[transposed ? 0 : 1];
    std::vector<double> bias;
    if (input(product, 2) >= 0) {
      const auto values = vector(product.inputs[2], columns);
      if (!values) return false;
      bias = *values;
    }
    return make(result, "MatMul", *x, *w, columns, bias, y, {{"transB", std::int64_t(transposed)}});
  }

  void fuse_add(const Node& add, Node& quantize, const Scaled& y) {
    // A vector that is added to a product belongs to it.
    if (add.inputs.size() != 2) return;
    for (std::size_t i = 0; i < 2; i++) {
      const Node* product = sole_producer(add.inputs[i]);
      if (!product || !is(*product, "MatMul") || product->inputs.size() != 2) continue;
      Node sum = *product;
      sum.inputs.push_back(add.inputs[1 - i]);
      if (fuse_product(sum, quantize, y)) return;
    }
    const auto a = dequantized(add.inputs[0]), b = dequantized(add.inputs[1]);
    if (a && b) make_sum(quantize, "Add", *a, *b, y, a->scale / y.scale, b->scale / y.scale);
  }

  void make_sum(Node& result, const char* type, const Scaled& a, const Scaled& b, const Scaled& y, double a_factor,
                double b_factor) {
    Node node = in_place_of(result, quantized_domain, type);
    node.attributes["factors"] = std::vector<double>{a_factor, b_factor};
    node.attributes["zeros"] = std::vector<std::int64_t>{std::int64_t(a.zero), std::int64_t(b.zero)};
    node.attributes["y_zero"] = std::int64_t(y.zero), node.attributes["result"] = name(y.type);
    node.inputs = {a.value, b.value};
    replace(result, std::move(node));
  }

  Network& network_;
  std::vector<Node>& nodes_;
  Queue& queue_;
  const Device& device_;
  std::map<int, int> uses_;
  std::map<int, std::size_t> producer_;
  int tables_ = 0;
};

}  // namespace

void fuse_quantized(Network& network, Queue& queue) {
  if (has_quantized_conv(queue.device())) QuantizedGraph(network, queue).fuse();
}

}  // namespace dlprim
