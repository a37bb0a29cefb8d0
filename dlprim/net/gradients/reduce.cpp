// SPDX-License-Identifier: MIT
#include <algorithm>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// The input's gradient from the output's x0 and, as `reads` says, the input x1 and the output x2; w0 is the number of
// elements that became one.
struct Row {
  const char *code, *reads;
};

const std::map<std::string, Row> rows = {
    {"ReduceSum", {"x0", ""}},
    {"ReduceMean", {"x0 / w0", ""}},
    {"ReduceL1", {"x0 * sign_of(x1)", "x0"}},
    {"ReduceL2", {"x2 == 0 ? 0 : x0 * x1 / x2", "x0 y0"}},
    {"ReduceSumSquare", {"2 * x0 * x1", "x0"}},
    {"ReduceLogSum", {"x0 * exp(-x2)", "x0 y0"}},
    {"ReduceLogSumExp", {"x0 * exp(x1 - x2)", "x0 y0"}},
};

struct ReduceAttributes {
  explicit ReduceAttributes(const AttributeReader& reader)
      : row(rows.contains(reader.node().type) ? &rows.at(reader.node().type) : nullptr), axes(reader.integers("axes")),
        noop_with_empty_axes(reader.integer("noop_with_empty_axes", 0)), p(reader.integer("p", 2)) {}
  const Row* row;
  std::vector<std::int64_t> axes;
  std::int64_t noop_with_empty_axes, p;
};

const ReduceAttributes& attributes_of(const Call& call) { return call.attributes<ReduceAttributes>(); }

// The output's shape with 1 in the place of what was reduced.
Shape kept_shape(GradientCall& call) {
  Shape shape = call.shape(0);
  std::vector<std::int64_t> axes = attributes_of(call).axes;
  if (call.has(1)) axes = call.read_integers(1);
  if (axes.empty() && !attributes_of(call).noop_with_empty_axes) std::fill(shape.begin(), shape.end(), 1);
  for (std::int64_t axis : axes) shape[shape.axis(axis)] = 1;
  return shape;
}

void run_row(GradientCall& call) {
  Queue& queue = call.queue();
  const Row& row = *attributes_of(call).row;
  const Shape kept = kept_shape(call);
  Tensor dy = reshape(queue, call.gradient(), kept);
  const double count = double(call.shape(0).total_size()) / double(std::max<std::int64_t>(1, kept.total_size()));
  const std::string code = "y0 = " + std::string(row.code) + ";";
  if (!*row.reads)
    return call.add(0, expand(row.code == std::string("x0") ? dy : apply(queue, code, {dy}, {count}), call.shape(0)));
  std::vector<Tensor> inputs{dy, call.input(0)};
  if (std::string(row.reads) == "x0 y0") inputs.push_back(reshape(queue, call.output(0), kept));
  const Scalar scalars[] = {count};
  call.add(0, apply(queue, code, inputs, scalars, dy.dtype()));
}

// Equal extremes share the gradient.
void share_among_equal(GradientCall& call, const Shape& kept) {
  Queue& queue = call.queue();
  const Tensor dy = reshape(queue, call.gradient(), kept), y = reshape(queue, call.output(0), kept);
  std::vector<int> dims;
  for (int d = 0; d < kept.size(); d++)
    if (kept[d] != call.shape(0)[d]) dims.push_back(d);
  const Tensor hit = apply(queue, "y0 = x0 == x1;", {call.input(0), y});
  const Tensor hits = dims.empty() ? hit : reduce(queue, ReduceId::sum, hit, dims);
  call.add(0, apply(queue, "y0 = x0 * x1 / x2;", {dy, hit, hits}));
}

// The product of the others: where one element is 0, only it has a gradient; where two are, none has.
void product(GradientCall& call) {
  Queue& queue = call.queue();
  const Shape kept = kept_shape(call);
  const Tensor &x = call.input(0), dy = reshape(queue, call.gradient(), kept);
  std::vector<int> dims;
  for (int d = 0; d < kept.size(); d++)
    if (kept[d] != x.shape()[d]) dims.push_back(d);
  Tensor rest = apply(queue, "y0 = x0 == 0 ? 1 : x0;", {x}), zeros = apply(queue, "y0 = x0 == 0;", {x});
  if (!dims.empty())
    rest = reduce(queue, ReduceId::prod, rest, dims), zeros = reduce(queue, ReduceId::sum, zeros, dims);
  call.add(
      0, apply(queue, "y0 = x1 == 0 ? (x3 == 1 ? x0 * x2 : 0) : (x3 == 0 ? x0 * x2 / x1 : 0);", {dy, x, rest, zeros}));
}

void extreme(GradientCall& call) { share_among_equal(call, kept_shape(call)); }

void global_max(GradientCall& call) {
  Shape kept = call.shape(0);
  for (int d = 2; d < kept.size(); d++) kept[d] = 1;
  share_among_equal(call, kept);
}

// y = (sum of |x|^p)^(1/p)
void global_lp(GradientCall& call) {
  const char* code = "y0 = x2 == 0 ? 0 : x0 * sign_of(x1) * pow(fabs(x1) / x2, w0 - 1);";
  call.add(
      0, apply(call.queue(), code, {call.gradient(), call.input(0), call.output(0)}, {double(attributes_of(call).p)}));
}

}  // namespace

void reduce(GradientRegistry& registry) {
  for (const auto& [type, row] : rows)
    registry.add<ReduceAttributes>(type.c_str(), run_row, (std::string(row.reads) + " x1").c_str());
  registry.add<ReduceAttributes>("ReduceProd", product, "x0 x1");
  registry.add<ReduceAttributes>("ReduceMax", extreme, "x0 x1 y0");
  registry.add<ReduceAttributes>("ReduceMin", extreme, "x0 x1 y0");
  registry.add<ReduceAttributes>("GlobalLpPool", global_lp, "x0 y0");
  registry.add<ReduceAttributes>("GlobalMaxPool", global_max, "x0 y0");
}

}  // namespace dlprim::gradients
