// SPDX-License-Identifier: MIT
#include <dlprim/primitives/attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../tuning/store.hpp"
#include "floats.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;

struct Case {
  std::int64_t batch = 1, heads = 1, key_heads = 1, queries, keys, width, value_width = 0;
  DataType type = DataType::float32;
  bool causal = false;
  enum Bias { none, mask, added, islands, row, part } bias = none;  // masks: islands leave most out, part the ends
  bool heads_last = false;  // (batch, position, head, width) in memory
  double dropout = 0, scale = 0.3, soft_cap = 0;
};

// A tensor of random elements and its values.
struct Operand {
  Operand(DataType type, std::array<std::int64_t, 4> s, bool heads_last, unsigned seed)
      : memory(type, heads_last ? std::vector{s[0], s[2], s[1], s[3]} : std::vector{s[0], s[1], s[2], s[3]}),
        view(memory.view()) {
    memory.write(random_values(memory.numel(), -1.5, 1.5, seed));
    if (heads_last) std::swap(view.sizes[1], view.sizes[2]), std::swap(view.strides[1], view.strides[2]);
    values = memory.read();
  }
  std::size_t at(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t d) const {
    return std::size_t(b * view.strides[0] + h * view.strides[1] + r * view.strides[2] + d * view.strides[3]);
  }
  DeviceTensor memory;
  TensorView view;
  std::vector<double> values;
};

struct Problem {
  explicit Problem(const Case& c)
      : c(c), dv(c.value_width ? c.value_width : c.width),
        q(c.type, {c.batch, c.heads, c.queries, c.width}, c.heads_last, 1),
        k(c.type, {c.batch, c.key_heads, c.keys, c.width}, c.heads_last, 2),
        v(c.type, {c.batch, c.key_heads, c.keys, dv}, c.heads_last, 3),
        g(c.type, {c.batch, c.heads, c.queries, dv}, c.heads_last, 4),
        out(c.type, {c.batch, c.heads, c.queries, dv}, c.heads_last, 5),
        gq(c.type, {c.batch, c.heads, c.queries, c.width}, c.heads_last, 6),
        gk(c.type, {c.batch, c.key_heads, c.keys, c.width}, c.heads_last, 7),
        gv(c.type, {c.batch, c.key_heads, c.keys, dv}, c.heads_last, 8),
        bias(masked() ? DataType::boolean : c.type,
             {1, c.bias == Case::part ? 1 : c.heads, c.bias >= Case::row ? 1 : c.queries, c.keys}, false, 9),
        logsumexp(DataType::float32, {c.batch, c.heads, c.queries}) {
    if (c.bias == Case::islands) {
      for (std::size_t i = 0; i < bias.values.size(); i++) {
        const auto at = std::int64_t(i), key = at % c.keys, query = at / c.keys % c.queries,
                   head = at / c.keys / c.queries;
        const bool own = query / 96 == key / 96 || key + 200 < query || (head == 1 && key == 600), hole = i % 11 == 3;
        const bool unseen = (256 <= key && key < 512) || (130 <= query && query < 260);
        bias.values[i] = own && !unseen && !(hole && key >= 64);
      }
      bias.memory.write(bias.values);
    }
    if (c.bias == Case::mask) {
      for (std::size_t i = 0; i < bias.values.size(); i++) bias.values[i] = i % 7 != 3 && i % 5 != 2;
      if (c.queries > 1)  // a query without keys
        for (std::int64_t i = 0; i < c.keys; i++) bias.values[std::size_t(c.keys + i)] = 0;
      bias.memory.write(bias.values);
    }
    if (c.bias == Case::part) {
      for (std::size_t i = 0; i < bias.values.size(); i++) bias.values[i] = 37 <= i && i < 200 && i % 5 != 2;
      bias.memory.write(bias.values);
      bias.view.sizes[1] = c.heads, bias.view.strides[1] = 0;
    }
    bias.view.sizes[0] = c.batch, bias.view.strides[0] = 0;
    if (c.bias >= Case::row) bias.view.sizes[2] = c.queries, bias.view.strides[2] = 0;
    options.scale = c.scale, options.causal = c.causal, options.dropout = c.dropout;
    options.soft_cap = c.soft_cap;
    options.random = {1234567890123, 77};
  }
  AttentionInputs inputs() const {
    const bool in_memory = c.bias != Case::none && !function;
    return {q.view, k.view, v.view, in_memory ? std::optional(bias.view) : std::nullopt, {}, function, tiles};
  }
  bool masked() const { return c.bias == Case::mask || c.bias == Case::islands || c.bias == Case::part; }
  void forward() { attention_forward(queue(), inputs(), out.view, logsumexp, options); }
  void backward() {
    attention_backward(queue(), inputs(), g.view, out.view, logsumexp, gq.view, gk.view, gv.view, options);
  }
  Case c;
  std::int64_t dv;
  Operand q, k, v, g, out, gq, gk, gv, bias;
  DeviceTensor logsumexp;
  std::optional<AttentionFunction> function;
  std::optional<AttentionTiles> tiles;
  AttentionOptions options;
};

// What every tensor should hold, from sums in double. `factors`: of probabilities (dropout), or empty.
struct Expected {
  Expected(const Problem& x, const std::vector<double>& factors) {
    const Case& c = x.c;
    out.resize(x.out.values.size()), gq.resize(x.gq.values.size());
    gk.resize(x.gk.values.size()), gv.resize(x.gv.values.size());
    for (std::int64_t b = 0; b < c.batch; b++)
      for (std::int64_t h = 0; h < c.heads; h++)
        for (std::int64_t i = 0; i < c.queries; i++) row(x, b, h, i, factors);
  }
  void row(const Problem& x, std::int64_t b, std::int64_t h, std::int64_t i, const std::vector<double>& factors) {
    const Case& c = x.c;
    const std::int64_t hk = h / (c.heads / c.key_heads);
    std::vector<double> p(std::size_t(c.keys)), dp(p.size());
    double sum = 0, delta = 0;
    std::vector<double> bends(p.size(), 1);
    for (std::int64_t j = 0; j < c.keys; j++) {
      double s = 0;
      for (std::int64_t d = 0; d < c.width; d++) s += x.q.values[x.q.at(b, h, i, d)] * x.k.values[x.k.at(b, hk, j, d)];
      s *= c.scale;
      if (c.soft_cap > 0) {
        const double bent = std::tanh(s / c.soft_cap);
        s = c.soft_cap * bent, bends[std::size_t(j)] = 1 - bent * bent;
      }
      const double bias = c.bias == Case::none ? 0 : x.bias.values[x.bias.at(b, h, i, j)];
      const bool masked = (x.masked() && bias == 0) || (c.causal && j > i);
      sum += p[std::size_t(j)] = masked ? 0 : std::exp(s + (x.masked() ? 0 : bias));
    }
    for (std::size_t j = 0; j < p.size(); j++) {
      p[j] = sum == 0 ? 0 : p[j] / sum;
      const auto row_at = std::size_t(((b * c.heads + h) * c.queries + i) * c.keys);
      const double factor = factors.empty() ? 1 : factors[row_at + j];
      const auto key = std::int64_t(j);
      for (std::int64_t d = 0; d < x.dv; d++) {
        const double value = x.v.values[x.v.at(b, hk, key, d)], grad = x.g.values[x.g.at(b, h, i, d)];
        out[x.out.at(b, h, i, d)] += factor * p[j] * value;
        gv[x.gv.at(b, hk, key, d)] += factor * p[j] * grad;
        dp[j] += factor * value * grad;
      }
      delta += p[j] * dp[j];
    }
    for (std::size_t j = 0; j < p.size(); j++)
      for (std::int64_t d = 0; d < c.width; d++) {
        const auto key = std::int64_t(j);
        const double ds = c.scale * bends[j] * p[j] * (dp[j] - delta);
        gq[x.gq.at(b, h, i, d)] += ds * x.k.values[x.k.at(b, hk, key, d)];
        gk[x.gk.at(b, hk, key, d)] += ds * x.q.values[x.q.at(b, h, i, d)];
      }
  }
  std::vector<double> out, gq, gk, gv;
};

void expect_expected(Problem& x, const std::vector<double>& factors = {}) {
  const Case& c = x.c;
  SCOPED_TRACE(::testing::Message() << name(c.type) << " " << c.batch << "x" << c.heads << "/" << c.key_heads << " "
                                    << c.queries << "x" << c.keys << " width " << c.width << "/" << x.dv
                                    << (c.causal ? " causal" : "") << " bias " << int(c.bias));
  const Expected expected(x, factors);
  const double allowed = 2 * tolerance(c.type);
  x.forward();
  expect_close(x.out.memory.read(), expected.out, allowed);
  if (c.soft_cap > 0 && !x.function) return;  // forward only
  x.backward();
  expect_close(x.gq.memory.read(), expected.gq, 2 * allowed);
  expect_close(x.gk.memory.read(), expected.gk, 2 * allowed);
  expect_close(x.gv.memory.read(), expected.gv, 2 * allowed);
}

class Attention : public ::testing::TestWithParam<const char*> {
 protected:
  Attention() : forced_("DLPRIM_ATTENTION", GetParam()) {}
  bool mma() const { return std::strchr("tpb", GetParam()[0]) == nullptr; }  // not tiled, products and blocks
  // Emulated kernels take seconds to compile, too: fewer variants of them.
  bool slow() const { return builds_slowly() || (mma() && device().info().nv_compute_capability < 80); }
  std::vector<DataType> types() const {
    if (mma()) return {DataType::float16, DataType::bfloat16};
    return {DataType::float32, DataType::float16, DataType::bfloat16};
  }
  void check(Case c) {
    if (mma() && c.type == DataType::float32) c.type = DataType::float16;
    Problem problem(c);
    expect_expected(problem);
  }
  Variable forced_;
};

TEST_P(Attention, SmallDtypes) {
  for (DataType type : types()) check({.queries = 5, .keys = 7, .width = 8, .type = type});
}

TEST_P(Attention, LengthsAtTileEdges) {
  for (std::int64_t n : {1, 15, 16, 17, 63, 64, 65, 127})
    check({.heads = 2, .key_heads = 2, .queries = n, .keys = 128 - n, .width = 16});
  check({.queries = 197, .keys = 197, .width = slow() ? 16 : 64});
}

TEST_P(Attention, Widths) {
  for (std::int64_t width : {1, 20, 128}) check({.queries = 17, .keys = 37, .width = width});
  if (!slow())
    for (std::int64_t width : {32, 64, 72, 80, 96}) check({.queries = 17, .keys = 37, .width = width});
  check({.queries = 20, .keys = 21, .width = 64, .value_width = 17});
  // Slices of the wider rows are no multiple of 8 rows of the narrower ones' panels.
  check({.queries = 20, .keys = 21, .width = 112, .value_width = 64});
  if (!slow()) check({.queries = 70, .keys = 150, .width = 64, .value_width = 80, .causal = true});
}

TEST_P(Attention, CausalMasksAndBiases) {
  for (bool causal : {false, true})
    for (auto bias : {Case::none, Case::mask, Case::added, Case::row})
      if (!slow() || bias == Case::none || causal == (bias == Case::mask))
        check({.heads = 2, .key_heads = 2, .queries = 70, .keys = 67, .width = 16, .causal = causal, .bias = bias});
  check({.queries = 40, .keys = 90, .width = 16, .causal = true});
  check({.queries = 90, .keys = 40, .width = 16, .causal = true});
}

// Several blocks for a work-group, more than one slice and stage, and neighbours of a bias in one access.
TEST_P(Attention, BlocksAndSlices) {
  check({.heads = 2, .key_heads = 1, .queries = 330, .keys = 170, .width = 64, .type = DataType::bfloat16});
  check({.queries = 200, .keys = 202, .width = 32, .type = DataType::float16, .causal = true, .bias = Case::added});
  if (!slow())
    for (std::int64_t width : {64, 96, 128})
      check({.heads = 4, .key_heads = 2, .queries = 390, .keys = 400, .width = width, .causal = true});
}

TEST_P(Attention, SharedHeadsStridesAndScales) {
  check({.batch = 2, .heads = 6, .key_heads = 2, .queries = 19, .keys = 35, .width = 16});
  check({.batch = 2, .heads = 4, .queries = 35, .keys = 35, .width = 24, .causal = true, .heads_last = true});
  check({.batch = 2, .heads = 3, .key_heads = 3, .queries = 20, .keys = 17, .width = 10, .heads_last = true});
  for (double scale : {-0.5, 0.0}) check({.queries = 20, .keys = 30, .width = 16, .scale = scale});
}

TEST_P(Attention, Empty) {
  check({.batch = 0, .queries = 4, .keys = 4, .width = 8});
  check({.queries = 0, .keys = 4, .width = 8});
  check({.queries = 4, .keys = 0, .width = 8});
}

// Masks so large that what they leave out is passed over: keys that no query sees are not read going forward.
TEST_P(Attention, LeavesOutMaskedBlocks) {
  const bool backward = std::strcmp(GetParam(), "wgmma_backward") == 0;
  if (!backward || !slow()) check({.queries = 520, .keys = 522, .width = 16, .bias = Case::islands});
  if (backward || !slow())  // that forms sums in any order of so many keys only
    check({.heads = 2, .key_heads = 1, .queries = 250, .keys = 1050, .width = 16, .bias = Case::islands});
  if (backward || std::strcmp(GetParam(), "products") == 0) return;  // these go back only
  Problem x({.queries = 520, .keys = 522, .width = 16, .type = DataType::float16, .bias = Case::islands});
  const std::vector<double> expected = Expected(x, {}).out;
  for (Operand* operand : {&x.k, &x.v}) {
    for (std::int64_t key = 384; key < 448; key++) operand->values[operand->at(0, 0, key, 3)] = NAN;
    operand->memory.write(operand->values);
  }
  x.forward();
  expect_close(x.out.memory.read(), expected, 2 * tolerance(DataType::float16));
}

// A bias that kernels compute in place of the same one in memory, with and without the blocks that it leaves out.
TEST_P(Attention, ComputedBiases) {
  if (std::strcmp(GetParam(), "products") == 0) GTEST_SKIP() << "without functions";
  Case c{.batch = 2, .heads = 2, .key_heads = 1, .queries = 300, .keys = 1030, .width = 16, .bias = Case::added};
  const bool cpu = device().info().cpu;
  if (cpu) c.queries = 260, c.batch = c.heads = 1;
  if (mma()) c.type = DataType::float16;
  for (const bool tiled : {false, true}) {
    if (!tiled && cpu) continue;
    Problem x(c);
    DeviceTensor slopes(c.type, {2}), states(DataType::uint8, {1, 1, 3, 11});
    slopes.write({0.25, -0.5});
    std::vector<double> seen(33);
    for (std::int64_t i = 0; i < std::int64_t(x.bias.values.size()); i++) {
      const std::int64_t key = i % c.keys, query = i / c.keys % c.queries, head = i / c.keys / c.queries;
      const bool part = key / 200 == query / 60 && query != 70;
      x.bias.values[std::size_t(i)] =
          part ? (head ? -0.5 : 0.25) * double((query + key) % 16) : -std::numeric_limits<double>::infinity();
      if (part) seen[std::size_t(query / 128 * 11 + key / 100)] = 1;
    }
    states.write(seen);
    x.bias.memory.write(x.bias.values);
    x.function = AttentionFunction{"const float slope = DECODE(" + std::string(tag(c.type)) +
                                       ", bias.x0[PLACE_IN(int, head - 2, 2)]); "
                                       "const int part = key / 200 == query / 60 && query != 70; "
                                       "return part ? slope * ((query + key) % 16) : -INFINITY;",
                                   {slopes.view()},
                                   false};
    if (tiled) x.tiles = AttentionTiles{states.view(), 128, 100};
    expect_expected(x);
  }
}

// A function that caps scores, beside sums that do the same.
TEST_P(Attention, FunctionsOfScores) {
  if (std::strcmp(GetParam(), "products") == 0) GTEST_SKIP() << "without functions";
  Case c{.heads = 2, .key_heads = 1, .queries = 70, .keys = 90, .width = 16, .bias = Case::mask, .soft_cap = 1.5};
  if (mma()) c.type = DataType::float16;
  Problem x(c);
  x.options.soft_cap = 0;
  DeviceTensor mask(DataType::uint8, {2, 70, 90});
  x.function = AttentionFunction{
      "const float y = 1.5f * tanh(score / 1.5f); return bias.x0[(head * 70 + query) * 90 + key] ? y : -INFINITY;",
      {mask.view()},
      false,
      true,
      "const float y = tanh(score / 1.5f); return bias.x0[(head * 70 + query) * 90 + key] ? 1 - y * y : INFINITY;"};
  mask.write(x.bias.values);
  expect_expected(x);
}

TEST(AttentionFunctions, RefusesWhatDoesNotFit) {
  Problem x({.queries = 20, .keys = 30, .width = 16, .bias = Case::added});
  const AttentionFunction function{"return 0.0f;", {}, false};
  const DeviceTensor states(DataType::uint8, {1, 1, 1, 1}), wide(DataType::float32, {1, 1, 1, 1});
  AttentionInputs both = x.inputs();
  both.function = function;
  const auto run = [&](const AttentionInputs& inputs) {
    attention_forward(queue(), inputs, x.out.view, x.logsumexp, x.options);
  };
  EXPECT_THROW(run(both), Error);
  AttentionInputs inputs = x.inputs();
  inputs.bias.reset(), inputs.function = function;
  for (const AttentionTiles& tiles : {AttentionTiles{states.view(), 16, 64},
                                      {states.view(), 64, 16},
                                      {states.view(), 0, 64},
                                      {wide.view(), 64, 64}}) {
    inputs.tiles = tiles;
    EXPECT_THROW(run(inputs), Error);
  }
  inputs.tiles = AttentionTiles{states.view(), 20, 30};
  run(inputs);
  inputs.function.reset();
  EXPECT_THROW(run(inputs), Error);
}

// Scores far above the cap, with a mask that comes after it.
TEST_P(Attention, SoftCaps) {
  check({.heads = 2, .queries = 20, .keys = 37, .width = 16, .causal = true, .scale = 2, .soft_cap = 1.5});
  check({.queries = 20, .keys = 30, .width = 24, .bias = Case::mask, .scale = 2, .soft_cap = 1.5});
}

// Values of 1 on the diagonal show which probabilities are kept.
TEST_P(Attention, DropsTheSameForwardAndBackward) {
  for (DataType type : types()) {
    if (slow() && type == types().back()) continue;
    const Case c{.batch = 2,
                 .heads = 2,
                 .key_heads = 2,
                 .queries = 50,
                 .keys = 45,
                 .width = 48,
                 .type = type,
                 .dropout = 0.4,
                 .scale = 0.01};
    Problem shown(c);
    std::fill(shown.v.values.begin(), shown.v.values.end(), 0);
    for (std::int64_t h = 0; h < 4; h++)
      for (std::int64_t j = 0; j < c.keys; j++) shown.v.values[shown.v.at(h / 2, h % 2, j, j)] = 1;
    shown.v.memory.write(shown.v.values);
    shown.forward();
    const std::vector<double> seen = shown.out.memory.read();
    std::vector<double> factors;
    double kept = 0;
    for (std::int64_t r = 0; r < 4 * c.queries; r++)
      for (std::int64_t j = 0; j < c.keys; j++) {
        factors.push_back(seen[std::size_t(r * c.width + j)] != 0 ? 1 / 0.6 : 0);
        kept += factors.back() != 0;
      }
    EXPECT_NEAR(kept / double(factors.size()), 0.6, 0.03);
    Problem problem(c);
    expect_expected(problem, factors);
  }
}

TEST_P(Attention, RefusesWhatItCannotDo) {
  Problem x({.heads = 3, .key_heads = 3, .queries = 4, .keys = 5, .width = 8, .type = DataType::float16});
  AttentionInputs transposed = x.inputs();
  std::swap(transposed.k.sizes[1], transposed.k.sizes[2]);
  EXPECT_THROW(attention_forward(queue(), transposed, x.out.view, x.logsumexp, {}), ValidationError);
  EXPECT_THROW(attention_forward(queue(), x.inputs(), x.out.view, x.logsumexp, {.dropout = 1}), ValidationError);
  EXPECT_THROW(attention_forward(queue(), x.inputs(), x.out.view, x.out.view, {}), ValidationError);
  x.options.soft_cap = -1;
  EXPECT_THROW(x.forward(), ValidationError);
  x.options.soft_cap = 1, x.forward();
  EXPECT_THROW(x.backward(), ValidationError);
}

// The keys of few queries are shared out: rows in blocks of 16, parts that end within a slice, a bias for each head.
TEST(AttentionSplit, FewQueries) {
  const Variable forced("DLPRIM_ATTENTION", "split");
  using C = Case;
  int at = 0;
  for (Case c :
       {C{.batch = 2, .heads = 8, .key_heads = 2, .queries = 1, .keys = 300, .width = 128, .bias = C::part},
        C{.batch = 2, .heads = 8, .key_heads = 2, .queries = 1, .keys = 300, .width = 128},
        C{.heads = 6, .key_heads = 2, .queries = 5, .keys = 129, .width = 20, .value_width = 40, .bias = C::added},
        C{.batch = 2, .heads = 2, .key_heads = 2, .queries = 16, .keys = 65, .width = 15, .bias = C::mask},
        C{.heads = 4, .queries = 2, .keys = 80, .width = 64, .scale = 2, .soft_cap = 1.5},
        C{.heads = 4, .queries = 4, .keys = 64, .width = 64, .heads_last = true, .scale = -0.5},
        C{.heads = 8, .queries = 5, .keys = 70, .width = 256},
        C{.queries = 37, .keys = 65, .width = 15, .bias = C::mask},
        C{.heads = 2, .key_heads = 2, .queries = 3, .keys = 1, .width = 16}, C{.queries = 2, .keys = 0, .width = 16}}) {
    if (builds_slowly() && at > 1) break;
    c.type = at++ % 2 ? DataType::float16 : DataType::bfloat16;
    Problem problem(c);
    expect_expected(problem);
  }
}

// CPUs pass over the keys for each query alone: slices that end early, biases, causal, heads that share keys.
TEST(AttentionRows, FewQueries) {
  const Variable forced("DLPRIM_ATTENTION", "rows");
  using C = Case;
  int at = 0;
  for (Case c :
       {C{.batch = 2, .heads = 8, .key_heads = 2, .queries = 1, .keys = 300, .width = 64},
        C{.heads = 4, .key_heads = 2, .queries = 2, .keys = 300, .width = 32, .bias = C::part},
        C{.heads = 6, .key_heads = 2, .queries = 5, .keys = 33, .width = 20, .value_width = 40, .bias = C::added},
        C{.batch = 2, .heads = 2, .key_heads = 2, .queries = 8, .keys = 65, .width = 15, .bias = C::mask},
        C{.heads = 4, .queries = 3, .keys = 80, .width = 16, .bias = C::mask, .scale = 2, .soft_cap = 1.5},
        C{.heads = 4, .queries = 7, .keys = 64, .width = 16, .causal = true, .heads_last = true, .scale = -0.5},
        C{.heads = 2, .key_heads = 2, .queries = 3, .keys = 1, .width = 16}, C{.queries = 2, .keys = 0, .width = 16}}) {
    constexpr DataType types[] = {DataType::float32, DataType::float16, DataType::bfloat16};
    c.type = types[at++ % 3];
    Problem problem(c);
    expect_expected(problem);
  }
}

// Tiles of each width: the check of other GPUs' kernels compiles these, too.
void expect_tiles(std::initializer_list<std::int64_t> widths) {
  const Variable forced("DLPRIM_ATTENTION", "tiled");
  for (const std::int64_t width : widths) {
    Problem problem({.queries = 17, .keys = 37, .width = width});
    expect_expected(problem);
  }
}

TEST(AttentionTiles, Wide) { expect_tiles({64, 128}); }

TEST(AttentionTiles, Widest) { expect_tiles({200, 256}); }

// Rows that no matrix unit's kernel takes, whole and, with a small bound of memory, by sections that masks may leave out.
class AttentionProducts : public ::testing::Test {
 protected:
  ~AttentionProducts() override { bound(nullptr); }
  static void bound(const char* limits) {
    const DeviceInfo& info = device().info();
    limits ? tuning::set(info, "attention.products", {limits}) : tuning::forget(info, "attention.products");
  }
  const Variable forced_{"DLPRIM_ATTENTION", "products"};
};

TEST_F(AttentionProducts, WideRowsBySections) {
  using C = Case;
  int at = 0;
  for (Case c : {C{.batch = 2, .heads = 4, .key_heads = 2, .queries = 40, .keys = 53, .width = 256, .scale = 0.07},
                 C{.heads = 3, .key_heads = 3, .queries = 70, .keys = 67, .width = 160, .causal = true, .scale = 0.1},
                 C{.heads = 4, .queries = 35, .keys = 90, .width = 20, .causal = true, .bias = C::added},
                 C{.batch = 2,
                   .heads = 2,
                   .key_heads = 2,
                   .queries = 90,
                   .keys = 35,
                   .width = 16,
                   .value_width = 144,
                   .causal = true,
                   .bias = C::mask,
                   .heads_last = true},
                 C{.batch = 3,
                   .heads = 6,
                   .key_heads = 2,
                   .queries = 17,
                   .keys = 33,
                   .width = 15,
                   .bias = C::mask,
                   .heads_last = true,
                   .scale = -0.5},
                 C{.queries = 150, .keys = 140, .width = 24, .bias = C::row},
                 C{.heads = 2, .key_heads = 2, .queries = 1, .keys = 130, .width = 8}}) {
    constexpr DataType types[] = {DataType::float16, DataType::bfloat16, DataType::float32};
    if (builds_slowly() && at > 3) break;
    c.type = types[at++ % 3];
    for (const char* limits : {"0.003 0 16", "0.02 0 32", "0.2 0 1024"}) {
      SCOPED_TRACE(limits);
      bound(limits);
      Problem problem(c);
      expect_expected(problem);
    }
  }
}

TEST_F(AttentionProducts, DropsWhatOthersDropBySections) {
  Case c{.batch = 2, .heads = 4, .key_heads = 2, .queries = 50, .keys = 45, .width = 20, .dropout = 0.4};
  for (DataType type : {DataType::float32, DataType::bfloat16}) {
    c.type = type;
    Problem whole(c), parts(c);
    {
      const Variable other("DLPRIM_ATTENTION", "tiled");
      whole.forward(), whole.backward();
    }
    const Variable again("DLPRIM_ATTENTION", "products");
    bound("0.003 0 16"), parts.forward(), parts.backward();
    for (const auto& [x, y] : {std::pair(&whole.gq, &parts.gq), {&whole.gk, &parts.gk}, {&whole.gv, &parts.gv}})
      expect_close(y->memory.read(), x->memory.read(), 2 * tolerance(type));
  }
}

// A query without keys beside others, whose gradients are 0; what is no number stays in its head.
TEST_F(AttentionProducts, Infinities) {
  Problem x({.heads = 2, .key_heads = 2, .queries = 20, .keys = 24, .width = 16, .bias = Case::mask});
  x.q.values[x.q.at(0, 1, 3, 5)] = NAN, x.q.memory.write(x.q.values);
  x.forward(), x.backward();
  const std::vector<double> grad = x.gq.memory.read();
  for (std::int64_t d = 0; d < 16; d++) EXPECT_EQ(grad[x.gq.at(0, 0, 1, d)], 0) << d;
  EXPECT_TRUE(std::isnan(grad[x.gq.at(0, 1, 3, 0)]));
  const std::vector<double> keys = x.gk.memory.read();
  for (std::size_t i = 0; i < keys.size(); i++) EXPECT_EQ(std::isnan(keys[i]), i >= keys.size() / 2) << i;
}

// float32 in two parts of 16 bits each: padded widths, blocks and slices, biases, strides, heads that share keys.
TEST(AttentionHalves, AgreesWithHost) {
  const Variable forced("DLPRIM_ATTENTION", "wgmma");
  using C = Case;
  int at = 0;
  for (const Case& c :
       {C{.heads = 2, .key_heads = 2, .queries = 70, .keys = 67, .width = 16},
        C{.batch = 2, .heads = 4, .key_heads = 2, .queries = 150, .keys = 170, .width = 64, .causal = true},
        C{.queries = 40, .keys = 90, .width = 20, .value_width = 17, .bias = C::mask},
        C{.batch = 2,
          .heads = 3,
          .key_heads = 3,
          .queries = 20,
          .keys = 17,
          .width = 10,
          .bias = C::added,
          .heads_last = true},
        C{.heads = 2, .queries = 131, .keys = 100, .width = 128, .causal = true},
        C{.queries = 30, .keys = 50, .width = 80, .value_width = 112, .bias = C::row, .scale = -0.5},
        C{.queries = 5, .keys = 0, .width = 8}}) {
    if (builds_slowly() && at++ > 1) break;
    SCOPED_TRACE(::testing::Message() << c.queries << "x" << c.keys << " width " << c.width);
    Problem x(c);
    x.forward();
    expect_close(x.out.memory.read(), Expected(x, {}).out, 2 * tolerance(DataType::float32));
  }
}

// Elements far beyond what 16 bits hold, small ones beside large ones, and what is no number in one head.
TEST(AttentionHalves, EveryMagnitude) {
  const Variable forced("DLPRIM_ATTENTION", "wgmma");
  const Case c{.heads = 2, .key_heads = 2, .queries = 20, .keys = 24, .width = 16};
  Problem plain(c), scaled(c);
  const auto multiply = [](Operand& x, double by) {
    for (double& value : x.values) value *= by;
    x.memory.write(x.values);
  };
  multiply(scaled.q, 0x1p-60), multiply(scaled.k, 0x1p60), multiply(scaled.v, 0x1p100);
  plain.forward(), scaled.forward();
  std::vector<double> expected = plain.out.memory.read();
  for (double& value : expected) value *= 0x1p100;
  EXPECT_EQ(scaled.out.memory.read(), expected);
  EXPECT_EQ(scaled.logsumexp.read(), plain.logsumexp.read());

  const std::vector<double> host = Expected(plain, {}).out;
  plain.k.values[plain.k.at(0, 1, 3, 5)] = NAN, plain.v.values[plain.v.at(0, 1, 2, 1)] = INFINITY;
  plain.k.memory.write(plain.k.values), plain.v.memory.write(plain.v.values);
  plain.forward();
  const std::vector<double> out = plain.out.memory.read();
  const auto half = std::ptrdiff_t(out.size() / 2);
  expect_close({out.begin(), out.begin() + half}, {host.begin(), host.begin() + half},
               2 * tolerance(DataType::float32));
  EXPECT_TRUE(std::ranges::all_of(out.begin() + half, out.end(), [](double value) { return std::isnan(value); }));
}

// Rows of more than 128, where a work-group takes fewer keys, and sums that are formed in any order.
TEST(AttentionGradients, WideRowsAndManyKeys) {
  const Variable forced("DLPRIM_ATTENTION", "wgmma_backward");
  using C = Case;
  int at = 0;
  for (const Case& c :
       {C{.heads = 2, .key_heads = 1, .queries = 70, .keys = 67, .width = 160, .value_width = 136},
        C{.queries = 5, .keys = 1030, .width = 16},
        C{.heads = 2, .key_heads = 2, .queries = 66, .keys = 70, .width = 256, .causal = true},
        C{.queries = 20, .keys = 30, .width = 80, .value_width = 200, .bias = C::mask},
        C{.queries = 20, .keys = 70, .width = 192, .value_width = 128, .causal = true, .bias = C::added}}) {
    if (builds_slowly() && at++ > 1) break;
    for (const DataType type : {DataType::float16, DataType::bfloat16}) {
      if (type == DataType::bfloat16 && c.width != 160) continue;
      SCOPED_TRACE(::testing::Message() << c.queries << "x" << c.keys << " width " << c.width);
      Case typed = c;
      typed.type = type;
      Problem x(typed);
      expect_expected(x);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Candidates, Attention,
                         ::testing::Values("wgmma", "wgmma_backward", "mma", "products", "tiled", "blocks"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dlprim
