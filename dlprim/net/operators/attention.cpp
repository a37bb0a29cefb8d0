// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/range.hpp>

#include <cmath>

#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

// [batch, length, heads * size] as [batch, heads, length, size].
Tensor split_heads(Call& call, const Tensor& x, std::int64_t heads) {
  if (x.shape().size() == 4) return x;
  if (x.shape().size() != 3 || heads < 1 || x.shape()[2] % heads) call.fail("heads do not fit " + x.shape().text());
  return permute(reshape(call.queue(), x, {x.shape()[0], x.shape()[1], heads, x.shape()[2] / heads}), {0, 2, 1, 3});
}

// Each head `repeats` times in a row.
Tensor repeat_heads(Queue& queue, const Tensor& x, std::int64_t repeats) {
  if (repeats == 1) return x;
  const Shape& s = x.shape();
  return reshape(queue, expand(unsqueeze(x, 2), {s[0], s[1], repeats, s[2], s[3]}), {s[0], s[1] * repeats, s[2], s[3]});
}

Tensor positions(Queue& queue, std::int64_t count) {
  Tensor result(queue, DataType::float32, {count});
  sequence(queue, result.view(queue), 0, 1);
  return result;
}

// The mask as numbers to add, at least [queries, keys]: 0 where a key may be seen, -infinity where not.
Tensor mask_bias(Call& call, DataType type, std::int64_t queries, std::int64_t keys) {
  Queue& queue = call.queue();
  if (!call.has(3)) return filled(queue, type, {queries, keys}, 0);
  Tensor mask = call.input(3);
  if (mask.dtype() == DataType::boolean) mask = apply(queue, "y0 = x0 != 0 ? 0 : -INFINITY;", {mask}, {}, type, type);
  const int last = mask.shape().size() - 1;
  if (last >= 0 && mask.shape()[last] < keys) {
    Shape rest = mask.shape();
    rest[last] = keys - rest[last];
    const Tensor parts[] = {mask, filled(queue, type, rest, -INFINITY)};
    mask = concat(queue, parts, last);
  }
  return last < 1 ? contiguous(queue, expand(mask, {queries, keys})) : mask;
}

// What causality, the window around each query and the number of valid keys hide; undefined where nothing does.
Tensor attention_bias(Call& call, DataType type, std::int64_t queries, std::int64_t keys) {
  Queue& queue = call.queue();
  const std::int64_t left = call.integer("left_window_size", -1), right = call.integer("right_window_size", -1);
  const bool causal = call.integer("is_causal", 0), window = left >= 0 || right >= 0;
  if (!call.has(3) && !call.has(6) && !causal && !window) return {};
  Tensor bias = mask_bias(call, type, queries, keys);
  const Tensor j = positions(queue, keys), i = unsqueeze(positions(queue, queries), 1);
  Tensor valid;
  if (call.has(6)) valid = reshape(queue, cast(queue, call.input(6), DataType::float32), {call.input(6).numel(), 1, 1, 1});
  if (causal || window) {
    Tensor offset = filled(queue, DataType::float32, {}, call.has(4) ? call.input(4).shape()[2] : 0);
    if (valid.defined() && !call.has(4)) offset = apply(queue, "y0 = x0 - w0;", {valid}, {queries});
    const Tensor inputs[] = {bias, i, j, offset};
    const Scalar scalars[] = {causal ? 1 : 0, left, right};
    bias = apply(queue, "T d = x1 + x3 - x2; y0 = (w0 != 0 && d < 0) || (w1 >= 0 && d > w1) || (w2 >= 0 && -d > w2) "
                        "? -INFINITY : x0;", inputs, scalars, type, DataType::float32);
  }
  if (valid.defined()) {
    const Tensor inputs[] = {bias, j, valid};
    bias = apply(queue, "y0 = x1 < x2 ? x0 : -INFINITY;", inputs, {}, type, DataType::float32);
  }
  return bias;
}

// Softmax over keys; queries that see no key get 0 everywhere.
Tensor probabilities(Queue& queue, const Tensor& scores, const Tensor& bias) {
  const int last = scores.shape().size() - 1;
  const Tensor p = softmax(queue, scores, last);
  if (!bias.defined()) return p;
  const Tensor best = reduce(queue, ReduceId::max_values, bias, {bias.shape().size() - 1});
  return apply(queue, "y0 = x1 == -INFINITY ? 0 : x0;", {p, best}, {}, p.dtype());
}

// softmax(q k' scale + mask) v, with keys and values kept from earlier calls.
void attention_op(Call& call) {
  Queue& queue = call.queue();
  const Tensor q = split_heads(call, call.input(0), call.integer("q_num_heads", 0));
  Tensor k = split_heads(call, call.input(1), call.integer("kv_num_heads", 0));
  Tensor v = split_heads(call, call.input(2), call.integer("kv_num_heads", 0));
  auto extended = [&](int past, const Tensor& now) {
    const Tensor parts[] = {call.has(past) ? call.input(past) : now, now};
    return call.has(past) ? concat(queue, parts, 2) : now;
  };
  k = extended(4, k), v = extended(5, v);
  call.set(1, k), call.set(2, v);
  if (k.shape()[1] == 0 || q.shape()[1] % k.shape()[1]) call.fail("query heads are no multiple of the key heads");
  const std::int64_t repeats = q.shape()[1] / k.shape()[1];
  k = repeat_heads(queue, k, repeats), v = repeat_heads(queue, v, repeats);
  const DataType type = q.dtype();
  const double scale = std::sqrt(call.real("scale", 1 / std::sqrt(double(q.shape()[3]))));
  auto scaled = [&](const Tensor& x) { return apply(queue, "y0 = x0 * w0;", {x}, {scale}); };
  Tensor scores = matmul(queue, scaled(q), transpose(scaled(k)));
  if (const double cap = call.real("softcap", 0); cap > 0) scores = apply(queue, "y0 = tanh(x0 / w0) * w0;", {scores}, {cap});
  const Tensor bias = attention_bias(call, type, q.shape()[2], k.shape()[2]);
  const Tensor masked = bias.defined() ? apply(queue, "y0 = x0 + x1;", {scores, bias}) : scores;
  const std::int64_t precision = call.integer("softmax_precision", 0);
  const Tensor p = cast(queue, probabilities(queue, precision ? cast(queue, masked, element_type(precision)) : masked, bias), type);
  const std::int64_t shown = call.integer("qk_matmul_output_mode", 0);
  call.set(3, shown == 3 ? p : shown == 2 ? masked : scores);
  const Tensor y = matmul(queue, p, v);
  const Shape& s = y.shape();
  call.set(0, call.input(0).shape().size() == 4 ? y : reshape(queue, permute(y, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]}));
}

// Rotates pairs of elements by the angles of their position.
void rotary(Call& call) {
  Queue& queue = call.queue();
  const Tensor& x = call.input(0);
  const bool heads_second = x.shape().size() == 4;
  const Tensor rows = permute(split_heads(call, x, call.integer("num_heads", 0)), {0, 2, 1, 3});  // batch, length, heads, size
  const Shape& s = rows.shape();
  const std::int64_t dims = call.integer("rotary_embedding_dim", 0) ? call.integer("rotary_embedding_dim", 0) : s[3];
  const bool interleaved = call.integer("interleaved", 0);
  if (dims > s[3] || dims % 2) call.fail("expected an even rotary_embedding_dim within the head");
  auto angles = [&](int i) {
    const Tensor cache = call.has(3) ? call.run("Gather", {call.input(i), call.input(3)})[0] : call.input(i);
    return unsqueeze(cache, 2);
  };
  const Tensor c = angles(1), n = angles(2), turned = narrow(rows, 3, 0, dims);
  const Tensor a = interleaved ? narrow(turned, 3, 0, dims / 2, 2) : narrow(turned, 3, 0, dims / 2);
  const Tensor b = interleaved ? narrow(turned, 3, 1, dims / 2, 2) : narrow(turned, 3, dims / 2, dims / 2);
  const Tensor y(queue, x.dtype(), s);
  auto write = [&](std::int64_t start, std::int64_t length, std::int64_t step, const Tensor& from) {
    if (length) copy(queue, narrow(y, 3, start, length, step).view(queue), from.view(queue));
  };
  const std::int64_t step = interleaved ? 2 : 1;
  write(0, dims / 2, step, apply(queue, "y0 = x2 * x0 - x3 * x1;", {a, b, c, n}));
  write(interleaved ? 1 : dims / 2, dims / 2, step, apply(queue, "y0 = x3 * x0 + x2 * x1;", {a, b, c, n}));
  write(dims, s[3] - dims, 1, narrow(rows, 3, dims, s[3] - dims));
  call.set(0, heads_second ? permute(y, {0, 2, 1, 3}) : reshape(queue, y, x.shape()));
}

// Writes `update` into the cache along `axis`, beginning at an index of each batch.
void tensor_scatter(Call& call) {
  Queue& queue = call.queue();
  const Tensor &cache = call.input(0), &update = call.input(1);
  const int axis = cache.shape().axis(call.integer("axis", -2));
  const std::int64_t batch = cache.shape()[0], size = cache.shape()[axis], length = update.shape()[axis];
  if (axis == 0 || update.shape().size() != cache.shape().size()) call.fail("expected an update like the cache, and an axis behind the batch");
  std::vector<std::int64_t> starts(std::size_t(batch), 0);
  if (call.has(2)) starts = call.read_integers(2);
  const Tensor y(queue, cache.dtype(), cache.shape());
  copy(queue, y.view(queue), cache.view(queue));
  const bool circular = call.text("mode", "linear") == "circular";
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

void swi_glu(Call& call) {
  call.set(0, apply(call.queue(), "y0 = x0 * logistic(w0 * x0) * x1;", {call.input(0), call.input(1)}, {call.real("alpha", 1)}));
}

// Depthwise convolution over a sequence that sees only what came before, with the end of the last call in front.
void causal_conv(Call& call) {
  Queue& queue = call.queue();
  const Tensor &x = call.input(0), &weights = call.input(1);
  if (x.shape().size() != 3 || weights.shape().size() != 3) call.fail("expected batch, channels and length");
  const std::int64_t before = weights.shape()[2] - 1;
  const Tensor past = call.has(3) ? call.input(3) : filled(queue, x.dtype(), {x.shape()[0], x.shape()[1], before}, 0);
  const Tensor parts[] = {past, x};
  const Tensor all = concat(queue, parts, 2);
  std::vector<Tensor> inputs{all, weights};
  if (call.has(2)) inputs.push_back(call.input(2));
  Tensor y = call.run("Conv", inputs, {{"group", x.shape()[1]}})[0];
  if (call.text("activation", "none") != "none") y = apply(queue, "silu", {y});
  call.set(0, y);
  call.set(1, narrow(all, 2, all.shape()[2] - before, before));
}

// state = exp(decay) state + k (beta (v - k' state))', out = scale q state; without decay, beta and correction as the
// rule says. One step after the other, in float32.
void linear_attention(Call& call) {
  Queue& queue = call.queue();
  const std::int64_t q_heads = call.integer("q_num_heads", 0), heads = call.integer("kv_num_heads", 0);
  const std::string rule = call.text("update_rule", "gated_delta");
  const bool delta = rule.ends_with("delta");
  auto unpacked = [&](int i, std::int64_t count) { return cast(queue, split_heads(call, call.input(i), count), DataType::float32); };
  const Tensor q = unpacked(0, q_heads), k = unpacked(1, heads), v = unpacked(2, heads);
  const std::int64_t batch = q.shape()[0], steps = q.shape()[2], keys = q.shape()[3], values = v.shape()[3];
  if (heads < 1 || q_heads % heads) call.fail("query heads are no multiple of the key heads");
  Tensor state = call.has(3) ? cast(queue, call.input(3), DataType::float32)
                             : filled(queue, DataType::float32, {batch, heads, keys, values}, 0);
  const Tensor decay = call.has(4) ? unpacked(4, heads) : Tensor();
  const Tensor beta = call.has(5) ? unpacked(5, call.input(5).shape()[2]) : Tensor();
  const double scale = call.real("scale", 0) != 0 ? call.real("scale", 0) : 1 / std::sqrt(double(keys));
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < steps; t++) {
    const Tensor kt = unsqueeze(select(k, 2, t), 3);  // batch, heads, keys, 1
    Tensor vt = unsqueeze(select(v, 2, t), 2);        // batch, heads, 1, values
    if (decay.defined()) state = apply(queue, "y0 = x0 * exp(x1);", {state, unsqueeze(select(decay, 2, t), 3)});
    if (delta) {
      const Tensor seen = matmul(queue, transpose(kt), state);
      vt = apply(queue, "y0 = x2 * (x0 - x1);", {vt, seen, unsqueeze(select(beta, 2, t), 3)});
    }
    state = apply(queue, "y0 = x0 + x1 * x2;", {state, kt, vt});
    const Tensor y = matmul(queue, unsqueeze(select(q, 2, t), 2), repeat_heads(queue, state, q_heads / heads));
    outputs.push_back(apply(queue, "y0 = x0 * w0;", {y}, {scale}));
  }
  if (outputs.empty()) call.fail("expected at least one step");
  const Tensor y = permute(concat(queue, outputs, 2), {0, 2, 1, 3});
  call.set(0, cast(queue, reshape(queue, y, {batch, steps, q_heads * values}), call.input(0).dtype()));
  call.set(1, cast(queue, state, call.has(3) ? call.input(3).dtype() : call.input(0).dtype()));
}

}  // namespace

void attention(Registry& registry) {
  registry.add("Attention", attention_op, "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap "
                                          "softmax_precision left_window_size right_window_size");
  registry.add("RotaryEmbedding", rotary, "interleaved num_heads rotary_embedding_dim");
  registry.add("TensorScatter", tensor_scatter, "axis mode=linear|circular");
  registry.add("SwiGLU", swi_glu, "alpha");
  registry.add("CausalConvWithState", causal_conv, "activation=none|silu|swish");
  registry.add("LinearAttention", linear_attention, "chunk_size kv_num_heads q_num_heads scale update_rule=linear|gated|delta|gated_delta");
}

}  // namespace dlprim::operators
