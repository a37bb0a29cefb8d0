// SPDX-License-Identifier: MIT
#include <dlprim/primitives/random.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "check.hpp"

namespace dlprim {

namespace {

constexpr std::size_t work_group = 256;

// How a distribution is made from what one Philox call gives; the first seven in the order of Distribution.
struct Row {
  const char *name, *draw, *sample;
};
constexpr Row rows[] = {
    {"uniform", "unit", "a + x * (b - a) < b ? a + x * (b - a) : a"},
    {"normal", "normal", "a + x * b"},
    {"log_normal", "normal", "exp(a + x * b)"},
    {"exponential", "open", "fmax(-log(x), (R)0x1p-34f) / a"},
    {"cauchy", "unit", "a + b * tan((R)3.14159265358979323846 * (x - (R)0.5))"},
    {"geometric", "open", "fmax(ceil(log(x) / a), (R)1)"},
    {"bernoulli", "unit", "x < a"},
    {"integers", "raw", "(long)(x % a) + (long)b"},
    {"bits", "raw", "(long)x"},
    {"bernoulli_each", "unit", "x < p"},
};
constexpr int integers_row = 7, bits_row = 8, bernoulli_each_row = 9;

struct Key {
  std::uint8_t row;
  DataType out, parameter;
  std::uint8_t wide;  // 64-bit words
};

bool is_double(DataType type) { return type == DataType::float64; }
const char* real_tag(DataType type) { return is_double(type) ? "f64" : "f32"; }

// Unit numbers that are stored as they are must not round up to 1.
int unit_bits(const Key& key) {
  if (key.wide) return 53;
  if (key.row == int(Distribution::uniform) && key.out == DataType::float16) return 11;
  return key.row == int(Distribution::uniform) && key.out == DataType::bfloat16 ? 8 : 24;
}

KernelSource generate_source(const Key& key) {
  const Row& row = rows[key.row];
  const bool integers = std::string_view(row.draw) == "raw";
  KernelSource source("random.cl", "generate");
  source.define("T", tag(key.out)).define("REAL", key.wide && !integers ? "f64" : "f32").define("DRAW", row.draw);
  source.define("SAMPLE", row.sample).define("PER_DRAW", key.wide ? 2 : 4).define("BITS", unit_bits(key));
  source.define("PARAMETER", integers ? (key.wide ? "ulong" : "uint") : key.wide ? "double" : "float");
  if (key.row == bernoulli_each_row) source.define("P", tag(key.parameter));
  return source;
}

Kernel& generate_kernel(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] { return generate_source(key); });
}

void expect_contiguous(const char* name, std::initializer_list<const TensorView*> views) {
  const std::int64_t numel = (*views.begin())->numel();
  for (const TensorView* view : views)
    if (!view->is_contiguous() || view->numel() != numel)
      throw ValidationError(std::string("[") + name + "] expected contiguous tensors of equal size, got " +
                            std::to_string(view->numel()) + " elements beside " + std::to_string(numel) +
                            (view->is_contiguous() ? "" : ", not contiguous"));
}

void expect_floating(const char* name, DataType type) {
  if (!is_floating(type))
    throw ValidationError(std::string("[") + name + "] expected a floating dtype, got " + dlprim::name(type));
}

template <class Parameter>
void generate(Queue& queue, const Key& key, const TensorView& out, Parameter a, Parameter b, PhiloxState state) {
  expect_contiguous(rows[key.row].name, {&out});
  expect_precision(rows[key.row].name, queue.device().info(), out.dtype);
  const cl_ulong count = cl_ulong(out.numel()), per_draw = key.wide ? 2 : 4, items = (count + per_draw - 1) / per_draw;
  launch(queue, generate_kernel(queue, key), NDRange(items, work_group), Traffic{count * size_of(out.dtype)}, out.data,
         count, items, cl_ulong(state.seed), cl_ulong(state.offset), a, b);
}

struct EachKey {
  std::uint8_t sampler;
  DataType type;
};
constexpr const char* samplers[] = {"sample_gamma", "sample_poisson", "sample_binomial"};

void generate_each(Queue& queue, std::uint8_t sampler, const TensorView& out, const TensorView& a, const TensorView& b,
                   PhiloxState state) {
  expect_contiguous(samplers[sampler], {&out, &a, &b});
  expect_floating(samplers[sampler], out.dtype);
  expect_precision(samplers[sampler], queue.device().info(), out.dtype);
  if (a.dtype != out.dtype || b.dtype != out.dtype)
    throw ValidationError(std::string("[") + samplers[sampler] + "] expected parameters of dtype " + name(out.dtype) +
                          ", got " + name(a.dtype) + " and " + name(b.dtype));
  static KernelCache<EachKey> cache;
  const EachKey key{sampler, out.dtype};
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("random_each.cl", "generate_each");
    return source.define("T", tag(key.type)).define("REAL", real_tag(key.type)).define("SAMPLER", samplers[sampler]);
  });
  const cl_ulong count = cl_ulong(out.numel());
  launch(queue, kernel, NDRange(count, work_group), out.data, a.data, b.data, count, cl_ulong(state.seed),
         cl_ulong(state.offset));
}

// A kernel of random.cl chosen by a section define, for one element type.
Kernel& section(KernelCache<DataType>& cache, Queue& queue, const char* define, const char* kernel, DataType type,
                int per_draw = 4) {
  return cache.get(queue.device(), type, [&] {
    KernelSource source("random.cl", kernel);
    return source.define(define).define("T", tag(type)).define("REAL", real_tag(type)).define("PER_DRAW", per_draw);
  });
}

}  // namespace

void random_fill(Queue& queue, const TensorView& out, Distribution distribution, double a, double b,
                 PhiloxState state) {
  if (distribution == Distribution::geometric) a = std::log1p(-a);
  const bool wide = is_double(out.dtype);
  const Key key{std::uint8_t(distribution), out.dtype, out.dtype, wide};
  if (wide) generate<cl_double>(queue, key, out, a, b, state);
  else generate<cl_float>(queue, key, out, cl_float(a), cl_float(b), state);
}

void random_integers(Queue& queue, const TensorView& out, std::uint64_t range, std::int64_t base, PhiloxState state) {
  const bool wide = range == 0 || range > std::numeric_limits<std::uint32_t>::max();
  // A 32-bit base would cut off large ones.
  const bool small_base = base >= 0 && base <= std::numeric_limits<std::int32_t>::max();
  const Key key{std::uint8_t(range == 0 ? bits_row : integers_row), out.dtype, out.dtype, wide || !small_base};
  if (key.wide) generate<cl_ulong>(queue, key, out, range, cl_ulong(base), state);
  else generate<cl_uint>(queue, key, out, cl_uint(range), cl_uint(base), state);
}

void random_bernoulli(Queue& queue, const TensorView& out, const TensorView& probability, PhiloxState state) {
  expect_contiguous("random_bernoulli", {&out, &probability});
  expect_floating("random_bernoulli", probability.dtype);
  const bool wide = is_double(probability.dtype);
  const Key key{bernoulli_each_row, out.dtype, probability.dtype, wide};
  const cl_ulong count = cl_ulong(out.numel()), per_draw = wide ? 2 : 4, items = (count + per_draw - 1) / per_draw;
  Kernel& kernel = generate_kernel(queue, key);
  auto run = [&](auto zero) {
    launch(queue, kernel, NDRange(items, work_group), out.data, probability.data, count, items, cl_ulong(state.seed),
           cl_ulong(state.offset), zero, zero);
  };
  if (wide) run(cl_double(0));
  else run(cl_float(0));
}

void random_gamma(Queue& queue, const TensorView& out, const TensorView& a, PhiloxState state) {
  generate_each(queue, 0, out, a, a, state);
}

void random_poisson(Queue& queue, const TensorView& out, const TensorView& a, PhiloxState state) {
  generate_each(queue, 1, out, a, a, state);
}

void random_binomial(Queue& queue, const TensorView& out, const TensorView& a, const TensorView& b, PhiloxState state) {
  generate_each(queue, 2, out, a, b, state);
}

void random_permutation(Queue& queue, const TensorView& out, PhiloxState state) {
  expect_contiguous("random_permutation", {&out});
  static KernelCache<DataType> cache;
  const cl_ulong count = cl_ulong(out.numel());
  if (count == 0) return;
  const cl_int bits = cl_int(std::max(2, int(std::bit_width(count - 1))));
  const DeviceInfo& device = queue.device().info();
  constexpr std::uint64_t shares_of_unit = 8, least = 1024;
  const bool in_vectors = device.cpu && !settings.gpu_forms;
  const std::uint64_t items = std::clamp<std::uint64_t>(count / least, 1, shares_of_unit * device.compute_units);
  launch(queue, section(cache, queue, "PERMUTATION", "permutation", out.dtype),
         in_vectors ? NDRange(items, 1) : NDRange(count, work_group), out.data, count, bits, cl_ulong(state.seed),
         cl_ulong(state.offset));
}

void random_categorical(Queue& queue, const TensorView& cumulative, const TensorView& out, PhiloxState state) {
  if (cumulative.dims != 2 || out.dims != 2 || cumulative.size(0) != out.size(0) || cumulative.size(1) == 0 ||
      out.dtype != DataType::int64 || !cumulative.is_contiguous() || !out.is_contiguous())
    throw ValidationError("[random_categorical] expected contiguous (rows, categories) and int64 (rows, samples)");
  expect_floating("random_categorical", cumulative.dtype);
  static KernelCache<DataType> cache;
  const cl_long rows = out.size(0), samples = out.size(1), categories = cumulative.size(1);
  launch(queue,
         section(cache, queue, "CATEGORICAL", "categorical", cumulative.dtype, is_double(cumulative.dtype) ? 2 : 4),
         NDRange(std::size_t(rows * samples), work_group), cumulative.data, out.data, rows, categories, samples,
         cl_ulong(state.seed), cl_ulong(state.offset));
}

void dropout(Queue& queue, const TensorView& in, const TensorView& out, const TensorView& mask, double p,
             PhiloxState state) {
  expect_contiguous("dropout", {&in, &out, &mask});
  expect_floating("dropout", in.dtype);
  if (out.dtype != in.dtype || mask.dtype != DataType::boolean || !(p >= 0 && p <= 1))
    throw ValidationError(std::string("[dropout] expected output ") + name(in.dtype) +
                          ", a bool mask and p in [0, 1], got " + name(out.dtype) + ", " + name(mask.dtype) + " and " +
                          std::to_string(p));
  static KernelCache<DataType> cache;
  const cl_ulong count = cl_ulong(in.numel()), items = (count + 3) / 4;
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  auto run = [&](auto typed_scale) {
    launch(queue, section(cache, queue, "DROPOUT", "dropout", in.dtype), NDRange(items, work_group),
           Traffic{count * (2 * size_of(in.dtype) + 1)}, in.data, out.data, mask.data, count, items,
           cl_ulong(state.seed), cl_ulong(state.offset), cl_float(1 - p), typed_scale);
  };
  if (is_double(in.dtype)) run(cl_double(scale));
  else run(cl_float(scale));
}

}  // namespace dlprim
