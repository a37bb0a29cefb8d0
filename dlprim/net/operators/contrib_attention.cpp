// SPDX-License-Identifier: MIT
// Attention of ONNX Runtime's domain: projections, masks and caches in its forms around ONNX's operator.
#include <dlprim/primitives/attention.hpp>
#include <dlprim/primitives/range.hpp>

#include <cmath>

#include "../checked.hpp"
#include "../contrib.hpp"

namespace dlprim::operators {

namespace {

using Attributes = Inner::Attributes;

// ONNX's Attention with the given attributes that are not 0.
Inner attention_of(std::int64_t heads, std::int64_t kv_heads, bool causal, const AttributeReader& reader,
                   Attributes others = {}) {
  Attributes attributes = std::move(others);
  attributes["q_num_heads"] = heads, attributes["kv_num_heads"] = kv_heads;
  attributes["is_causal"] = std::int64_t(causal);
  for (const char* name : {"scale", "softcap"})
    if (const double value = reader.real(name, 0); value != 0) attributes[name] = value;
  return Inner("Attention", std::move(attributes));
}

std::int64_t heads_of(const AttributeReader& reader, const char* name, std::int64_t otherwise = 0) {
  return checked_range(reader.integer(name, otherwise), 0, std::int64_t(1) << 30, name);
}

struct AttentionAttributes {
  explicit AttentionAttributes(const AttributeReader& reader)
      : attention(attention_of(heads_of(reader, "num_heads"), heads_of(reader, "num_heads"),
                               reader.integer("unidirectional", 0), reader)),
        heads(heads_of(reader, "num_heads")), sizes(reader.integers("qkv_hidden_sizes")),
        filter(reader.real("mask_filter_value", -10000)) {
    for (const char* name : {"do_rotary", "past_present_share_buffer"}) expect_attribute(reader, name, 0);
    if (reader.given("constant_weights")) kept = std::make_shared<std::optional<Workspace>>();
  }
  Inner attention;
  std::int64_t heads;
  std::vector<std::int64_t> sizes;
  double filter;
  std::shared_ptr<std::optional<Workspace>> kept;  // of constant weights
};

// A mask as numbers to add to scores [batch, heads, queries, keys], the last of `keys`: 0 where a key may be seen, else
// `filter`. It has a truth for each key, or for each query and key, or for each sequence where its keys end, and behind
// these where they begin.
Tensor bias_of_mask(Call& call, Tensor mask, DataType type, std::int64_t batch, std::int64_t queries, std::int64_t keys,
                    double filter) {
  Queue& queue = call.queue();
  const Shape& shape = mask.shape();
  switch (shape.size()) {
    case 1: {
      if (shape[0] != batch && shape[0] != 2 * batch) call.fail("a mask " + shape.text() + " is not supported");
      std::vector<std::int64_t> places(host_elements(keys, "a number of keys"));
      for (std::size_t i = 0; i < places.size(); i++) places[i] = std::int64_t(i);
      const Tensor place = Tensor::from_integers(places);
      auto each = [&](std::int64_t first) {
        return reshape(queue, cast(queue, narrow(mask, 0, first, batch), DataType::int64), {batch, 1, 1, 1});
      };
      const Tensor inside[] = {place, each(0),
                               shape[0] == batch ? Tensor::from_integers(std::vector<std::int64_t>{0}) : each(batch)};
      const Scalar scalars[] = {filter};
      const DataType compute = compute_type(type);
      return apply(queue, "y0 = x0 < x1 && x0 >= x2 ? 0 : w0;", inside, scalars, type, compute);
    }
    case 2: mask = unsqueeze(unsqueeze(mask, 1), 1); break;
    case 3: mask = unsqueeze(mask, 1); break;
    case 4:
      if (shape[2] < keys || shape[3] < keys || keys < queries) call.fail("a mask " + shape.text() + " does not fit");
      mask = narrow(narrow(mask, 2, keys - queries, queries), 3, 0, keys);
      break;
    default: call.fail("a mask " + shape.text() + " is not supported");
  }
  if (mask.shape()[3] != keys) call.fail("a mask for " + std::to_string(keys) + " keys, got " + shape.text());
  return apply(queue, "y0 = x0 > 0 ? 0 : w0;", {mask}, {filter}, type, compute_type(type));
}

Tensor sum_of(Call& call, const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : apply(call.queue(), "y0 = x0 + x1;", {a, b});
}

Tensor optional(Call& call, int i) { return call.has(i) ? call.input(i) : Tensor(); }

// From queries, keys and values side by side on. `past` and the second output hold keys and values, one behind the other.
void attend(Call& call, const AttentionAttributes& a, const Tensor& joined, int mask, int past, int bias) {
  Queue& queue = call.queue();
  const std::int64_t batch = joined.shape()[0], length = joined.shape()[1], width = joined.shape()[2];
  std::vector<std::int64_t> sizes = a.sizes;
  if (sizes.empty()) sizes.assign(3, width / 3);
  std::int64_t all = 0;
  for (std::int64_t size : sizes) all = checked_add(all, checked_range(size, 0, width, "a size"));
  if (sizes.size() != 3 || all != width) call.fail("sizes of queries, keys and values do not fit the weights");
  std::vector<Tensor> inputs;
  std::int64_t start = 0;
  for (std::int64_t size : sizes) inputs.push_back(narrow(joined, 2, start, size)), start += size;
  inputs.resize(6);
  std::int64_t keys = length;
  if (call.has(past)) {
    const Tensor& kept = call.input(past);
    if (kept.shape().size() != 5 || kept.shape()[0] != 2) call.fail("past " + kept.shape().text() + " does not fit");
    inputs[4] = select(kept, 0, 0), inputs[5] = select(kept, 0, 1);
    keys += kept.shape()[3];
  }
  if (call.has(mask)) inputs[3] = bias_of_mask(call, call.input(mask), joined.dtype(), batch, length, keys, a.filter);
  if (bias >= 0) inputs[3] = sum_of(call, inputs[3], optional(call, bias));
  const std::vector<Tensor> results = call.run(a.attention, inputs, 3);
  call.set(0, results[0]);
  if (!call.wants(1)) return;
  const Tensor both[] = {unsqueeze(results[1], 0), unsqueeze(results[2], 0)};
  call.set(1, concat(queue, both, 0));
}

void expect_rows(Call& call, const Tensor& x) {
  if (x.shape().size() != 3) call.fail("expected [batch, length, width], got " + x.shape().text());
}

// Inputs: x, weights, their bias, mask, past, what is added to scores.
void attention_op(Call& call) {
  const auto& a = call.attributes<AttentionAttributes>();
  expect_rows(call, call.input(0));
  attend(call, a, matmul(call.queue(), call.input(0), call.input(1), optional(call, 2), Activation::none, a.kept.get()),
         3, 4, 5);
}

// Inputs: x and weights as integers, a bias, the scales of both, mask, the zero points of both, past.
void q_attention(Call& call) {
  Queue& queue = call.queue();
  expect_rows(call, call.input(0));
  const Tensor product =
      call.run("MatMulInteger"_op, {call.input(0), call.input(1), optional(call, 6), optional(call, 7)})[0];
  const Tensor inputs[] = {product, call.input(3), call.input(4), call.input(2)};
  const Tensor joined = apply(queue, "y0 = x0 * x1 * x2 + x3;", inputs, {}, call.input(2).dtype(), DataType::float32);
  if (joined.shape().size() != 3) call.fail("scales do not fit");
  attend(call, call.attributes<AttentionAttributes>(), joined, 5, 8, -1);
}

// Inputs: queries, keys, values, biases of the three side by side, mask of keys, what is added to scores, past keys and
// values. Queries may hold all three, keys their values, next to each other for each head.
void multi_head(Call& call) {
  Queue& queue = call.queue();
  const auto& a = call.attributes<AttentionAttributes>();
  if (call.wants(3)) call.fail("scores as an output are not supported");
  std::vector<Tensor> inputs{call.input(0), optional(call, 1), optional(call, 2)};
  auto unpack = [&](const Tensor& packed, std::size_t first, std::int64_t parts) {
    const Shape s = packed.shape();
    if (s[3] != parts) call.fail("packed heads " + s.text() + " are not supported");
    for (std::int64_t i = 0; i < parts; i++)
      inputs[first + std::size_t(i)] = reshape(queue, select(packed, 3, i), {s[0], s[1], checked_multiply(s[2], s[4])});
  };
  if (const Tensor x = inputs[0]; x.shape().size() == 5) unpack(x, 0, 3);
  if (const Tensor x = inputs[1]; x.defined() && x.shape().size() == 5) unpack(x, 1, 2);
  expect_rows(call, inputs[0]);
  if (!inputs[1].defined() || !inputs[2].defined()) call.fail("keys and values are missing");
  if (call.has(3)) {
    std::int64_t start = 0;
    for (Tensor& x : inputs) {
      const std::int64_t width = x.shape().size() == 3 ? x.shape()[2] : 0;
      if (width) x = apply(queue, "y0 = x0 + x1;", {x, narrow(call.input(3), 0, start, width)});
      start += width;
    }
  }
  inputs.resize(6);
  for (int i : {6, 7}) inputs[std::size_t(i - 2)] = optional(call, i);
  const Shape &keys = inputs[1].shape(), &queries = inputs[0].shape();
  std::int64_t count = keys[keys.size() - 2];
  if (call.has(6) && inputs[4].shape().size() == 4) count += inputs[4].shape()[2];
  if (call.has(4))
    inputs[3] = bias_of_mask(call, call.input(4), inputs[0].dtype(), queries[0], queries[1], count, a.filter);
  inputs[3] = sum_of(call, inputs[3], optional(call, 5));
  const std::vector<Tensor> results = call.run(a.attention, inputs, 3);
  for (int i = 0; i < 3; i++) call.set(i, results[std::size_t(i)]);
}

struct RotaryAttributes {
  explicit RotaryAttributes(const AttributeReader& reader)
      : interleaved(reader.integer("interleaved", 0)), dims(reader.integer("rotary_embedding_dim", 0)),
        heads(heads_of(reader, "num_heads")) {
    expect_attribute(reader, "is_packed_batching", 0);
  }
  std::int64_t interleaved, dims, heads;
};

// Inputs: x, positions (of each token, or that of the first of every sequence), tables of cosines and sines.
void rotary_op(Call& call) {
  const auto& a = call.attributes<RotaryAttributes>();
  const Tensor& x = call.input(0);
  const Shape &s = x.shape(), &table = call.input(2).shape();
  if ((s.size() != 3 && s.size() != 4) || table.size() != 2) call.fail("expected heads and tables, got " + s.text());
  const std::int64_t batch = s[0], length = s.size() == 4 ? s[2] : s[1];
  std::int64_t heads = a.heads;
  if (s.size() == 3 && heads == 0) heads = table[1] > 0 ? s[2] / checked_multiply(2, table[1]) : 0;
  Tensor positions = call.input(1);
  if (positions.numel() == 1) {
    std::vector<std::int64_t> steps(host_elements(length, "a length"));
    for (std::size_t i = 0; i < steps.size(); i++) steps[i] = std::int64_t(i);
    positions =
        apply(call.queue(), "y0 = x0 + x1;", {Tensor::from_integers(steps), reshape(call.queue(), positions, {})});
  }
  const Inner op("RotaryEmbedding",
                 {{"interleaved", a.interleaved}, {"rotary_embedding_dim", a.dims}, {"num_heads", heads}});
  call.set(0, call.run(op, {x, call.input(2), call.input(3), expand(positions, {batch, length})})[0]);
}

struct GroupAttributes {
  explicit GroupAttributes(const AttributeReader& reader)
      : heads(heads_of(reader, "num_heads")), kv_heads(heads_of(reader, "kv_num_heads")),
        prompt(attention_of(heads, kv_heads, reader.integer("causal", 1), reader, limits(reader))),
        window(reader.integer("local_window_size", -1)), scale(reader.real("scale", 0)),
        softcap(reader.real("softcap", 0)), causal(reader.integer("causal", 1)),
        smooth(reader.integer("smooth_softmax", 0) > 0), rotate(reader.integer("do_rotary", 0)),
        queries(rotary(reader, heads)), keys(rotary(reader, kv_heads)) {
    for (const char* name : {"qk_output", "sliding_window_cache", "kv_cache_bit_width"})
      if (reader.integer(name, 0) > 0) throw ValidationError("attribute " + std::string(name) + " is not supported");
    if (heads < 1 || kv_heads < 1) throw ValidationError("attribute 'num_heads' or 'kv_num_heads' is missing");
  }
  std::int64_t heads, kv_heads;
  Inner prompt;
  std::int64_t window;
  double scale, softcap;
  bool causal, smooth, rotate;
  Inner queries, keys;

 private:
  static Attributes limits(const AttributeReader& reader) {
    const std::int64_t size = reader.integer("local_window_size", -1);
    return size > 0 ? Attributes{{"left_window_size", size - 1}} : Attributes{};
  }
  static Inner rotary(const AttributeReader& reader, std::int64_t heads) {
    return Inner("RotaryEmbedding", {{"interleaved", reader.integer("rotary_interleaved", 0)}, {"num_heads", heads}});
  }
};

// Keys or values so far with those of this call behind them: of sequence n, `before[n]` rows of the past, then all new
// ones; zeros fill up to `length` rows.
Tensor extended(Call& call, const Tensor& past, const Tensor& now, const std::vector<std::int64_t>& before,
                std::int64_t length) {
  Queue& queue = call.queue();
  std::vector<Tensor> sequences;
  const bool alike = std::ranges::all_of(before, [&](std::int64_t n) { return n == before[0]; });
  const std::int64_t batch = now.shape()[0], count = alike ? 1 : batch, rows = now.shape()[2];
  for (std::int64_t n = 0; n < count; n++) {
    auto part = [&](const Tensor& x) { return alike ? x : narrow(x, 0, n, 1); };
    std::vector<Tensor> parts;
    const std::int64_t old = before[std::size_t(n)];
    if (old > 0) parts.push_back(narrow(part(past), 2, 0, old));
    parts.push_back(part(now));
    Shape rest = parts.back().shape();
    rest[2] = length - old - rows;
    if (rest[2] > 0) parts.push_back(filled(queue, now.dtype(), rest, 0));
    sequences.push_back(concat(queue, parts, 2));
  }
  return alike ? sequences[0] : concat(queue, sequences, 0);
}

// The i-th of `rows` queries at place before + i: which of `keys` it sees.
Tensor seen(Queue& queue, std::int64_t before, std::int64_t rows, std::int64_t keys, std::int64_t window) {
  const Tensor places(queue, DataType::float32, {rows, 1}), others(queue, DataType::float32, {keys});
  sequence(queue, places.view(queue), before, 1), sequence(queue, others.view(queue), 0, 1);
  const Scalar size[] = {window > 0 ? window : before + rows};
  const Tensor inputs[] = {places, others};
  return apply(queue, "y0 = x1 <= x0 && x0 - x1 < w0;", inputs, size, DataType::boolean, DataType::float32);
}

// By the primitive, from heads of queries [batch, heads, rows, width], keys and values; all sequences have `before` keys
// of earlier calls. `sinks`: what each head's softmax adds to its denominator, as a score; undefined for nothing.
// Undefined where ONNX's operator serves better or alone.
Tensor attended(Call& call, const Tensor& q, Tensor k, Tensor v, std::int64_t before, const Tensor& sinks) {
  Queue& queue = call.queue();
  const auto& a = call.attributes<GroupAttributes>();
  const Shape& s = q.shape();
  const std::int64_t batch = s[0], heads = s[1], rows = s[2], width = s[3], value_width = v.shape()[3];
  std::int64_t keys = before + rows;
  const DataType type = q.dtype();
  if (call.has(10) || !a.causal || type == DataType::float64 || std::max(width, value_width) > 256 || q.numel() == 0)
    return {};
  const bool windowed = a.window > 0 && a.window < keys, masked = rows > 1 && (before > 0 || windowed);
  const AttentionSizes sizes{rows,   keys,    width, value_width,  double(batch * heads * rows) * double(keys),
                             masked, !masked, false, a.softcap > 0};
  if (rows > 1 && !sinks.defined() && decline_attention(queue.device(), type, sizes)) return {};
  const std::int64_t first = windowed && rows == 1 ? keys - a.window : 0;
  keys -= first;
  k = narrow(k, 2, first, keys), v = narrow(v, 2, first, keys);
  const Tensor out(queue, type, {batch, rows, heads, value_width}),
      sums(queue, DataType::float32, {batch, heads, rows});
  AttentionOptions options;
  options.scale = a.scale != 0 ? a.scale : 1 / std::sqrt(double(width));
  options.soft_cap = a.softcap, options.causal = rows > 1 && !masked;
  AttentionInputs inputs{q.view(queue), k.view(queue), v.view(queue), std::nullopt};
  Tensor mask;
  if (masked) {
    mask = expand(seen(queue, before, rows, keys, a.window), {batch, heads, rows, keys});
    inputs.bias = mask.view(queue);
  }
  attention_forward(queue, inputs, permute(out, {0, 2, 1, 3}).view(queue), sums.view(queue), options);
  Tensor y = out;
  if (sinks.defined()) {
    const Tensor parts[] = {out, reshape(queue, sinks, {sinks.numel(), 1}), unsqueeze(permute(sums, {0, 2, 1}), 3)};
    y = apply(queue, "y0 = x0 / (1 + exp(x1 - x2));", parts, {}, type, DataType::float32);
  }
  return reshape(queue, y, {batch, rows, heads * value_width});
}

// Inputs: queries, keys, values, past keys and values, the last place of each sequence, the longest sequence's length,
// tables of cosines and sines, positions, what is added to scores, each head's score of nothing. Queries may hold keys and
// values, too.
void group_query(Call& call) {
  Queue& queue = call.queue();
  const auto& a = call.attributes<GroupAttributes>();
  for (int i = 12; i < call.inputs(); i++)
    if (call.has(i)) call.fail("input " + std::to_string(i) + " is not supported");
  Tensor q = call.input(0), k = optional(call, 1), v = optional(call, 2);
  expect_rows(call, q);
  if (!k.defined()) {
    const std::int64_t size = q.shape()[2] / (a.heads + 2 * a.kv_heads);
    const Tensor all = q;
    q = narrow(all, 2, 0, size * a.heads), k = narrow(all, 2, size * a.heads, size * a.kv_heads);
    v = narrow(all, 2, size * (a.heads + a.kv_heads), size * a.kv_heads);
  }
  expect_rows(call, k), expect_rows(call, v);
  const std::int64_t batch = q.shape()[0], rows = q.shape()[1];
  const std::vector<std::int64_t> total = call.read_integers(6);
  // The place of a single sequence's last token is the length less one: the host need not wait to learn it.
  const bool told = batch == 1 && total.size() == 1 && call.input(5).numel() == 1;
  const std::vector<std::int64_t> last = told ? std::vector{total[0] - 1} : call.read_integers(5);
  if (total.size() != 1 || std::int64_t(last.size()) != batch) call.fail("lengths do not fit the batch");
  const std::int64_t room = call.has(3) && call.input(3).shape().size() == 4 ? call.input(3).shape()[2] : 0;
  const bool first = total[0] == rows;
  const std::int64_t length = std::max(room, checked_range(total[0], rows, std::int64_t(1) << 40, "a length"));
  std::vector<std::int64_t> before(last.size(), 0), valid, places;
  for (std::size_t n = 0; n < last.size(); n++) {
    valid.push_back(checked_add(last[n], 1));
    if (!first) before[n] = checked_range(checked_subtract(valid[n], rows), 0, room, "a sequence's length");
    for (std::int64_t i = 0; i < rows; i++) places.push_back(before[n] + i);
  }
  const bool alike = std::ranges::all_of(before, [&](std::int64_t n) { return n == before[0]; });
  if (a.rotate && alike && batch > 0 && !call.has(9)) {  // rows of the tables as they are
    auto table = [&](int i) {
      if (call.input(i).shape().size() != 2 || call.input(i).shape()[0] < before[0] + rows)
        call.fail("tables " + call.input(i).shape().text() + " do not fit the positions");
      return expand(unsqueeze(narrow(call.input(i), 0, before[0], rows), 0), {batch, rows, call.input(i).shape()[1]});
    };
    q = call.run(a.queries, {q, table(7), table(8)})[0], k = call.run(a.keys, {k, table(7), table(8)})[0];
  } else if (a.rotate) {
    const Tensor positions = call.has(9) ? cast(queue, call.input(9), DataType::int64)
                                         : Tensor::from_host(DataType::int64, {batch, rows}, places.data());
    q = call.run(a.queries, {q, call.input(7), call.input(8), positions})[0];
    k = call.run(a.keys, {k, call.input(7), call.input(8), positions})[0];
  }
  auto heads = [&](const Tensor& x, std::int64_t count) {
    const Shape& s = x.shape();
    if (s[2] % count) call.fail("heads do not fit " + s.text());
    return permute(reshape(queue, x, {s[0], s[1], count, s[2] / count}), {0, 2, 1, 3});
  };
  k = heads(k, a.kv_heads), v = heads(v, a.kv_heads);
  if (batch > 0) {
    k = extended(call, optional(call, 3), k, before, length), v = extended(call, optional(call, 4), v, before, length);
  }
  call.set(1, k), call.set(2, v);
  Tensor sinks = optional(call, 11);
  if (!sinks.defined() && a.smooth) sinks = filled(queue, DataType::float32, {1}, 0);
  if (sinks.defined() && sinks.numel() != 1 && sinks.numel() != a.heads) call.fail("head_sink does not fit the heads");
  if (alike && batch > 0)
    if (const Tensor y = attended(call, heads(q, a.heads), k, v, before[0], sinks); y.defined()) return call.set(0, y);
  if (sinks.defined()) call.fail("smooth_softmax and head_sink are not supported beside a bias or lengths that differ");
  Tensor ends;
  if (!first) ends = Tensor::from_host(DataType::int64, {batch}, valid.data());
  call.set(0, call.run(a.prompt, {q, k, v, optional(call, 10), Tensor(), Tensor(), ends})[0]);
}

}  // namespace

void contrib_attention(Registry& registry) {
  const char* attributes =
      "num_heads unidirectional scale mask_filter_value qkv_hidden_sizes do_rotary past_present_share_buffer "
      "rotary_embedding_dim";
  registry.add<AttentionAttributes>("Attention", attention_op, attributes, contrib_domain);
  registry.add<AttentionAttributes>("QAttention", q_attention, attributes, contrib_domain);
  registry.add<AttentionAttributes>("MultiHeadAttention", multi_head,
                                    "num_heads unidirectional scale mask_filter_value", contrib_domain);
  registry.add<RotaryAttributes>("RotaryEmbedding", rotary_op,
                                 "interleaved num_heads rotary_embedding_dim scale is_packed_batching", contrib_domain);
  registry.add<GroupAttributes>(
      "GroupQueryAttention", group_query,
      "num_heads kv_num_heads causal scale softcap local_window_size do_rotary rotary_interleaved smooth_softmax "
      "qk_output sliding_window_cache kv_cache_bit_width k_quant_type=NONE v_quant_type=NONE",
      contrib_domain);
}

}  // namespace dlprim::operators
