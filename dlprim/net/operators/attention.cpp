// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/range.hpp>

#include <cmath>

#include "../array.hpp"
#include "../composition.hpp"

namespace dlprim::operators {

namespace {

using Part = Composition::Part;

struct AttentionAttributes {
  explicit AttentionAttributes(const AttributeReader& reader)
      : left_window_size(reader.integer("left_window_size", -1)),
        right_window_size(reader.integer("right_window_size", -1)), is_causal(reader.integer("is_causal", 0)),
        q_num_heads(reader.integer("q_num_heads", 0)), kv_num_heads(reader.integer("kv_num_heads", 0)),
        softmax_precision(reader.integer("softmax_precision", 0)),
        qk_matmul_output_mode(reader.integer("qk_matmul_output_mode", 0)), num_heads(reader.integer("num_heads", 0)),
        rotary_embedding_dim(reader.integer("rotary_embedding_dim", 0)), interleaved(reader.integer("interleaved", 0)),
        axis(reader.integer("axis", -2)), softcap(reader.real("softcap", 0)), scale(reader.find<double>("scale")),
        mode(reader.text("mode", "linear")), activation(reader.text("activation", "none")),
        update_rule(reader.text("update_rule", "gated_delta")) {}
  std::int64_t left_window_size, right_window_size, is_causal, q_num_heads, kv_num_heads, softmax_precision,
      qk_matmul_output_mode, num_heads, rotary_embedding_dim, interleaved, axis;
  double softcap;
  std::optional<double> scale;
  std::string mode, activation, update_rule;
};

const AttentionAttributes& attributes_of(const Call& call) { return call.attributes<AttentionAttributes>(); }

// [batch, length, heads * size] as [batch, heads, length, size].
Part split_heads(Composition& c, const Part& x, std::int64_t heads) {
  const Shape& s = x.shape();
  if (s.size() == 4) return x;
  if (s.size() != 3 || heads < 1 || s[2] % heads) c.call.fail("heads do not fit " + s.text());
  return c.transpose(c.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

Part joined_heads(Composition& c, const Part& x) {
  const Shape& s = x.shape();
  return c.reshape(c.transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

// Each head `repeats` times in a row.
Part repeat_heads(Composition& c, const Part& x, std::int64_t repeats) {
  if (repeats == 1) return x;
  const Shape& s = x.shape();
  const Part sizes = c.constant(Tensor::from_integers(std::vector{s[0], s[1], repeats, s[2], s[3]}));
  return c.reshape(c("Expand"_op, {c.reshape(x, {s[0], s[1], 1, s[2], s[3]}), sizes}),
                   {s[0], s[1] * repeats, s[2], s[3]});
}

Tensor positions(Queue& queue, std::int64_t count) {
  Tensor result(queue, DataType::float32, {count});
  sequence(queue, result.view(queue), 0, 1);
  return result;
}

// The mask as numbers to add, at least [queries, keys]: 0 where a key may be seen, -infinity where not.
Part mask_bias(Composition& c, DataType type, std::int64_t queries, std::int64_t keys) {
  Queue& queue = c.call.queue();
  Part mask = c.input(3);
  if (!mask.defined()) return c.constant(filled(queue, type, {queries, keys}, 0));
  if (mask.tensor.dtype() == DataType::boolean)
    mask = c.constant(apply(queue, "y0 = x0 != 0 ? 0 : -INFINITY;", {mask.tensor}, {}, type, type));
  const int last = mask.shape().size() - 1;
  if (last >= 0 && mask.shape()[last] < keys) {
    Shape rest = mask.shape();
    rest[last] = keys - rest[last];
    mask = c(inner<"Concat", "axis">(last), {mask, c.constant(filled(queue, mask.tensor.dtype(), rest, -INFINITY))});
  }
  return last < 1 ? c("Expand"_op, {mask, c.constant(Tensor::from_integers(std::vector{queries, keys}))}) : mask;
}

// Which keys causality, the window around each query and the number of valid keys leave; undefined for all of them.
Tensor visible_keys(Call& call, std::int64_t queries, std::int64_t keys) {
  Queue& queue = call.queue();
  const std::int64_t left = attributes_of(call).left_window_size, right = attributes_of(call).right_window_size;
  const bool causal = attributes_of(call).is_causal, window = left >= 0 || right >= 0;
  if (!call.has(6) && !causal && !window) return {};
  const Tensor j = positions(queue, keys), i = unsqueeze(positions(queue, queries), 1);
  Tensor valid;
  if (call.has(6))
    valid = reshape(queue, cast(queue, call.input(6), DataType::float32), {call.input(6).numel(), 1, 1, 1});
  Tensor visible;
  if (causal || window) {
    Tensor offset = filled(queue, DataType::float32, {}, call.has(4) ? call.input(4).shape()[2] : 0);
    if (valid.defined() && !call.has(4)) offset = apply(queue, "y0 = x0 - w0;", {valid}, {queries});
    visible =
        apply(queue, "T d = x0 + x2 - x1; y0 = !((w0 != 0 && d < 0) || (w1 >= 0 && d > w1) || (w2 >= 0 && -d > w2));",
              {i, j, offset}, {causal ? 1 : 0, left, right}, DataType::boolean);
  }
  if (!valid.defined()) return visible;
  const Tensor filling = apply(queue, "y0 = x0 < x1;", {j, valid}, {}, DataType::boolean);
  return visible.defined() ? apply(queue, "y0 = x0 && x1;", {visible, filling}) : filling;
}

// What is added to the scores; undefined for nothing.
Part attention_bias(Composition& c, DataType type, std::int64_t queries, std::int64_t keys) {
  const Tensor visible = visible_keys(c.call, queries, keys);
  if (!c.call.has(3) && !visible.defined()) return {};
  const Part mask = mask_bias(c, type, queries, keys);
  return visible.defined() ? c("Where"_op, {c.constant(visible), mask, c.constant(-INFINITY, mask.tensor.dtype())})
                           : mask;
}

// Softmax of scores + bias over keys; queries that see no key get 0 everywhere.
Part probabilities(Composition& c, const Part& scores, const Part& bias, DataType precision) {
  Queue& queue = c.call.queue();
  if (!bias.defined()) return c("Softmax"_op, {c.cast(scores, precision)});
  const Tensor best = reduce(queue, ReduceId::max_values, bias.tensor, {bias.shape().size() - 1});
  const Part sees = c.constant(apply(queue, "y0 = x0 > -INFINITY;", {best}, {}, DataType::boolean));
  const Part finite = c("Where"_op, {sees, bias, c.constant(0, bias.tensor.dtype())});
  const Part p = c("Softmax"_op, {c.cast(c("Add"_op, {scores, finite}), precision)});
  return c("Where"_op, {sees, p, c.constant(0, precision)});
}

// softmax(q k' scale + mask) v, with keys and values kept from earlier calls.
void attention_op(Composition& c) {
  Call& call = c.call;
  const bool flat = call.input(0).shape().size() == 3;
  const Part q = split_heads(c, c.input(0), attributes_of(call).q_num_heads);
  auto extended = [&](int past, int now) {
    const Part x = split_heads(c, c.input(now), attributes_of(call).kv_num_heads), before = c.input(past);
    return before.defined() ? c(inner<"Concat", "axis">(2), {before, x}) : x;
  };
  Part k = extended(4, 1), v = extended(5, 2);
  c.set(1, k), c.set(2, v);
  if (k.shape()[1] == 0 || q.shape()[1] % k.shape()[1]) call.fail("query heads are no multiple of the key heads");
  const std::int64_t repeats = q.shape()[1] / k.shape()[1];
  k = repeat_heads(c, k, repeats), v = repeat_heads(c, v, repeats);
  const DataType type = q.tensor.dtype();
  const double scale = std::sqrt(attributes_of(call).scale.value_or(1 / std::sqrt(double(q.shape()[3]))));
  auto scaled = [&](const Part& x) { return c("Mul"_op, {x, c.constant(scale, type)}); };
  Part scores = c("MatMul"_op, {scaled(q), c.transpose(scaled(k), {0, 1, 3, 2})});
  if (const double cap = attributes_of(call).softcap; cap > 0)
    scores = c("Mul"_op, {c("Tanh"_op, {c("Div"_op, {scores, c.constant(cap, type)})}), c.constant(cap, type)});
  const Part bias = attention_bias(c, type, q.shape()[2], k.shape()[2]);
  const std::int64_t precision = attributes_of(call).softmax_precision,
                     shown = attributes_of(call).qk_matmul_output_mode;
  const Part p = c.cast(probabilities(c, scores, bias, precision ? element_type(precision) : type), type);
  if (call.wants(3)) c.set(3, shown == 3 ? p : shown == 2 && bias.defined() ? c("Add"_op, {scores, bias}) : scores);
  const Part y = c("MatMul"_op, {p, v});
  c.set(0, flat ? joined_heads(c, y) : y);
}

// Rotates pairs of elements by the angles of their position.
void rotary(Composition& c) {
  Call& call = c.call;
  const bool heads_second = call.input(0).shape().size() == 4;
  const Part x = c.transpose(split_heads(c, c.input(0), attributes_of(call).num_heads), {0, 2, 1, 3});
  const Shape s = x.shape();  // batch, length, heads, size
  const std::int64_t dims = attributes_of(call).rotary_embedding_dim ? attributes_of(call).rotary_embedding_dim : s[3];
  const bool interleaved = attributes_of(call).interleaved;
  if (dims < 0 || dims > s[3] || dims % 2) call.fail("expected an even rotary_embedding_dim within the head");
  const std::int64_t half = dims / 2, step = interleaved ? 2 : 1;
  auto angles = [&](int i) {
    const Part table = call.has(3) ? c("Gather"_op, {c.input(i), c.constant(call.input(3))}) : c.input(i);
    return c("Unsqueeze"_op, {table, c.constant(Tensor::from_integers(std::vector<std::int64_t>{2}))});
  };
  const Part cosine = angles(1), sine = angles(2);
  const Part a = c.narrow(x, 3, 0, half, step), b = c.narrow(x, 3, interleaved ? 1 : half, half, step);
  Part first = c("Sub"_op, {c("Mul"_op, {cosine, a}), c("Mul"_op, {sine, b})});
  Part second = c("Add"_op, {c("Mul"_op, {sine, a}), c("Mul"_op, {cosine, b})});
  const std::int64_t axis = interleaved ? 4 : 3;
  if (interleaved)
    for (Part* part : {&first, &second}) *part = c.reshape(*part, {s[0], s[1], s[2], half, 1});
  Part y = c.reshape(c(inner<"Concat", "axis">(axis), {first, second}), {s[0], s[1], s[2], dims});
  if (dims < s[3]) y = c(inner<"Concat", "axis">(3), {y, c.narrow(x, 3, dims, s[3] - dims)});
  c.set(0, heads_second ? c.transpose(y, {0, 2, 1, 3}) : c.reshape(y, call.input(0).shape()));
}

// Writes `update` into the cache along `axis`, beginning at an index of each batch.
void tensor_scatter(Call& call) {
  Queue& queue = call.queue();
  const Tensor &cache = call.input(0), &update = call.input(1);
  const int axis = cache.shape().axis(attributes_of(call).axis);
  const std::int64_t batch = cache.shape()[0], size = cache.shape()[axis], length = update.shape()[axis];
  if (axis == 0 || update.shape().size() != cache.shape().size())
    call.fail("expected an update like the cache, and an axis behind the batch");
  std::vector<std::int64_t> starts(std::size_t(batch), 0);
  if (call.has(2)) starts = call.read_integers(2);
  const Tensor y(queue, cache.dtype(), cache.shape());
  copy(queue, y.view(queue), cache.view(queue));
  const bool circular = attributes_of(call).mode == "circular";
  for (std::int64_t n = 0; n < batch; n++)
    for (std::int64_t done = 0; done < length;) {
      std::int64_t at = starts.at(std::size_t(n)) + done;
      if (circular) at %= size;
      const std::int64_t count = circular ? std::min(length - done, size - at) : length - done;
      if (at < 0 || at + count > size) call.fail("the update does not fit the cache");
      copy(queue, narrow(select(y, 0, n), axis - 1, at, count).view(queue),
           narrow(select(update, 0, n), axis - 1, done, count).view(queue));
      done += count;
    }
  call.set(0, y);
}

struct SwiGluAttributes {
  explicit SwiGluAttributes(const AttributeReader& reader) : swish("Swish", {{"alpha", reader.real("alpha", 1)}}) {}
  Inner swish;
};

void swi_glu(Composition& c) {
  c.set(0, c("Mul"_op, {c(c.call.attributes<SwiGluAttributes>().swish, {c.input(0)}), c.input(1)}));
}

// Depthwise convolution over a sequence that sees only what came before, with the end of the last call in front.
void causal_conv(Composition& c) {
  Call& call = c.call;
  const Part x = c.input(0), weights = c.input(1);
  if (x.shape().size() != 3 || weights.shape().size() != 3) call.fail("expected batch, channels and length");
  const std::int64_t before = weights.shape()[2] - 1, channels = x.shape()[1];
  Part past = c.input(3);
  if (!past.defined()) past = c.constant(filled(call.queue(), x.tensor.dtype(), {x.shape()[0], channels, before}, 0));
  const Part all = c(inner<"Concat", "axis">(2), {past, x});
  const Part y = c(inner<"Conv", "group">(channels), {all, weights, c.input(2)});
  c.set(0, attributes_of(call).activation == "none" ? y : c("Swish"_op, {y}));
  c.set(1, c.narrow(all, 2, all.shape()[2] - before, before));
}

// state = exp(decay) state + k (beta (v - k' state))', out = scale q state; without decay, beta and correction as the
// rule says. One step after the other, in float32 at least.
void linear_attention(Composition& c) {
  Call& call = c.call;
  const std::int64_t q_heads = attributes_of(call).q_num_heads, heads = attributes_of(call).kv_num_heads;
  const bool delta = attributes_of(call).update_rule.ends_with("delta");
  const DataType type = call.input(0).dtype(), wide = type == DataType::float64 ? type : DataType::float32;
  auto unpacked = [&](int i, std::int64_t count) { return c.cast(split_heads(c, c.input(i), count), wide); };
  const Part q = unpacked(0, q_heads), k = unpacked(1, heads), v = unpacked(2, heads);
  const std::int64_t batch = q.shape()[0], steps = q.shape()[2], keys = q.shape()[3], values = v.shape()[3];
  if (heads < 1 || q_heads % heads) call.fail("query heads are no multiple of the key heads");
  if (steps < 1) call.fail("expected at least one step");
  Part state = c.input(3);
  const DataType state_type = state.defined() ? state.tensor.dtype() : type;
  state =
      state.defined() ? c.cast(state, wide) : c.constant(filled(call.queue(), wide, {batch, heads, keys, values}, 0));
  const Part decay = call.has(4) ? unpacked(4, heads) : Part();
  const Part beta = call.has(5) ? unpacked(5, call.input(5).shape()[2]) : Part();
  const double scale =
      attributes_of(call).scale.value_or(0) != 0 ? *attributes_of(call).scale : 1 / std::sqrt(double(keys));
  auto column = [&](const Part& x, std::int64_t t) { return c.transpose(c.narrow(x, 2, t, 1), {0, 1, 3, 2}); };
  std::vector<Part> outputs;
  for (std::int64_t t = 0; t < steps; t++) {
    const Part kt = column(k, t);   // batch, heads, keys, 1
    Part vt = c.narrow(v, 2, t, 1);  // batch, heads, 1, values
    if (decay.defined()) state = c("Mul"_op, {state, c("Exp"_op, {column(decay, t)})});
    if (delta) {
      const Part seen = c("MatMul"_op, {c.narrow(k, 2, t, 1), state});
      vt = c("Mul"_op, {column(beta, t), c("Sub"_op, {vt, seen})});
    }
    state = c("Add"_op, {state, c("Mul"_op, {kt, vt})});
    outputs.push_back(c("MatMul"_op, {c.narrow(q, 2, t, 1), repeat_heads(c, state, q_heads / heads)}));
  }
  const Part y = c("Mul"_op, {c(inner<"Concat", "axis">(2), outputs), c.constant(scale, wide)});
  c.set(0, c.cast(joined_heads(c, y), type));
  c.set(1, c.cast(state, state_type));
}

}  // namespace

void attention(Registry& registry) {
  compose<AttentionAttributes, attention_op>(
      registry, "Attention",
      "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision "
      "left_window_size right_window_size");
  compose<AttentionAttributes, rotary>(registry, "RotaryEmbedding", "interleaved num_heads rotary_embedding_dim");
  compose<SwiGluAttributes, swi_glu>(registry, "SwiGLU", "alpha");
  compose<AttentionAttributes, causal_conv>(registry, "CausalConvWithState", "activation=none|silu|swish");
  compose<AttentionAttributes, linear_attention>(
      registry, "LinearAttention",
      "chunk_size kv_num_heads q_num_heads scale update_rule=linear|gated|delta|gated_delta");
  registry.add<AttentionAttributes>("TensorScatter", tensor_scatter, "axis mode=linear|circular");
}

}  // namespace dlprim::operators
