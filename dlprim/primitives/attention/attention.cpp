// SPDX-License-Identifier: MIT
#include <dlprim/primitives/attention.hpp>

#include <algorithm>
#include <array>
#include <limits>

#include "../check.hpp"
#include "function.hpp"
#include "problem.hpp"

namespace dlprim {

namespace attention_cores {
void add_all(AttentionCores& cores);  // generated from the files of cores/
}

const AttentionCores& all_attention_cores() {
  static const AttentionCores all("attention", "DLPRIM_ATTENTION", attention_cores::add_all);
  return all;
}

namespace {

void require_sizes(const char* what, const TensorView& x, std::span<const std::int64_t> sizes, DataType type) {
  DLPRIM_EXPECT(x.dtype == type && std::ranges::equal(x.shape(), sizes), "attention", what, " to be ",
                TensorView({}, type, sizes), ", got ", x);
}

AttentionLayout layout_of(const char* what, const TensorView& x) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  DLPRIM_EXPECT(std::max(x.stride(2), -x.stride(2)) <= most && std::max(x.stride(3), -x.stride(3)) <= most, "attention",
                what, " with rows less than 2^31 elements apart");
  // Kernels go by what all strides are multiples of: those of single batches and heads may be anything.
  const auto distance = [&](int dim) { return x.size(dim) > 1 ? x.stride(dim) : 0; };
  return {distance(0), distance(1), std::int32_t(x.stride(2)), std::int32_t(x.stride(3))};
}

using Sizes = std::array<std::int64_t, 4>;

AttentionLayout rows_of(const char* what, const TensorView& x, const Sizes& sizes, DataType type) {
  require_sizes(what, x, sizes, type);
  DLPRIM_EXPECT(x.stride(3) == 1 || x.size(3) <= 1, "attention", what, " with a last stride of 1");
  return layout_of(what, x);
}

void take_function(AttentionProblem& problem, const AttentionFunction& function, bool biased) {
  DLPRIM_EXPECT(!biased, "attention", "a function or a bias, got both");
  for (const TensorView& tensor : function.tensors) {
    DLPRIM_EXPECT(tensor.is_contiguous(), "attention", "contiguous tensors of a function, got ", tensor);
    problem.function_reads.push_back(tensor.data);
  }
  problem.bias_type = function.masks ? DataType::boolean : DataType::float32;
  problem.function = number_of(function), problem.bends = function.bends;
}

void take_tiles(AttentionProblem& problem, const AttentionTiles& tiles, const Sizes& scores) {
  const TensorView& x = tiles.states;
  DLPRIM_EXPECT(problem.bias_type && x.dtype == DataType::uint8 && x.dims == 4 && x.is_contiguous(), "attention",
                "contiguous bytes of 4 dims for the tiles of a bias, got ", x);
  const auto covers = [&](int dim, std::int64_t length) { return x.size(dim) * length >= scores[std::size_t(dim)]; };
  DLPRIM_EXPECT((x.size(0) == 1 || x.size(0) == scores[0]) && (x.size(1) == 1 || x.size(1) == scores[1]) &&
                    tiles.queries > 0 && tiles.keys > 0 && covers(2, tiles.queries) && covers(3, tiles.keys),
                "attention", "tiles of all scores, got ", x, " of ", tiles.queries, " x ", tiles.keys);
  problem.tiles = tiles;
}

AttentionProblem problem_of(const AttentionInputs& inputs, const TensorView& out, const TensorView& logsumexp,
                            const AttentionOptions& options) {
  const auto& [q, k, v, bias, mask, function, tiles] = inputs;
  const DataType type = q.dtype;
  DLPRIM_EXPECT(is_floating(type) && type != DataType::float64, "attention", "float32, float16 or bfloat16, got ",
                type);
  DLPRIM_EXPECT(q.dims == 4 && k.dims == 4 && v.dims == 4 && out.dims == 4, "attention", "4 dims, got ", q, ", ", k,
                ", ", v, ", ", out);
  DLPRIM_EXPECT(k.size(1) > 0 ? q.size(1) % k.size(1) == 0 : q.size(1) == 0, "attention",
                "the number of heads of q to be a multiple of that of k, got ", q, ", ", k);
  DLPRIM_EXPECT(options.dropout >= 0 && options.dropout < 1, "attention", "dropout in [0, 1), got ", options.dropout);
  DLPRIM_EXPECT(options.soft_cap >= 0 && options.soft_cap < 1e30, "attention", "a soft cap in [0, 1e30), got ",
                options.soft_cap);
  for (const TensorView* x : {&q, &k, &v})
    for (int d = 0; d < 4; d++)
      DLPRIM_EXPECT(x->size(d) < std::int64_t(1) << 30, "attention", "sizes below 2^30, got ", *x);
  AttentionProblem problem;
  problem.type = type, problem.causal = options.causal, problem.dropout = options.dropout > 0;
  problem.ordered = options.ordered, problem.soft_cap = options.soft_cap > 0;
  auto& p = problem.p;
  p.q = rows_of("q", q, {q.size(0), q.size(1), q.size(2), q.size(3)}, type);
  p.k = rows_of("k", k, {q.size(0), k.size(1), k.size(2), q.size(3)}, type);
  p.v = rows_of("v", v, {q.size(0), k.size(1), k.size(2), v.size(3)}, type);
  p.out = rows_of("out", out, {q.size(0), q.size(1), q.size(2), v.size(3)}, type);
  const Sizes all{q.size(0), q.size(1), q.size(2), k.size(2)};
  require_sizes("logsumexp", logsumexp, std::span(all).first(3), DataType::float32);
  DLPRIM_EXPECT(logsumexp.is_contiguous(), "attention", "a contiguous logsumexp");
  if (bias) {
    DLPRIM_EXPECT(bias->dtype == DataType::boolean || is_floating(bias->dtype), "attention",
                  "a bias of a floating dtype or bool, got ", bias->dtype);
    require_sizes("the bias", *bias, all, bias->dtype);
    p.bias = layout_of("the bias", *bias);
    problem.bias_type = bias->dtype, problem.bias = bias->data;
    if (bias->dtype == DataType::boolean) problem.mask = bias->data, problem.mask_layout = p.bias;
  }
  if (mask) {
    DLPRIM_EXPECT(bias && is_floating(bias->dtype), "attention", "a mask beside a floating bias only, got ", *mask);
    require_sizes("the mask", *mask, all, DataType::boolean);
    problem.mask = mask->data, problem.mask_layout = layout_of("the mask", *mask);
  }
  if (function) take_function(problem, *function, bias || mask);
  if (tiles) take_tiles(problem, *tiles, all);
  p.batch = std::int32_t(q.size(0)), p.heads = std::int32_t(q.size(1));
  p.sharing = k.size(1) > 0 ? std::int32_t(q.size(1) / k.size(1)) : 1;
  p.queries = std::int32_t(q.size(2)), p.keys = std::int32_t(k.size(2));
  p.width = std::int32_t(q.size(3)), p.value_width = std::int32_t(v.size(3));
  constexpr double log2_e = 1.4426950408889634;
  p.scale = float(options.scale), p.scale_log2 = float(options.scale * log2_e);
  p.soft_cap = float(options.soft_cap * log2_e);
  p.seed = options.random.seed, p.offset = options.random.offset;
  p.drop_below = std::uint32_t(std::min(options.dropout * 0x1p32, 4294967295.0));
  p.keep_scale = float(1 / (1 - options.dropout));
  problem.q = q.data, problem.k = k.data, problem.v = v.data, problem.out = out.data;
  problem.logsumexp = logsumexp.data;
  return problem;
}

struct DeltaKey {
  std::uint8_t type, lanes, vector, wide;
};

}  // namespace

void define_attention(KernelSource& source, int bias, bool causal, bool dropout, bool soft_cap,
                      std::uint32_t function) {
  source.define("CAUSAL", causal).define("DROPOUT", dropout).define("SOFT_CAP", soft_cap);
  source.define("LISTED", bias / with_lists);
  if (function) define_function(source, function);
  const DataType type = DataType(bias % with_lists - 1);
  if (bias == 0) return;
  source.define("BIAS_TAG", tag(type)).define("BIAS_IS_MASK", type == DataType::boolean);
}

Workspace attention_delta(Queue& queue, const AttentionProblem& problem) {
  const auto& p = problem.p;
  Device& device = queue.device();
  const std::size_t rows = std::size_t(p.batch) * p.heads * p.queries;
  const bool vectors =
      !device.info().cpu && size_of(problem.type) == 2 &&
      vector_of({{p.grad_out, problem.grad_out, p.value_width}, {p.out, problem.out, p.value_width}}, 8) == 8;
  const int lanes = device.info().cpu ? 1 : vectors ? (p.value_width > 64 ? 16 : 8) : p.value_width >= 64 ? 16 : 4;
  const DeltaKey key{std::uint8_t(problem.type), std::uint8_t(lanes), std::uint8_t(vectors ? 8 : 1), rows >> 31 != 0};
  static KernelCache<DeltaKey> cache;
  Kernel& kernel = cache.get(device, key, [&] {
    KernelSource source("attention/delta.cl", "delta");
    define_attention(source, 0, false, false);
    source.define("TAG", tag(problem.type)).define("LANES", key.lanes).define("VECTOR", key.vector);
    if (key.wide) source.define("WIDE", 1);
    return source;
  });
  const std::size_t per_group = 64 / key.lanes;
  Workspace delta(queue, (rows + 1) * sizeof(float));
  launch(queue, kernel, NDRange((rows + per_group - 1) / per_group * 64, 64), p, problem.grad_out, problem.out,
         delta.data());
  return delta;
}

const char* decline_attention(const Device& device, DataType type, const AttentionSizes& sizes) {
  const auto bounded = [](std::int64_t size) { return std::int32_t(std::min<std::int64_t>(size, 1 << 29)); };
  AttentionProblem problem;
  problem.type = type, problem.other_scores = sizes.scores, problem.backward = sizes.backward;
  problem.causal = sizes.causal, problem.soft_cap = sizes.soft_capped;
  if (sizes.biased) problem.bias_type = type;
  problem.p.queries = bounded(sizes.queries), problem.p.keys = bounded(sizes.keys);
  problem.p.width = bounded(sizes.width), problem.p.value_width = bounded(sizes.value_width);
  return all_attention_cores().try_select(device, problem) ? nullptr : "products and softmax serve better";
}

void attention_forward(Queue& queue, const AttentionInputs& inputs, const TensorView& out, const TensorView& logsumexp,
                       const AttentionOptions& options) {
  const AttentionProblem problem = problem_of(inputs, out, logsumexp, options);
  if (logsumexp.numel() > 0) all_attention_cores().run(queue, problem);
}

void attention_backward(Queue& queue, const AttentionInputs& inputs, const TensorView& grad_out, const TensorView& out,
                        const TensorView& logsumexp, const TensorView& grad_q, const TensorView& grad_k,
                        const TensorView& grad_v, const AttentionOptions& options) {
  DLPRIM_EXPECT(options.soft_cap == 0, "attention", "no soft cap backward, got ", options.soft_cap);
  AttentionProblem problem = problem_of(inputs, out, logsumexp, options);
  auto& p = problem.p;
  const auto sizes = [](const TensorView& x) { return Sizes{x.size(0), x.size(1), x.size(2), x.size(3)}; };
  problem.backward = true;
  DLPRIM_EXPECT(!problem.bends || !inputs.function->slope.empty(), "attention", "the slope of a function that bends");
  p.grad_out = rows_of("grad_out", grad_out, sizes(out), out.dtype);
  p.grad_q = rows_of("grad_q", grad_q, sizes(inputs.q), inputs.q.dtype);
  p.grad_k = rows_of("grad_k", grad_k, sizes(inputs.k), inputs.k.dtype);
  p.grad_v = rows_of("grad_v", grad_v, sizes(inputs.v), inputs.v.dtype);
  problem.grad_out = grad_out.data, problem.grad_q = grad_q.data;
  problem.grad_k = grad_k.data, problem.grad_v = grad_v.data;
  if (grad_q.numel() + grad_k.numel() + grad_v.numel() > 0) all_attention_cores().run(queue, problem);
}

}  // namespace dlprim
