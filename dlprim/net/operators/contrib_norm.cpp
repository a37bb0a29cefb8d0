// SPDX-License-Identifier: MIT
// Normalization with what stands before it, of ONNX Runtime's domain.
#include "../array.hpp"
#include "../checked.hpp"
#include "../contrib.hpp"

namespace dlprim::operators {

namespace {

struct RowsNorm {
  explicit RowsNorm(const AttributeReader& reader)
      : norm(reader.node().type.find("Simplified") == std::string::npos ? "LayerNormalization" : "RMSNormalization",
             {{"epsilon", reader.real("epsilon", 1e-12)}}) {}
  Inner norm;
};

struct SkipAttributes : RowsNorm {
  explicit SkipAttributes(const AttributeReader& reader) : RowsNorm(reader) {
    const auto& outputs = reader.node().outputs;
    for (std::size_t i = 1; i < outputs.size() && i < 3; i++)
      if (outputs[i] >= 0) throw ValidationError("mean and deviation as outputs are not supported");
  }
};

// Inputs of LayerNormalization: input, skip, gamma, beta, bias; of the simplified form without beta.
void skip_norm(Call& call) {
  Queue& queue = call.queue();
  const bool simplified = call.type() == "SkipSimplifiedLayerNormalization";
  const int bias = simplified ? 3 : 4;
  Tensor sum = apply(queue, "y0 = x0 + x1;", {call.input(0), call.input(1)});
  if (sum.shape() != call.input(0).shape()) call.fail("skip does not fit " + call.input(0).shape().text());
  if (call.has(bias)) sum = apply(queue, "y0 = x0 + x1;", {sum, call.input(bias)});
  std::vector<Tensor> inputs{sum, call.input(2)};
  if (!simplified && call.has(3)) inputs.push_back(call.input(3));
  call.set(0, call.run(call.attributes<SkipAttributes>().norm, inputs)[0]);
  call.set(3, sum);
}

// Inputs: token ids, segment ids, tables of words, positions and segments, gamma, beta, mask, and `places`: position ids.
// `rows` reads of a table, `whole` gamma and beta.
void embed(Call& call, int places, const std::function<Tensor(int, const Tensor&)>& rows,
           const std::function<Tensor(int)>& whole) {
  Queue& queue = call.queue();
  const Shape& ids = call.input(0).shape();
  if (ids.size() != 2) call.fail("expected ids [batch, length], got " + ids.text());
  Tensor positions = call.has(places) ? call.input(places) : Tensor();
  if (!positions.defined()) {
    std::vector<std::int64_t> steps(host_elements(ids[1], "a length"));
    for (std::size_t i = 0; i < steps.size(); i++) steps[i] = std::int64_t(i);
    positions = Tensor::from_integers(steps);
  }
  Tensor sum = apply(queue, "y0 = x0 + x1;", {rows(2, call.input(0)), rows(3, positions)});
  if (call.has(1) && call.has(4)) sum = apply(queue, "y0 = x0 + x1;", {sum, rows(4, call.input(1))});
  call.set(0, call.run(call.attributes<RowsNorm>().norm, {sum, whole(5), whole(6)})[0]);
  if (call.wants(1)) {
    if (!call.has(7)) call.set(1, filled(queue, DataType::int32, {ids[0]}, 0));
    else call.set(1, reshape(queue, reduce(queue, ReduceId::sum, call.input(7), {1}, DataType::int32), {ids[0]}));
  }
  call.set(2, sum);
}

void embed_norm(Call& call) {
  embed(
      call, 8, [&](int table, const Tensor& index) { return call.run("Gather"_op, {call.input(table), index})[0]; },
      [&](int i) { return call.input(i); });
}

// Scales of tables, gamma and beta are inputs 8 to 12, zero points the five behind them.
void q_embed_norm(Call& call) {
  auto real = [&](int i, const Tensor& x) {
    const Tensor parts[] = {x, reshape(call.queue(), call.input(i + 6), {}),
                            reshape(call.queue(), call.input(i + 11), {})};
    const DataType type = parts[1].dtype();
    return apply(call.queue(), "y0 = (x0 - x2) * x1;", parts, {}, type, type);
  };
  embed(
      call, call.inputs(),
      [&](int table, const Tensor& index) { return real(table, call.run("Gather"_op, {call.input(table), index})[0]); },
      [&](int i) { return real(i, call.input(i)); });
}

struct GroupNormAttributes {
  explicit GroupNormAttributes(const AttributeReader& reader)
      : norm("GroupNormalization",
             {{"epsilon", reader.real("epsilon", 1e-5)}, {"num_groups", reader.integer("groups", 1)}}),
        last(reader.integer("channels_last", 1)), swish(reader.integer("activation", 0)) {}
  Inner norm;
  bool last, swish;
};

// Inputs: x, gamma, beta, and of the form with a sum: skip and a bias, which are added to x first.
void group_norm(Call& call) {
  Queue& queue = call.queue();
  const auto& a = call.attributes<GroupNormAttributes>();
  Tensor x = call.input(0);
  if (call.has(3)) {
    Tensor skip = call.input(3);
    if (skip.shape().size() == 2 && x.shape().size() == 4)  // one for each channel of an image
      skip = a.last ? unsqueeze(unsqueeze(skip, 1), 1) : unsqueeze(unsqueeze(skip, 2), 2);
    x = apply(queue, "y0 = x0 + x1;", {x, skip});
  }
  if (call.has(4)) {
    Tensor bias = call.input(4);
    for (int d = 2; !a.last && d < x.shape().size(); d++) bias = unsqueeze(bias, bias.shape().size());
    x = apply(queue, "y0 = x0 + x1;", {x, bias});
  }
  if (x.shape() != call.input(0).shape()) call.fail("skip and bias do not fit " + call.input(0).shape().text());
  call.set(1, x);
  const Tensor gamma = cast(queue, call.input(1), x.dtype()), beta = cast(queue, call.input(2), x.dtype());
  Tensor y = call.run(a.norm, {a.last ? channels_second(x) : x, gamma, beta})[0];
  if (a.swish) y = call.run("Swish"_op, {y})[0];
  call.set(0, a.last ? channels_behind(y) : y);
}

}  // namespace

void contrib_norm(Registry& registry) {
  registry.add<SkipAttributes>("SkipLayerNormalization", skip_norm, "epsilon", contrib_domain);
  registry.add<SkipAttributes>("SkipSimplifiedLayerNormalization", skip_norm, "epsilon", contrib_domain);
  registry.add<RowsNorm>("EmbedLayerNormalization", embed_norm, "epsilon mask_index_type", contrib_domain);
  registry.add<RowsNorm>("QEmbedLayerNormalization", q_embed_norm, "epsilon mask_index_type", contrib_domain);
  registry.add<GroupNormAttributes>("GroupNorm", group_norm, "epsilon groups activation channels_last", contrib_domain);
  registry.add<GroupNormAttributes>("SkipGroupNorm", group_norm, "epsilon groups activation channels_last",
                                    contrib_domain);
}

}  // namespace dlprim::operators
