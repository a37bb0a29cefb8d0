// SPDX-License-Identifier: MIT
// Writes the programs that an H200 gets, in the forms that its cores choose: DLPRIM_SIMULATE=hopper=1 and
// DLPRIM_KERNEL_DUMP=FOLDER, for tools/check_kernels.py. Nothing runs.
#include <dlprim/primitives/attention.hpp>
#include <dlprim/primitives/conv.hpp>
#include <dlprim/primitives/gemm.hpp>
#include <dlprim/primitives/scaled_gemm.hpp>
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/settings.hpp>

#include <string>

#include "attention/problem.hpp"
#include "floats.hpp"
#include "gemm/core.hpp"
#include "linalg/cholesky_blocks.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using testing::DeviceTensor;
using testing::queue;
using testing::Variable;

class Hopper : public ::testing::Test {
 protected:
  void SetUp() override {
    const DeviceInfo& info = testing::device().info();
    if (!simulation() || info.nv_compute_capability != 90) GTEST_SKIP() << "for DLPRIM_SIMULATE=hopper=1";
  }
  static const char* simulation() { return environment::text("DLPRIM_SIMULATE"); }
};

// The tiles of a table, as DLPRIM_GEMM_TILE wants them.
std::vector<std::string> tiles(const std::string& table) {
  std::vector<std::string> all;
  for (const TileShape& s : read_tiles(testing::device().info(), table, "tma").shapes)
    all.push_back(text_of(s).substr(0, text_of(s).rfind('x')));
  return all;
}

// Offsets take 64 bits.
class WideIndexes {
 public:
  WideIndexes() : limit_(settings.index_limit) { settings.index_limit = 100; }
  ~WideIndexes() { settings.index_limit = limit_; }
  WideIndexes(const WideIndexes&) = delete;

 private:
  std::int64_t limit_;
};

struct Form {
  bool a_along_k = true, b_along_k = true;
  int addend = 0;  // 1: C itself, 2: a row
  Activation activation = Activation::none;
  std::int64_t n = 264, batches = 1;
  bool tf32 = true;
};

void product(DataType type, const Form& f) {
  const std::int64_t m = 264, k = 1024;
  const DeviceTensor a(type, {f.batches, m * k}), b(type, {f.batches, f.n * k}), c(type, {f.batches, m * f.n});
  const std::vector<std::int64_t> sizes{f.batches, m, f.n};
  const auto matrix = [&](const DeviceTensor& x, std::int64_t rows, std::int64_t columns, bool along_columns) {
    return TensorView(x.view().data, type, std::vector{f.batches, rows, columns},
                      std::vector{rows * columns, along_columns ? columns : 1, along_columns ? 1 : rows});
  };
  GemmOptions options;
  options.allow_tf32 = f.tf32, options.activation = f.activation;
  const TensorView result = matrix(c, m, f.n, true);
  if (f.addend) options.beta = 1, options.addend = result;
  if (f.addend == 2) options.addend = TensorView(c.view().data, type, sizes, std::vector<std::int64_t>{0, 0, 1});
  gemm(queue(), matrix(a, m, k, f.a_along_k), matrix(b, k, f.n, !f.b_along_k), result, options);
}

// bfloat16 differs from float16 in a word of assembly: there, one form of each tile.
TEST_F(Hopper, Products) {
  const Variable forced("DLPRIM_GEMM", "tma");
  for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float32}) {
    const bool single = type == DataType::float32;
    for (const std::string& text : tiles(single ? "tma.tf32" : "tma.16bit")) {
      const Variable tile("DLPRIM_GEMM_TILE", text.c_str());
      {
        const Variable whole("DLPRIM_GEMM_SPLIT", "1");
        product(type, {.addend = 2, .activation = Activation::gelu, .batches = 2});
        if (type == DataType::bfloat16) continue;
        for (const int layout : {0, 1, 2, 3})
          if (!single || layout == 3) product(type, {.a_along_k = layout % 2 > 0, .b_along_k = layout > 1});
        product(type, {.addend = 1, .activation = Activation::silu, .n = 261});
        const WideIndexes wide;
        product(type, {.addend = 1});
      }
      const Variable split("DLPRIM_GEMM_SPLIT", "2");
      product(type, {});
      if (!single) product(type, {.a_along_k = false, .b_along_k = false, .n = 261});
    }
  }
}

// Factors lie across k: A, or B, where the transpose is computed, or both.
TEST_F(Hopper, ProductsByRegisters) {
  const Variable forced("DLPRIM_GEMM", "tma_registers");
  const DataType type = DataType::float32;
  struct {
    bool a_along_k, b_along_k;
    const char* table;
  } const cases[] = {
      {false, true, "tma.registers"}, {true, false, "tma.registers.transposed"}, {false, false, "tma.turned"}};
  for (const auto& [a_along_k, b_along_k, table] : cases) {
    const Form form{.a_along_k = a_along_k, .b_along_k = b_along_k};
    const auto with = [&](auto change) {
      Form f = form;
      change(f);
      product(type, f);
    };
    for (const std::string& text : tiles(table)) {
      const Variable tile("DLPRIM_GEMM_TILE", text.c_str());
      {
        const Variable whole("DLPRIM_GEMM_SPLIT", "1");
        product(type, form);
        with([](Form& f) { f.addend = 2, f.activation = Activation::gelu, f.batches = 2; });
        with([](Form& f) { f.addend = 1, f.activation = Activation::silu, f.n = f.b_along_k ? 261 : 268; });
        const WideIndexes wide;
        with([](Form& f) { f.addend = 1; });
      }
      const Variable split("DLPRIM_GEMM_SPLIT", "2");
      product(type, form);
    }
  }
}

void scaled_product(bool fast_sums, bool lines, DataType result, bool bias, std::int64_t n = 272) {
  const std::int64_t m = 264, k = 1024;
  const DeviceTensor a(DataType::uint8, {m, k}), b(DataType::uint8, {n, k}), c(result, {m, n});
  const DeviceTensor scales(DataType::float32, {m + n});
  ScaledGemmOptions options{.a_scale = scales.view().data, .b_scale = scales.view().data, .lines = lines};
  options.fast_sums = fast_sums;
  if (bias) options.bias = TensorView(c.view().data, result, std::vector{n});
  const TensorView across(b.view().data, DataType::uint8, std::vector{k, n}, std::vector<std::int64_t>{1, k});
  scaled_gemm(queue(), a.view(), SmallFloat::e4m3fn, across, bias ? SmallFloat::e5m2 : SmallFloat::e4m3fn, c.view(),
              options);
}

TEST_F(Hopper, ProductsOfBytes) {
  for (const bool fast_sums : {false, true})
    for (const std::string& text : tiles(fast_sums ? "tma.8bit" : "tma.8bit.exact")) {
      const Variable tile("DLPRIM_GEMM_TILE", text.c_str());
      {
        const Variable whole("DLPRIM_GEMM_SPLIT", "1");
        scaled_product(fast_sums, true, DataType::bfloat16, true);
        scaled_product(fast_sums, false, DataType::float32, false, 264);
        const WideIndexes wide;
        scaled_product(fast_sums, true, DataType::bfloat16, false);
      }
      const Variable split("DLPRIM_GEMM_SPLIT", "2");
      scaled_product(fast_sums, true, DataType::bfloat16, true);
    }
}

void grouped_product(DataType type, bool of_k, bool b_along_k) {
  const std::int64_t m = 264, n = 272, k = 1024, groups = 5;
  const DeviceTensor a(type, {m, k}), b(type, {groups, k, n}), c(type, {groups, m, n}), ends(DataType::int32, {groups});
  using Sizes = std::vector<std::int64_t>;
  if (of_k) {
    const TensorView across(a.view().data, type, Sizes{m, k}, Sizes{1, m});
    grouped_gemm(queue(), across, {b.view().data, type, Sizes{k, n}}, ends.view(), c.view());
  } else {
    const TensorView weights(b.view().data, type, Sizes{groups, k, n},
                             b_along_k ? Sizes{k * n, 1, k} : Sizes{k * n, n, 1});
    grouped_gemm(queue(), a.view(), weights, ends.view(), {c.view().data, type, Sizes{m, n}});
  }
}

TEST_F(Hopper, ProductsOfGroups) {
  for (const std::string& text : tiles("tma.16bit")) {
    const Variable tile("DLPRIM_GEMM_TILE", text.c_str());
    grouped_product(DataType::bfloat16, false, true), grouped_product(DataType::float16, false, false);
    grouped_product(DataType::bfloat16, true, false);
    const WideIndexes wide;
    grouped_product(DataType::bfloat16, false, true), grouped_product(DataType::bfloat16, true, false);
  }
}

TEST_F(Hopper, ProductsOfPackedOperands) {
  const Variable forced("DLPRIM_GEMM", "wgmma");
  for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float32})
    for (const std::string& text : tiles(type == DataType::float32 ? "wgmma.tf32" : "wgmma.16bit")) {
      const Variable tile("DLPRIM_GEMM_TILE", text.c_str());
      product(type, {}), product(type, {.addend = 1, .activation = Activation::gelu, .n = 261});
    }
}

TEST_F(Hopper, ProductsOfFewRows) {
  const Variable forced("DLPRIM_GEMM", "skinny");
  for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float32})
    for (const std::int64_t rows : {8, 16, 24, 32}) {
      product(type, {.addend = 2, .activation = Activation::silu, .n = rows});
      if (type == DataType::float32) product(type, {.n = rows, .tf32 = false});
      if (type == DataType::float32) continue;
      if (rows != 8) product(type, {.n = rows, .batches = 30});  // enough wide tiles
      else product(type, {.n = rows, .batches = 40}), product(type, {.n = rows, .batches = 70});  // small work-groups
    }
}

struct Convolution {
  std::vector<std::int64_t> x, w, y;
  ConvOptions options;
  bool last = true;  // channels of the result lie side by side
};

TensorView channels_last(const DeviceTensor& x, DataType type, const std::vector<std::int64_t>& sizes, bool last) {
  if (!last) return TensorView(x.view().data, type, sizes);
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t next = sizes[1];
  for (std::size_t d = sizes.size() - 1; d > 1; d--) strides[d] = next, next *= sizes[d];
  strides[1] = 1, strides[0] = next;
  return TensorView(x.view().data, type, sizes, strides);
}

void passes(DataType type, const Convolution& t) {
  const DeviceTensor x(type, t.x), w(type, t.w), y(type, t.y), b(type, {t.w[0]}), z(type, t.y), c(type, {t.x[1]});
  const TensorView xv = channels_last(x, type, t.x, true), wv = channels_last(w, type, t.w, true);
  const TensorView yv = channels_last(y, type, t.y, t.last), dy = channels_last(y, type, t.y, true);
  const TensorView bias(b.view().data, type, {t.w[0]}), dx_bias(c.view().data, type, {t.x[1]});
  ConvOptions options = t.options;
  options.allow_tf32 = true;
  conv_forward(queue(), xv, wv, {}, yv, options);
  conv_forward(queue(), xv, wv, bias, yv, options, Activation::silu, channels_last(z, type, t.y, t.last));
  conv_backward_data(queue(), dy, wv, {}, channels_last(x, type, t.x, t.last), options);
  conv_backward_data(queue(), dy, wv, dx_bias, xv, options);
  if (type != DataType::float32) conv_backward_weights(queue(), xv, dy, wv, options);
}

TEST_F(Hopper, Convolutions) {
  const Variable forced("DLPRIM_GEMM", "gather");
  ConvOptions padded, far;
  padded.padding = {1, 1, 0};
  far.padding = {4, 4, 4}, far.stride = {2, 2, 2}, far.dilation = {2, 2, 2};
  const Convolution same{{2, 64, 9, 11}, {64, 64, 3, 3}, {2, 64, 9, 11}, padded};
  const Convolution rest[] = {
      {{2, 64, 9, 11}, {64, 64, 1, 1}, {2, 64, 5, 6}, {{2, 2, 1}}},
      {{2, 64, 9, 11}, {61, 64, 3, 3}, {2, 61, 9, 11}, padded},
      {{2, 64, 9, 11}, {61, 64, 3, 3}, {2, 61, 9, 11}, padded, false},
      {{3, 64, 50}, {64, 64, 5}, {3, 64, 25}, far},
      {{2, 32, 9, 9, 9}, {64, 32, 3, 3, 3}, {2, 64, 7, 7, 7}, far},
  };
  for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float32}) {
    const bool single = type == DataType::float32;
    for (const std::string& text : tiles(single ? "gather.tf32" : "gather.16bit")) {
      const Variable tile("DLPRIM_GEMM_TILE", text.c_str());
      {
        const Variable whole("DLPRIM_GEMM_SPLIT", "1");
        passes(type, same);
        if (type == DataType::bfloat16) continue;
        for (const Convolution& t : rest) passes(type, t);
        const WideIndexes wide;
        passes(type, same);
      }
      const Variable split("DLPRIM_GEMM_SPLIT", "2");
      passes(type, same);
    }
  }
}

TEST_F(Hopper, WeightsGradientsOfTwoParts) {
  const Variable forced("DLPRIM_CONV", "bf16x3");
  ConvOptions options;
  options.padding = {1, 1, 0}, options.allow_tf32 = true;
  const DeviceTensor x(DataType::float32, {2, 64, 9, 11}), w(DataType::float32, {64, 64, 3, 3});
  for (const std::string& text : tiles("gather.weights")) {
    const Variable tile("DLPRIM_GEMM_TILE", text.c_str());
    for (const char* splits : {"1", "2"}) {
      const Variable split("DLPRIM_GEMM_SPLIT", splits);
      conv_backward_weights(queue(), x.view(), x.view(), w.view(), options);
    }
  }
}

struct Attention {
  std::int64_t width, value_width, queries;
  bool causal = false;
  std::optional<DataType> bias;
  bool odd_rows = false;  // rows of results begin anywhere
  double scale = 0.1;
};

void attend(DataType type, const Attention& t) {
  const std::int64_t rows = t.queries, gap = t.odd_rows ? 1 : 0;
  const DeviceTensor q(type, {1, 2, rows, t.width}), k(type, {1, 1, rows, t.width}),
      v(type, {1, 1, rows, t.value_width});
  const DeviceTensor memory(type, {2 * rows * (std::max(t.width, t.value_width) + 1)});
  const DeviceTensor logsumexp(DataType::float32, {1, 2, rows});
  const auto result = [&](std::int64_t heads, std::int64_t width) {
    return TensorView(memory.view().data, type, std::vector<std::int64_t>{1, heads, rows, width},
                      std::vector<std::int64_t>{0, rows * (width + gap), width + gap, 1});
  };
  AttentionInputs inputs{q.view(), k.view(), v.view(), {}};
  const DeviceTensor bias(t.bias.value_or(type), {rows, rows});
  if (t.bias)
    inputs.bias = TensorView(bias.view().data, *t.bias, std::vector<std::int64_t>{1, 2, rows, rows},
                             std::vector<std::int64_t>{0, 0, rows, 1});
  AttentionOptions options;
  options.scale = t.scale, options.causal = t.causal;
  const DeviceTensor out(type, {1, 2, rows, t.value_width});
  {
    const Variable forced("DLPRIM_ATTENTION", "wgmma");
    attention_forward(queue(), inputs, result(2, t.value_width), logsumexp.view(), options);
  }
  if (type == DataType::float32) return;
  const Variable forced("DLPRIM_ATTENTION", "wgmma_backward");
  attention_backward(queue(), inputs, out.view(), out.view(), logsumexp.view(), result(2, t.width), result(1, t.width),
                     result(1, t.value_width), options);
}

TEST_F(Hopper, Attention) {
  for (const DataType type : {DataType::float16, DataType::bfloat16})
    for (std::int64_t width = 16; width <= 128; width += 16)
      for (const std::int64_t queries : {256, 1024}) {
        attend(type, {width, width, queries, true}), attend(type, {width, width, queries, false, type});
        if (type == DataType::bfloat16) continue;
        attend(type, {width, width, queries}), attend(type, {width, width, queries, true, type});
        if (queries == 1024 && width % 64 == 0) attend(type, {width, width, queries, false, DataType::boolean});
        if (queries != 256) continue;
        for (const std::int64_t other : {16, 64, 128}) attend(type, {width, other, queries, true});
        attend(type, {width, width, queries, false, DataType::boolean});
        attend(type, {width, width, queries, false, DataType::float32, true});
        attend(type, {width, width, queries, true, {}, true, -1});
      }
  for (const bool causal : {false, true}) attend(DataType::bfloat16, {64, 64, 16384, causal});  // blocks of 256 queries
  for (std::int64_t width = 144; width <= 256; width += 16) {
    attend(DataType::bfloat16, {width, width, 256, true}), attend(DataType::float16, {width, width, 256});
    attend(DataType::bfloat16, {width, 128, 256, true, DataType::bfloat16, true});
    attend(DataType::bfloat16, {width, width, 1024});
    if (width % 64 == 0) attend(DataType::bfloat16, {width, width, 1024, false, DataType::boolean});
  }
}

TEST_F(Hopper, AttentionOfFloat32) {
  for (std::int64_t width = 16; width <= 128; width += 16) {
    for (const bool causal : {false, true}) attend(DataType::float32, {width, width, 256, causal});
    attend(DataType::float32, {width, 144 - width, 256, true, DataType::float32});
    attend(DataType::float32, {width, width, 1024, false, DataType::boolean, true});
  }
}

// A query that four heads share keys for: by boxes, and row by row where rows are not aligned.
TEST_F(Hopper, AttentionOfOneQuery) {
  for (const std::int64_t width : {20, 64, 80, 128, 256})
    for (const auto bias :
         {std::optional<DataType>(), std::optional(DataType::bfloat16), std::optional(DataType::boolean)}) {
      const DataType type = DataType::bfloat16;
      const DeviceTensor q(type, {2, 8, 1, width}), keys(type, {2, 2, 512, width}), out(type, {2, 8, 1, width}),
          row(bias.value_or(type), {512}), logsumexp(DataType::float32, {2, 8, 1});
      AttentionInputs inputs{q.view(), keys.view(), keys.view()};
      if (bias)
        inputs.bias = TensorView(row.view().data, *bias, std::vector<std::int64_t>{2, 8, 1, 512},
                                 std::vector<std::int64_t>{0, 0, 0, 1});
      attention_forward(queue(), inputs, out.view(), logsumexp.view(), {});
    }
}

// What a mask leaves out may be anything, large numbers among it, so that halves do not serve.
TEST_F(Hopper, HalvesWhereAllKeysTakePart) {
  const AttentionSizes plain{.queries = 256, .keys = 256, .width = 64, .value_width = 64, .scores = 1e6};
  const auto serves = [](AttentionSizes sizes, auto change) {
    change(sizes);
    return decline_attention(testing::device(), DataType::float32, sizes) == nullptr;
  };
  EXPECT_TRUE(serves(plain, [](AttentionSizes&) {}));
  EXPECT_TRUE(serves(plain, [](AttentionSizes& x) { x.causal = true; }));
  EXPECT_FALSE(serves(plain, [](AttentionSizes& x) { x.biased = true; }));
  EXPECT_FALSE(serves(plain, [](AttentionSizes& x) { x.causal = true, x.keys = 300; }));
  EXPECT_FALSE(serves(plain, [](AttentionSizes& x) { x.backward = true; }));
}

// Gradients by products follow a forward pass on matrix units, but not rows that it does not take.
TEST_F(Hopper, GradientsOfWideRows) {
  const auto serves = [](DataType type, std::int64_t width, std::int64_t keys) {
    const AttentionSizes sizes{
        .queries = 256, .keys = keys, .width = width, .value_width = 64, .scores = 1e6, .backward = true};
    return decline_attention(testing::device(), type, sizes) == nullptr;
  };
  EXPECT_TRUE(serves(DataType::bfloat16, 256, 256));
  EXPECT_FALSE(serves(DataType::bfloat16, 257, 256));
  EXPECT_FALSE(serves(DataType::bfloat16, 256, 16));
  EXPECT_FALSE(serves(DataType::float32, 256, 256));
}

// Launches along the third dimension have room for so many matrices.
TEST_F(Hopper, CholeskyInBlocksOfManyMatrices) {
  const auto matrices = [](std::int64_t count) {
    return TensorView({}, DataType::float32, std::vector<std::int64_t>{count, 128, 128});
  };
  EXPECT_TRUE(linalg::cholesky_in_blocks(queue(), matrices(65535)));
  EXPECT_FALSE(linalg::cholesky_in_blocks(queue(), matrices(65536)));
}

}  // namespace
}  // namespace dlprim
