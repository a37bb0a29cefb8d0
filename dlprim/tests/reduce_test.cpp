// SPDX-License-Identifier: MIT
#include <dlprim/primitives/reduce.hpp>

#include <functional>

#include "floats.hpp"
#include "setting.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;

using Sizes = std::vector<std::int64_t>;

// Visits every element of `sizes` with its linear index and the index into the keepdim output.
void walk(const Sizes& sizes, const std::vector<bool>& reduced,
          const std::function<void(std::size_t, std::size_t)>& visit) {
  std::size_t count = 1;
  for (std::int64_t size : sizes) count *= std::size_t(size);
  for (std::size_t i = 0; i < count; i++) {
    std::size_t rest = i, out = 0, scale = 1;
    for (int d = int(sizes.size()) - 1; d >= 0; d--) {
      const std::size_t size = std::size_t(sizes[d]), here = rest % size;
      rest /= size;
      if (!reduced[d]) out += here * scale, scale *= size;
    }
    visit(i, out);
  }
}

Sizes kept_sizes(Sizes sizes, const std::vector<bool>& reduced) {
  for (std::size_t d = 0; d < sizes.size(); d++)
    if (reduced[d]) sizes[d] = 1;
  return sizes;
}

std::vector<double> run(ReduceId id, const DeviceTensor& x, const Sizes& out, DataType type,
                        std::vector<double> scalars = {}) {
  DeviceTensor y(type, out);
  const TensorView outputs[] = {y}, inputs[] = {x};
  reduce(queue(), id, {outputs, inputs}, scalars);
  return y.read();
}

struct Case {
  Sizes sizes;
  std::vector<bool> reduced;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{1}, {true}},
      {{17}, {true}},
      {{100003}, {true}},
      {{1000003}, {true}},
      {{5, 1}, {false, true}},
      {{7, 13}, {false, true}},
      {{1000, 10}, {false, true}},
      {{3, 257}, {false, true}},
      {{2, 70001}, {false, true}},
      {{100, 1024}, {false, true}},
      {{13, 7}, {true, false}},
      {{4099, 31}, {true, false}},
      {{1003, 100}, {true, false}},
      {{5, 1003, 36}, {false, true, false}},
      {{2000, 1025}, {true, false}},
      {{65537, 3}, {true, false}},
      {{6, 5, 49}, {true, false, true}},
      {{8, 31, 400}, {true, false, true}},
      {{5, 17, 33}, {false, true, false}},
      {{3, 300, 257}, {false, true, false}},
      {{2, 3, 5, 7}, {true, false, true, false}},
      {{4, 9, 8, 16, 3}, {false, true, false, true, false}},
      {{3, 4}, {false, false}},
      {{0, 4}, {true, false}},
      {{4, 0}, {false, true}},
      {{0, 4}, {false, true}},
  };
  return all;
}

void sums_every_pattern(DataType type) {
  for (const Case& c : cases()) {
    const Sizes out = kept_sizes(c.sizes, c.reduced);
    std::size_t count = 1;
    for (std::int64_t size : c.sizes) count *= std::size_t(size);
    const std::vector<double> values = random_values(count, -1, 2);
    const DeviceTensor x(type, c.sizes, values);
    std::vector<double> expected(DeviceTensor(DataType::float32, out).numel(), 0);
    walk(c.sizes, c.reduced, [&](std::size_t i, std::size_t o) { expected[o] += rounded(type, values[i]); });
    SCOPED_TRACE(::testing::PrintToString(c.sizes) + ::testing::PrintToString(c.reduced));
    expect_close(run(ReduceId::sum, x, out, DataType::float32), expected, 2e-6);
  }
}

void argmax_of_every_pattern() {
  for (const Case& c : cases()) {
    if (std::count(c.reduced.begin(), c.reduced.end(), true) != 1 || c.sizes[0] == 0 || c.sizes.back() == 0) continue;
    const Sizes out = kept_sizes(c.sizes, c.reduced);
    std::size_t count = 1;
    for (std::int64_t size : c.sizes) count *= std::size_t(size);
    std::vector<double> values = random_values(count, 0, 50);
    for (double& v : values) v = std::floor(v);
    if (count > 100) values[97] = NAN;
    const DeviceTensor x(DataType::float32, c.sizes, values);
    std::vector<double> best(DeviceTensor(DataType::float32, out).numel(), -1), where(best.size(), 0);
    std::vector<std::size_t> seen(best.size(), 0);
    walk(c.sizes, c.reduced, [&](std::size_t i, std::size_t o) {
      const std::size_t position = seen[o]++;
      if (std::isnan(best[o]) || !(values[i] > best[o] || std::isnan(values[i]))) return;
      best[o] = values[i], where[o] = double(position);
    });
    SCOPED_TRACE(::testing::PrintToString(c.sizes) + ::testing::PrintToString(c.reduced));
    expect_close(run(ReduceId::argmax, x, out, DataType::int64), where, 0);
  }
}

TEST(Reduce, SumsEveryPatternOfDims) { sums_every_pattern(DataType::float32); }

TEST(Reduce, SumsInTheFormsForGpus) {
  const Setting forced(settings.gpu_forms);
  sums_every_pattern(DataType::float32);
  sums_every_pattern(DataType::bfloat16);
}

// What GPUs run for 2^31 elements and more.
TEST(Reduce, SumsWithWideIndicesInTheFormsForGpus) {
  struct Limit {
    const std::int64_t usual = settings.index_limit;
    Limit() { settings.index_limit = 50; }
    ~Limit() { settings.index_limit = usual; }
  } const limit;
  const Setting forced(settings.gpu_forms);
  sums_every_pattern(DataType::float32);
  if (!builds_slowly()) argmax_of_every_pattern();
}

// 12 dims that do not merge: more than a kernel walks.
TEST(Reduce, MoreDimsThanKernelsWalk) {
  const Sizes sizes(12, 2);
  std::vector<bool> reduced(12);
  for (std::size_t d = 0; d < 12; d += 2) reduced[d] = true;
  const std::vector<double> values = random_values(4096, -1, 2);
  const DeviceTensor x(DataType::float32, sizes, values);
  std::vector<double> expected(64, 0);
  walk(sizes, reduced, [&](std::size_t i, std::size_t o) { expected[o] += rounded(DataType::float32, values[i]); });
  expect_close(run(ReduceId::sum, x, kept_sizes(sizes, reduced), DataType::float32), expected, 2e-6);
}

TEST(Reduce, ArgmaxKeepsTheFirstAndFindsNaN) { argmax_of_every_pattern(); }

TEST(Reduce, EveryRowInEveryDtype) {
  const Sizes sizes = {3, 40, 5};
  const std::vector<bool> reduced = {false, true, false};
  for (int t = 0; t <= int(DataType::boolean); t++) {
    const DataType type = DataType(t);
    if (!supports(type)) continue;
    std::vector<double> values = random_values(600, is_floating(type) ? 0.5 : 0, is_floating(type) ? 1.5 : 3);
    const DeviceTensor x(type, sizes, values);
    values = x.read();
    const bool every =
        type == DataType::float32 || type == DataType::bfloat16 || type == DataType::int64 || type == DataType::uint8;
    for (int id = 0; every && id < int(ReduceId::count); id++) {
      if (!takes(id + t)) continue;
      SCOPED_TRACE(std::string(name(ReduceId(id))) + " " + name(type));
      const std::vector<double> y = run(ReduceId(id), x, {3, 1, 5}, DataType::float32, {3, 0});
      for (double v : y) EXPECT_FALSE(std::isnan(v));
    }
    std::vector<double> expected(15, 0);
    walk(sizes, reduced, [&](std::size_t i, std::size_t o) { expected[o] += values[i]; });
    expect_close(run(ReduceId::sum, x, {3, 1, 5}, DataType::float32), expected, 1e-5);
    expect_close(run(ReduceId::sum, x, {3, 1, 5}, DataType::bfloat16), expected, 1e-2);
    expect_close(run(ReduceId::any_true, x, {3, 1, 5}, DataType::boolean), std::vector<double>(15, 1), 0);
  }
}

TEST(Reduce, MomentsOfShiftedData) {
  for (std::int64_t length : {2, 33, 1000, 300007}) {
    std::vector<double> values = random_values(std::size_t(length) * 2, 999, 1001);
    const DeviceTensor x(DataType::float32, {2, length}, values);
    values = x.read();
    DeviceTensor variance(DataType::float32, {2, 1}), mean(DataType::float32, {2, 1});
    const TensorView outputs[] = {variance, mean}, inputs[] = {x};
    const double scalars[] = {1, 0};
    reduce(queue(), ReduceId::std_var, {outputs, inputs}, scalars);
    std::vector<double> m(2, 0), v(2, 0);
    for (std::size_t i = 0; i < values.size(); i++) m[i / length] += values[i] / double(length);
    for (std::size_t i = 0; i < values.size(); i++)
      v[i / length] += std::pow(values[i] - m[i / length], 2) / double(length - 1);
    expect_close(mean.read(), m, 1e-6);
    expect_close(variance.read(), v, 1e-4);
  }
}

TEST(Reduce, StridedAndBroadcastInputs) {
  const std::vector<double> values = random_values(40 * 60);
  const DeviceTensor base(DataType::float32, {40, 60}, values);
  const std::int64_t sizes[] = {30, 3, 20}, strides[] = {2, 0, 61};  // overlapping, transposed, broadcast
  const TensorView x(base.view().data, DataType::float32, sizes, strides);
  for (int mask = 0; mask < 8; mask++) {
    const std::vector<bool> reduced = {bool(mask & 1), bool(mask & 2), bool(mask & 4)};
    const Sizes out = kept_sizes({30, 3, 20}, reduced);
    DeviceTensor y(DataType::float32, out);
    const TensorView outputs[] = {y}, inputs[] = {x};
    reduce(queue(), ReduceId::sum, {outputs, inputs});
    std::vector<double> expected(y.numel(), 0);
    walk({30, 3, 20}, reduced, [&](std::size_t i, std::size_t o) {
      expected[o] += rounded(DataType::float32, values[(i / 60) * 2 + (i % 20) * 61]);
    });
    expect_close(y.read(), expected, 1e-5);
  }
}

TEST(Reduce, OwnCodeWithSeveralOperands) {
  const ReduceCode code = {"ACC_T dot; ACC_T largest;",
                           2,
                           "p->dot = 0; p->largest = LOWEST;",
                           "p->dot += x0 * x1; p->largest = fmax(p->largest, x0 + x1);",
                           "p->dot += q.dot; p->largest = fmax(p->largest, q.largest);",
                           "y0 = (ACC_T)s0 * p->dot + OLD(0); y1 = p->largest;"};
  const ReduceProgram program(code);
  EXPECT_EQ(program.id(), ReduceProgram(code).id());
  for (std::int64_t length : {3, 200000}) {
    const std::vector<double> a = random_values(std::size_t(length), -1, 1, 1),
                              b = random_values(std::size_t(length), -1, 1, 2);
    const DeviceTensor x0(DataType::float32, {length}, a), x1(DataType::float32, {length}, b);
    DeviceTensor y0(DataType::float32, {1}, {100.0}), y1(DataType::float32, {1});
    const TensorView outputs[] = {y0, y1}, inputs[] = {x0, x1};
    const double scalars[] = {2};
    reduce(queue(), program, DataType::float32, {outputs, inputs}, scalars);
    double dot = 0, largest = -10;
    for (std::size_t i = 0; i < a.size(); i++) dot += a[i] * b[i], largest = std::max(largest, a[i] + b[i]);
    expect_close(y0.read(), {100 + 2 * dot}, 1e-4);
    expect_close(y1.read(), {largest}, 1e-5);
  }
}

TEST(Reduce, RefusesShapesThatDoNotFit) {
  const DeviceTensor x(DataType::float32, {3, 4}), y(DataType::float32, {3, 2}), z(DataType::float32, {3});
  const TensorView inputs[] = {x}, wrong[] = {y}, flat[] = {z};
  EXPECT_THROW(reduce(queue(), ReduceId::sum, {wrong, inputs}), ValidationError);
  EXPECT_THROW(reduce(queue(), ReduceId::sum, {flat, inputs}), ValidationError);
  EXPECT_THROW(reduce(queue(), ReduceId::sum, {{}, inputs}), ValidationError);
}

}  // namespace
}  // namespace dlprim
