// SPDX-License-Identifier: MIT
#include "decoder.hpp"

#include <dlprim/error.hpp>
#include <dlprim/primitives/attention.hpp>
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/norm.hpp>
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/primitives/range.hpp>

#include <cmath>
#include <set>
#include <utility>

#include "../array.hpp"

namespace dlprim {

Joined::Joined(Queue& queue, const WeightFile& file, const std::vector<const WeightTensor*>& tensors, DataType dtype) {
  for (std::size_t first = 0; first < tensors.size();) {
    std::size_t last = first;
    while (last < tensors.size() && tensors[last]->type == tensors[first]->type) last++;
    parts_.emplace_back(queue, file,
                        std::vector(tensors.begin() + std::ptrdiff_t(first), tensors.begin() + std::ptrdiff_t(last)),
                        dtype);
    first = last;
  }
}

std::int64_t Joined::n() const noexcept {
  std::int64_t n = 0;
  for (const Weights& part : parts_) n += part.n();
  return n;
}

std::size_t Joined::bytes() const noexcept {
  std::size_t sum = 0;
  for (const Weights& part : parts_) sum += part.bytes();
  return sum;
}

void Joined::multiply(Queue& queue, const Tensor& x, const Tensor& out, const Tensor& bias) const {
  std::int64_t first = 0;
  for (const Weights& part : parts_) {
    const Tensor place = narrow(out, 1, first, part.n());
    const Tensor addend = bias.defined() ? narrow(bias, 0, first, part.n()) : Tensor();
    if (place.is_contiguous()) {
      part.multiply(queue, x, place, addend);
    } else {
      const Tensor result(queue, out.dtype(), place.shape());
      part.multiply(queue, x, result, addend);
      copy(queue, place.view(queue), result.view(queue));
    }
    first += part.n();
  }
}

// The file's tensors by name, of the sizes that the model needs; remembers which were asked for.
class Decoder::Reader {
 public:
  Reader(Queue& queue, const WeightFile& file, DataType dtype) : queue_(queue), file_(file), dtype_(dtype) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }

  const WeightTensor* tensor(const std::string& name, const std::vector<std::int64_t>& sizes) {
    const WeightTensor* t = file_.find(name);
    if (!t) throw ValidationError("[language] the file has no tensor '" + name + "'");
    if (t->sizes != sizes)
      throw ValidationError(std::string("[language] expected a ") + (sizes.size() == 2 ? "matrix " : "tensor ") +
                            dlprim::Shape(sizes).text() + ", got " + t->text());
    used_.insert(name);
    return t;
  }
  const WeightTensor* matrix(const std::string& name, std::int64_t n, std::int64_t k) { return tensor(name, {n, k}); }
  Experts experts(const Experts::Tensors& tensors, const Experts::Shape& shape) {
    return Experts(queue_, file_, tensors, shape, dtype_);
  }
  Weights weights(const std::string& name, std::int64_t n, std::int64_t k) {
    return Weights(queue_, file_, {matrix(name, n, k)}, dtype_);
  }
  Joined joined(const std::vector<const WeightTensor*>& tensors) { return Joined(queue_, file_, tensors, dtype_); }

  Tensor vector(const std::string& name, std::int64_t size, DataType dtype, double offset = 0) {
    const WeightTensor* t = file_.find(name);
    if (!t) throw ValidationError("[language] the file has no tensor '" + name + "'");
    used_.insert(name);
    return read_vector(queue_, file_, *t, size, dtype, offset);
  }
  Weights row(const std::string& name, std::int64_t size) {
    const WeightTensor* t = file_.find(name);
    return Weights(queue_, file_, {t && t->sizes.size() == 1 ? tensor(name, {size}) : matrix(name, 1, size)}, dtype_);
  }
  // Undefined where the file has none.
  Tensor bias(const std::string& name, std::int64_t size) { return has(name) ? vector(name, size, dtype_) : Tensor(); }

  // Those of matrices whose results lie side by side: of all or of none.
  Tensor biases(const std::vector<std::pair<std::string, std::int64_t>>& parts) {
    std::vector<Tensor> found;
    for (const auto& [name, size] : parts)
      if (has(name)) found.push_back(vector(name, size, dtype_));
    if (found.empty()) return {};
    if (found.size() != parts.size())
      throw NotImplementedError("[language] biases of some of '" + parts[0].first + "' to '" + parts.back().first +
                                "' are not supported");
    return found.size() == 1 ? found[0] : concat(queue_, found, 0);
  }

  // A tensor that nobody asked for may be what makes the model another one. Frequencies are the shape's affair.
  void expect_all_used(const LanguageShape& shape) {
    for (const char* name : {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"})
      used_.insert(name);
    if (shape.tied) used_.insert(std::string(shape.names->output) + ".weight");
    for (const WeightTensor& t : file_.tensors())
      if (!used_.contains(t.name) && !t.name.ends_with(".rotary_emb.inv_freq"))
        throw NotImplementedError("[language] the tensor " + t.text() + " belongs to no model that is supported");
  }

 private:
  Queue& queue_;
  const WeightFile& file_;
  DataType dtype_;
  std::set<std::string> used_;
};

Decoder::Decoder(Queue& queue, const WeightFile& file, const LanguageShape& shape, std::int64_t context, DataType dtype)
    : queue_(queue), shape_(shape), context_(context), dtype_(dtype) {
  Reader reader(queue, file, dtype);
  const TensorNames& names = *shape.names;
  const auto weight = [](const char* name) { return std::string(name) + ".weight"; };
  embeddings_ = reader.weights(weight(names.embeddings), shape.vocabulary, shape.width);
  if (shape.positions) positions_ = reader.weights(weight(names.positions), shape.context, shape.width);
  output_norm_ = read_norm(reader, names.output_norm);
  if (!shape.tied) output_ = reader.weights(weight(names.output), shape.vocabulary, shape.width);
  output_bias_ = reader.bias(std::string(names.output) + ".bias", shape.vocabulary);
  for (std::int64_t i = 0; i < shape.layers; i++) {
    Layer& layer = layers_.emplace_back();
    layer.local = !shape.local.empty() && shape.local[std::size_t(i)];
    layer.rotated = !shape.positions && (shape.unrotated.empty() || !shape.unrotated[std::size_t(i)]);
    read_layer(reader, layer, names.layer + std::to_string(i) + ".");
  }
  reader.expect_all_used(shape);
  for (Layer& layer : layers_) layer.cache = Tensor(queue, dtype, {context, 2 * shape.key_heads, shape.head_width});
  angles_ = angles(shape_.rotation, shape_.rotation.factors);
  if (shape_.local_rotation) local_angles_ = angles(*shape_.local_rotation, shape_.local_rotation->factors);
  if (shape_.rotation.long_factors.empty() || context <= shape_.rotation.trained) return;
  long_angles_ = angles(shape_.rotation, shape_.rotation.long_factors);
  tokens_ = Tensor(queue, DataType::int64, {context});
}

void Decoder::read_layer(Reader& reader, Layer& layer, const std::string& name) {
  const TensorNames& names = *shape_.names;
  const auto norm = [&](const char* own) { return read_norm(reader, name + own); };
  if (shape_.pre_norms) {
    layer.attention_norm = norm(names.attention_norm);
    layer.inner_norm = shape_.parallel && shape_.one_norm ? layer.attention_norm : norm(names.inner_norm);
  }
  if (shape_.post_norms) {
    layer.post_attention_norm = norm(names.post_attention_norm);
    layer.post_inner_norm = norm(names.post_inner_norm);
  }
  read_attention(reader, layer, name);
  const std::size_t i = layers_.size() - 1;
  if (shape_.experts && (shape_.dense.empty() || !shape_.dense[i])) return read_experts(reader, layer, name);
  layer.inner = read_products(reader, name, {names.gate, names.up, names.inner_out, names.gate_up}, shape_.inner);
}

Decoder::Norm Decoder::read_norm(Reader& reader, const std::string& name) {
  const std::string bias = name + ".bias";
  Norm norm;
  norm.weight = reader.vector(name + ".weight", shape_.width, DataType::float32, shape_.norm_offset);
  if (shape_.layer_norms && reader.has(bias)) norm.bias = reader.vector(bias, shape_.width, DataType::float32);
  return norm;
}

Decoder::Products Decoder::read_products(Reader& reader, const std::string& layer, const ProductNames& names,
                                         std::int64_t inner) {
  const auto name = [&](const char* own, const char* last) { return layer + own + last; };
  const auto matrix = [&](const char* own, std::int64_t rows) {
    return reader.matrix(name(own, ".weight"), rows, shape_.width);
  };
  Products products;
  if (!shape_.gated) {
    products.gates = reader.joined({matrix(names.up, inner)});
    products.gates_bias = reader.bias(name(names.up, ".bias"), inner);
  } else if (names.both && !reader.has(name(names.gate, ".weight")) && reader.has(name(names.both, ".weight"))) {
    products.gates = reader.joined({matrix(names.both, 2 * inner)});
  } else {
    products.gates = reader.joined({matrix(names.gate, inner), matrix(names.up, inner)});
    products.gates_bias = reader.biases({{name(names.gate, ".bias"), inner}, {name(names.up, ".bias"), inner}});
  }
  products.out = reader.weights(name(names.out, ".weight"), shape_.width, inner);
  products.out_bias = reader.bias(name(names.out, ".bias"), shape_.width);
  return products;
}

void Decoder::read_attention(Reader& reader, Layer& layer, const std::string& name) {
  const std::int64_t width = shape_.width, d = shape_.head_width, q = shape_.heads * d, k = shape_.key_heads * d;
  const TensorNames& names = *shape_.names;
  const auto matrix = [&](const char* own, std::int64_t rows) {
    return reader.matrix(name + own + ".weight", rows, width);
  };
  const auto norm = [&](const char* own, std::int64_t size) {
    return reader.vector(name + own + ".weight", size, DataType::float32, shape_.norm_offset);
  };
  const auto bias = [&](const char* own, std::int64_t size) { return reader.bias(name + own + ".bias", size); };
  if (reader.has(name + names.qkv + ".weight")) {
    layer.qkv = reader.joined({matrix(names.qkv, q + 2 * k)});
    layer.qkv_bias = bias(names.qkv, q + 2 * k);
  } else {
    layer.qkv = reader.joined({matrix(names.queries, q), matrix(names.keys, k), matrix(names.values, k)});
    const auto own = [&](const char* part) { return name + part + ".bias"; };
    layer.qkv_bias = reader.biases({{own(names.queries), q}, {own(names.keys), k}, {own(names.values), k}});
  }
  if (shape_.head_norms == HeadNorms::each) {  // a row for each head of queries and keys
    const Tensor of_q = norm(names.query_norm, d), of_k = norm(names.key_norm, d);
    layer.head_norms = Tensor(queue_, DataType::float32, {shape_.heads + shape_.key_heads, d});
    copy(queue_, narrow(layer.head_norms, 0, 0, shape_.heads).view(queue_), of_q.view(queue_));
    copy(queue_, narrow(layer.head_norms, 0, shape_.heads, shape_.key_heads).view(queue_), of_k.view(queue_));
  } else if (shape_.head_norms == HeadNorms::together) {
    layer.head_norms = norm(names.query_norm, q), layer.key_norm = norm(names.key_norm, k);
  }
  layer.attention_out = reader.weights(name + names.attention_out + ".weight", width, q);
  layer.attention_bias = bias(names.attention_out, width);
  if (shape_.sinks) layer.sinks = reader.vector(name + names.sinks + ".weight", shape_.heads, DataType::float32);
}

void Decoder::read_experts(Reader& reader, Layer& layer, const std::string& name) {
  const std::int64_t count = shape_.experts, width = shape_.width, inner = shape_.expert_inner;
  const TensorNames& names = *shape_.names;
  const auto tensors = [&](const std::string& own, std::int64_t n, std::int64_t k) {
    const std::size_t star = own.find('*');
    if (star == std::string::npos) return std::vector{reader.tensor(name + own + ".weight", {count, n, k})};
    std::vector<const WeightTensor*> all;
    for (std::int64_t e = 0; e < count; e++) {
      std::string of_expert = own;
      of_expert.replace(star, 1, std::to_string(e));
      all.push_back(reader.matrix(name + of_expert + ".weight", n, k));
      if (all[0]->type != all.back()->type)
        throw NotImplementedError("[language] experts of several types are not supported, got " + all[0]->text() +
                                  " and " + all.back()->text());
    }
    return all;
  };
  Experts::Tensors parts{reader.matrix(name + names.router + ".weight", count, width),
                         tensors(names.expert_gates, inner, width), tensors(names.expert_ups, inner, width),
                         tensors(names.expert_outs, width, inner)};
  if (shape_.expert_biases) {
    const auto bias = [&](const char* own, std::int64_t n) { return reader.matrix(name + own + ".bias", count, n); };
    parts.gate_bias = bias(names.expert_gates, inner), parts.up_bias = bias(names.expert_ups, inner);
    parts.down_bias = bias(names.expert_outs, width);
    parts.router_bias = reader.vector(name + names.router + ".bias", count, dtype_);
  }
  layer.experts =
      reader.experts(parts, {count, shape_.experts_used, width, inner, shape_.gate, shape_.normalized_experts});
  if (!shape_.shared_inner) return;
  layer.shared_router = reader.row(name + names.shared_router + ".weight", width);
  layer.shared =
      read_products(reader, name, {names.shared_gate, names.shared_up, names.shared_out}, shape_.shared_inner);
}

Decoder::Angles Decoder::angles(const Rotation& rotation, const std::vector<double>& factors) const {
  const std::int64_t half = shape_.rotated / 2;
  std::vector<float> cosines(std::size_t(context_ * half)), sines(cosines.size());
  for (std::int64_t i = 0; i < half; i++) {
    double frequency = rotation.scale * std::pow(rotation.base, -2.0 * double(i) / double(shape_.rotated));
    if (!factors.empty()) frequency /= factors[std::size_t(i)];
    for (std::int64_t p = 0; p < context_; p++) {
      const double angle = double(p) * frequency;
      const std::size_t at = std::size_t(p * half + i);
      cosines[at] = float(rotation.magnitude * std::cos(angle)),
      sines[at] = float(rotation.magnitude * std::sin(angle));
    }
  }
  const auto table = [&](const std::vector<float>& values) {
    const Tensor tensor(queue_, DataType::float32, {context_, 1, half});
    queue_.write(tensor.view(queue_).data, values.data(), tensor.bytes(), true);
    return tensor;
  };
  return {table(cosines), table(sines)};
}

const Decoder::Angles& Decoder::angles_of(const Layer& layer) const {
  return layer.local && local_angles_.cosines.defined() ? local_angles_ : long_ ? long_angles_ : angles_;
}

std::size_t Decoder::weight_bytes() const noexcept {
  std::size_t sum = (output_.defined() ? output_ : embeddings_).bytes();
  for (const Layer& layer : layers_)
    sum += layer.qkv.bytes() + layer.attention_out.bytes() + layer.inner.gates.bytes() + layer.inner.out.bytes() +
           layer.experts.bytes() + layer.shared.gates.bytes() + layer.shared.out.bytes();
  return sum;
}

Tensor Decoder::normalized(const Tensor& x, const Norm& norm) const {
  if (!norm.defined()) return x;
  const std::int64_t groups = norm.weight.shape().size() == 2 ? norm.weight.shape()[0] : 1;
  const auto statistics = [&] { return Tensor(queue_, DataType::float32, {x.shape()[0], groups}); };
  const Tensor result(queue_, x.dtype(), x.shape()), deviations = statistics();
  const Tensor means = shape_.layer_norms ? statistics() : Tensor();
  const auto view = [&](const Tensor& t) { return t.defined() ? t.view(queue_) : TensorView(); };
  GroupShape shape{x.shape()[0], norm.weight.numel(), 1, groups};
  shape.center = shape_.layer_norms, shape.eps = shape_.norm_eps;
  group_norm(queue_, shape, result.view(queue_), view(means), deviations.view(queue_), x.view(queue_),
             view(norm.weight), view(norm.bias));
  return result;
}

// Rotates the pairs of elements of heads [m, heads, width], in place, by the angles of positions past, past + 1 ...
void Decoder::rotate(const Tensor& heads, std::int64_t past, const Angles& angles) const {
  const std::int64_t m = heads.shape()[0], half = shape_.rotated / 2, step = shape_.neighbours ? 2 : 1;
  const TensorView a = narrow(heads, 2, 0, half, step).view(queue_),
                   b = narrow(heads, 2, shape_.neighbours ? 1 : half, half, step).view(queue_);
  const TensorView cosine = narrow(angles.cosines, 0, past, m).view(queue_),
                   sine = narrow(angles.sines, 0, past, m).view(queue_);
  pointwise_operation(queue_, {a, b, cosine, sine}, {a, b}, {}, "y0 = x0 * x2 - x1 * x3; y1 = x0 * x3 + x1 * x2;");
}

// The first key that a layer's queries from position `past` on see.
std::int64_t Decoder::first_key(const Layer& layer, std::int64_t past) const {
  return layer.local ? std::max<std::int64_t>(0, past + 1 - shape_.window) : 0;
}

// Which of the keys up to past + count - 1 each query may see, as (1, 1, count, keys): the last `window`, if that is not
// 0, of which the first query's first is the first here.
Tensor Decoder::mask(std::int64_t past, std::int64_t count, std::int64_t window) const {
  const std::int64_t first = window ? std::max<std::int64_t>(0, past + 1 - window) : 0, shown = past + count - first;
  const Tensor queries(queue_, DataType::float32, {count, 1}), keys(queue_, DataType::float32, {shown});
  sequence(queue_, queries.view(queue_), double(past), 1.), sequence(queue_, keys.view(queue_), double(first), 1.);
  const double width = window ? double(window) : double(past + count);
  const Tensor seen = apply(queue_, "y0 = x1 <= x0 && x0 - x1 < w0;", {queries, keys}, {width}, DataType::boolean);
  return seen.strided({1, shape_.heads, count, shown}, {0, 0, shown, 1});
}

// out = attention of the queries [m, heads, width] from position `past` on to the layer's cache.
void Decoder::attend(const Layer& layer, const Tensor& queries, const Tensor& out, std::int64_t past) const {
  const std::int64_t m = out.shape()[0], heads = shape_.heads, kv = shape_.key_heads, first = first_key(layer, past);
  const Tensor cached = narrow(layer.cache, 0, first, past + m - first);
  const auto by_heads = [&](const Tensor& t, std::int64_t from, std::int64_t count) {
    return unsqueeze(permute(narrow(t, 1, from, count), {1, 0, 2}), 0).view(queue_);
  };
  const Tensor sums(queue_, DataType::float32, {1, heads, m});
  AttentionInputs inputs{by_heads(queries, 0, heads), by_heads(cached, 0, kv), by_heads(cached, kv, kv), std::nullopt};
  const Tensor& seen = layer.local ? local_mask_ : mask_;
  if (seen.defined()) inputs.bias = seen.view(queue_);
  AttentionOptions options;
  options.scale = shape_.score_scale ? shape_.score_scale : 1 / std::sqrt(double(shape_.head_width));
  options.soft_cap = shape_.score_cap, options.causal = !seen.defined() && m > 1;
  attention_forward(queue_, inputs, by_heads(out, 0, heads), sums.view(queue_), options);
  if (layer.sinks.defined())
    pointwise_operation(queue_,
                        {out.view(queue_), layer.sinks.strided({1, heads, 1}, {heads, 1, 1}).view(queue_),
                         sums.strided({m, heads, 1}, {1, m, 1}).view(queue_)},
                        {out.view(queue_)}, {}, "y0 = x0 / (1 + exp(x1 - x2));");
}

// Whether a product may add its part's result to the part's input: nothing comes between.
bool Decoder::adds(const Norm& norm) const { return !norm.defined() && shape_.added_scale == 1; }

// Of a part's result and its input, where the result was not added to that yet.
Tensor Decoder::sum(const Tensor& result, const Norm& norm, const Tensor& x) const {
  if (adds(norm)) return result;
  const Tensor total = normalized(result, norm);
  pointwise_operation(queue_, {total.view(queue_), x.view(queue_)}, {total.view(queue_)}, {shape_.added_scale},
                      "y0 = w0 * x0 + x1;");
  return total;
}

// Of heads of queries and keys [m, heads, width].
Tensor Decoder::normalized_heads(const Layer& layer, const Tensor& heads) const {
  const Tensor all = contiguous(queue_, heads);
  if (!layer.key_norm.defined()) return normalized(all, Norm{layer.head_norms, {}});
  const Tensor result(queue_, all.dtype(), all.shape());
  const auto part = [&](std::int64_t from, std::int64_t count, const Tensor& norm) {
    const Tensor own = contiguous(queue_, narrow(all, 1, from, count));
    copy(queue_, narrow(result, 1, from, count).view(queue_), normalized(own, Norm{norm, {}}).view(queue_));
  };
  part(0, shape_.heads, layer.head_norms), part(shape_.heads, shape_.key_heads, layer.key_norm);
  return result;
}

// In place, where there is one.
void Decoder::add_bias(const Tensor& result, const Tensor& bias) const {
  if (!bias.defined()) return;
  pointwise(queue_, PointwiseId::add, {result.view(queue_)}, {result.view(queue_), bias.view(queue_)}, {1});
}

Tensor Decoder::attended(const Layer& layer, const Tensor& x, std::int64_t past) const {
  const std::int64_t m = x.shape()[0], d = shape_.head_width, heads = shape_.heads, kv = shape_.key_heads;
  const std::int64_t row = (heads + 2 * kv) * d, rotated = heads + kv;
  const Tensor qkv(queue_, dtype_, {m, row});
  layer.qkv.multiply(queue_, normalized(x, layer.attention_norm), qkv, layer.qkv_bias);
  Tensor q = qkv.strided({m, rotated, d}, {row, d, 1});  // and keys
  const Tensor values = qkv.strided({m, kv, d}, {row, d, 1}, rotated * d);
  if (layer.head_norms.defined()) q = normalized_heads(layer, q);
  if (layer.rotated) rotate(q, past, angles_of(layer));
  const Tensor place = narrow(layer.cache, 0, past, m);
  if (layer.head_norms.defined()) {
    copy(queue_, narrow(place, 1, 0, kv).view(queue_), narrow(q, 1, heads, kv).view(queue_));
    copy(queue_, narrow(place, 1, kv, kv).view(queue_), values.view(queue_));
  } else {
    copy(queue_, place.view(queue_), qkv.strided({m, 2 * kv, d}, {row, d, 1}, heads * d).view(queue_));
  }
  const Tensor out(queue_, dtype_, {m, heads, d}), result(queue_, dtype_, x.shape());
  attend(layer, q, out, past);
  layer.attention_out.multiply(queue_, out.strided({m, heads * d}, {heads * d, 1}), result,
                               adds(layer.post_attention_norm) ? x : Tensor());
  add_bias(result, layer.attention_bias);
  return sum(result, layer.post_attention_norm, x);
}

// Of inputs that are normalized; `addend` is added where it is defined.
Tensor Decoder::multiplied(const Products& products, const Tensor& x, const Tensor& addend) const {
  const std::int64_t m = x.shape()[0], inner = products.out.k();
  const Tensor gates(queue_, dtype_, {m, products.gates.n()}), product(queue_, dtype_, {m, inner});
  products.gates.multiply(queue_, x, gates, products.gates_bias);
  const TensorView up = shape_.gated ? narrow(gates, 1, inner, inner).view(queue_) : TensorView();
  multiply_gates(queue_, narrow(gates, 1, 0, inner).view(queue_), up, product.view(queue_), shape_.gate);
  const Tensor result(queue_, dtype_, x.shape());
  products.out.multiply(queue_, product, result, addend);
  add_bias(result, products.out_bias);
  return result;
}

// What experts give, and the one that all tokens take.
Tensor Decoder::mixed(const Layer& layer, const Tensor& x) const {
  const Tensor result = layer.experts.run(queue_, x);
  if (!layer.shared_router.defined()) return result;
  const Tensor weight(queue_, dtype_, {x.shape()[0], 1});
  layer.shared_router.multiply(queue_, x, weight);
  return apply(queue_, "y0 = x0 + x1 / (1 + exp(-x2));", {result, multiplied(layer.shared, x, {}), weight});
}

// The total and what the layer's products make of x.
Tensor Decoder::gated(const Layer& layer, const Tensor& x, const Tensor& total) const {
  const Tensor input = normalized(x, layer.inner_norm);
  const bool added = adds(layer.post_inner_norm);
  if (!layer.experts.defined())
    return sum(multiplied(layer.inner, input, added ? total : Tensor()), layer.post_inner_norm, total);
  const Tensor result = mixed(layer, input);
  return added ? apply(queue_, "y0 = x0 + x1;", {result, total}) : sum(result, layer.post_inner_norm, total);
}

// Keeps the tokens and sees which factors divide frequencies now: where they change, all so far is computed anew.
void Decoder::remember(const Tensor& tokens) {
  const std::int64_t m = tokens.numel(), past = length_;
  copy(queue_, narrow(tokens_, 0, past, m).view(queue_), tokens.strided({m}, {1}).view(queue_));
  const bool now = std::max(past + m, coming_) > shape_.rotation.trained;
  if (now == std::exchange(long_, now)) return;
  length_ = 0;
  while (length_ < past) pass(narrow(tokens_, 0, length_, std::min(part(), past - length_)), 1);
}

Tensor Decoder::run(const Tensor& tokens, bool all) {
  const std::int64_t m = tokens.numel();
  if (m < 1 || m > context_ - length_)
    throw ValidationError("[language] " + std::to_string(m) + " tokens behind " + std::to_string(length_) +
                          " do not fit a context of " + std::to_string(context_));
  if (tokens_.defined()) remember(tokens);
  return pass(tokens, all ? m : 1);
}

// Scores behind the last `rows` of the tokens.
Tensor Decoder::pass(const Tensor& tokens, std::int64_t rows) {
  const std::int64_t m = tokens.numel(), past = length_;
  Tensor x = embeddings_.rows(queue_, tokens);
  if (shape_.embedding_scale != 1) x = apply(queue_, "y0 = x0 * w0;", {x}, {shape_.embedding_scale});
  if (positions_.defined()) {
    const Tensor numbers(queue_, DataType::int64, {m});
    sequence(queue_, numbers.view(queue_), past, 1);
    x = apply(queue_, "y0 = x0 + x1;", {x, positions_.rows(queue_, numbers)});
  }
  mask_ = past > 0 && m > 1 ? mask(past, m, 0) : Tensor();
  const bool cut = m > 1 && past + m > shape_.window;  // a window begins behind the first key, or before some queries
  local_mask_ = !shape_.local.empty() && m > 1 && (past > 0 || cut) ? mask(past, m, shape_.window) : Tensor();
  for (const Layer& layer : layers_) {
    const Tensor total = attended(layer, x, past);
    x = gated(layer, shape_.parallel ? x : total, total);
  }
  length_ = past + m;
  x = normalized(narrow(x, 0, m - rows, rows), output_norm_);
  const Tensor scores(queue_, dtype_, {rows, shape_.vocabulary});
  (output_.defined() ? output_ : embeddings_).multiply(queue_, x, scores, output_bias_);
  const double cap = shape_.output_cap;
  if (cap) return apply(queue_, "y0 = w1 * tanh(x0 * w0);", {scores}, {shape_.output_scale / cap, cap});
  return shape_.output_scale == 1 ? scores : apply(queue_, "y0 = x0 * w0;", {scores}, {shape_.output_scale});
}

}  // namespace dlprim
