// SPDX-License-Identifier: MIT
#include "engine.hpp"

#include <dlprim/runtime/settings.hpp>

#include <bit>

#include "core.hpp"

namespace dlprim {

namespace gemm_cores {
void add_all(GemmCores& cores);  // generated from the files of cores/
}

std::optional<PointwiseId> activation_row(Activation activation) {
  switch (activation) {
    case Activation::none: return {};
    case Activation::relu: return PointwiseId::relu;
    case Activation::gelu: return PointwiseId::gelu;
    case Activation::gelu_tanh: return PointwiseId::gelu_tanh;
    case Activation::relu6: return PointwiseId::relu6;
    case Activation::silu: return PointwiseId::silu;
    case Activation::hardswish: return PointwiseId::hardswish;
    case Activation::sigmoid: return PointwiseId::sigmoid;
    case Activation::hardsigmoid: return PointwiseId::hardsigmoid;
  }
  return {};
}

const char* activation_code(Activation activation) {
  const auto row = activation_row(activation);
  return row ? pointwise_row(*row).expression : "(x0)";
}

namespace {

std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

const char* type_name(DataType type) {
  switch (accumulate_type(type)) {
    case DataType::float64: return "double";
    case DataType::complex64: return "float2";
    case DataType::complex128: return "double2";
    case DataType::int64:
    case DataType::uint64: return "long";
    default: return "float";
  }
}

// The most registers with which stream-K's work-groups all run at once on an NVIDIA GPU (65,536 a compute unit).
int registers_of(const GemmKey& key) {
  const int pieces = key.shape[0] / key.shape[3] * (key.shape[1] / key.shape[4]);
  const int group = key.core->lanes * pieces;
  return std::min(255, 65536 / group / key.stream / 8 * 8);
}

KernelSource gemm_source(const Device& device, const GemmKey& key) {
  const auto type = DataType(key.type);
  const std::string name = key.core->kernel;
  KernelSource source("gemm/" + name + ".cl", "gemm_" + name);
  const std::string t = tag(type), acc = tag(accumulate_type(type)), result = tag(DataType(key.result));
  const std::string factor = key.kinds ? tag(DataType::uint8) : t;
  source.define("TA", key.core->a_of_sums ? acc : factor).define("TB", key.core->b_of_sums ? acc : factor);
  source.define("TD", of_bytes(key) ? "i32" : result);
  source.define("TC", key.split ? acc : result).define("T", type_name(type)).define("TT", acc);
  source.define("COMPLEX", is_complex(type)).define("TO_T(v)", is_complex(type) ? "(v)" : "((T)(v))");
  source.define("INDEX", key.wide_index ? "long" : "int").define("WIDE", key.wide_index);
  source.define("MODE", key.mode).define("RANK", key.rank);
  source.define("CHECK", key.check)
      .define("TAP_MASK", key.tap_mask)
      .define("CHANNEL_INNER", key.channel_inner)
      .define("ADDEND", key.addend)
      .define("RESIDUAL", key.residual)
      .define("SCALES", key.scales);
  source.define("ACTIVATE(x0)", activation_code(Activation(key.activation))).define("SPLIT", key.split);
  if (key.stream) source.define("STREAM", 1);
  if (key.stream && key.split && device.info().nv_inline_ptx)
    source.option("-cl-nv-maxrregcount=" + std::to_string(registers_of(key)));
  if (key.core->define) key.core->define(source, device, key);
  return source;
}

// alpha or beta in the type the kernel computes in.
std::span<const std::byte> scalar_bytes(DataType type, std::complex<double> value, std::array<std::byte, 16>& storage) {
  auto put = [&](auto... parts) {
    std::size_t at = 0;
    ((std::memcpy(storage.data() + at, &parts, sizeof parts), at += sizeof parts), ...);
    return std::span<const std::byte>(storage.data(), at);
  };
  switch (accumulate_type(type)) {
    case DataType::float64: return put(value.real());
    case DataType::complex64: return put(float(value.real()), float(value.imag()));
    case DataType::complex128: return put(value.real(), value.imag());
    case DataType::int64:
    case DataType::uint64: return put(std::int64_t(value.real()));
    default: return put(float(value.real()));
  }
}

GemmIndices<std::int32_t> narrow(const GemmIndices<std::int64_t>& p) {
  using Wide = std::array<std::int64_t, sizeof p / sizeof(std::int64_t)>;
  using Narrow = std::array<std::int32_t, sizeof p / sizeof(std::int64_t)>;
  const auto from = std::bit_cast<Wide>(p);
  Narrow to;
  std::transform(from.begin(), from.end(), to.begin(), [](std::int64_t v) { return std::int32_t(v); });
  return std::bit_cast<GemmIndices<std::int32_t>>(to);
}

}  // namespace

bool fits_32_bits(const GemmProblem& problem) {
  const auto& p = problem.p;
  auto last = [](std::int64_t size, std::int64_t stride) {
    return std::max<std::int64_t>(size - 1, 0) * magnitude(stride);
  };
  const std::int64_t batch = problem.batches;
  std::int64_t a = last(batch, p.a_batch) + last(p.m, p.a_m) + last(p.k, p.a_k);
  const std::int64_t matrices = problem.groups && !problem.groups->of_k ? problem.groups->count : batch;
  std::int64_t b = last(matrices, p.b_batch) + last(p.k, p.b_k) + last(p.n, p.b_n);
  std::int64_t c = last(batch, p.c_batch) + last(p.m, p.c_m) + last(p.n, p.c_n);
  const std::int64_t d = last(batch, p.d_batch) + last(p.m, p.d_m) + last(p.n, p.d_n);
  const std::int64_t points = problem.mode == GemmMode::convolution ? p.n : p.k;
  if (problem.mode != GemmMode::plain) {
    std::int64_t y = last(points / std::max<std::int64_t>(1, p.out[0] * p.out[1] * p.out[2]) + 1, p.y_n);
    std::int64_t margin = 0;
    for (int i = 0; i < 3; i++) {
      y += last(p.out[i], p.y_stride[i]);
      margin += (magnitude(p.start[i]) + last(p.taps[i], p.tap_step[i])) * magnitude(p.x_stride[i]);
    }
    (problem.mode == GemmMode::convolution ? c : a) += y;
    b += p.x_size + 2 * margin;
  }
  // Tiles reach past the end of a dimension, partial sums take one matrix a split.
  const std::int64_t most = std::max({a, b, c, d, batch * p.m * p.n * p.splits, (p.m + 512) * (p.n + 512)});
  const std::int64_t limit = settings.index_limit;
  return most <= limit - std::min<std::int64_t>(limit / 2, 1 << 20);
}

const GemmCores& all_gemm_cores() {
  static const GemmCores all("gemm", "DLPRIM_GEMM", gemm_cores::add_all);
  return all;
}

void define_shape(KernelSource& source, const GemmKey& key, std::initializer_list<const char*> names) {
  for (const std::uint16_t* size = key.shape; const char* name : names) source.define(name, *size++);
}

int tf32_passes(const GemmProblem& problem) {
  return problem.type != DataType::float32 ? 0 : problem.allow_tf32 ? 1 : 3;
}

GemmKey gemm_key(const GemmCore* core, const GemmProblem& problem) {
  GemmKey key{};
  key.core = core, key.mode = std::uint8_t(problem.mode), key.type = std::uint8_t(problem.type);
  key.result = std::uint8_t(result_type(problem));
  if (problem.mode != GemmMode::plain) {
    key.rank = std::uint8_t(problem.rank), key.check = problem.check;
    key.channel_inner = problem.channel_inner;
  }
  key.addend = problem.addend.memory != nullptr, key.residual = problem.residual.memory != nullptr;
  key.activation = std::uint8_t(problem.activation);
  if (const auto& scaled = problem.scaled) {
    key.kinds = std::uint8_t(1 + int(scaled->a_kind) + 8 * int(scaled->b_kind));
    key.scales = scaled->lines ? 2 : 1, key.exact_sums = scaled->exact_sums;
  }
  if (problem.quantized) key.scales = 2, key.kinds = problem.quantized->x == DataType::uint8 ? 128 : 129;
  if (problem.groups) key.grouped = problem.groups->of_k ? 2 : 1;
  if (core && core->passes) key.passes = std::uint8_t(tf32_passes(problem));
  key.wide_index = !fits_32_bits(problem);
  return key;
}

Kernel& gemm_kernel(Device& device, const GemmKey& key) {
  static KernelCache<GemmKey> cache;
  return cache.get(device, key, [&] { return gemm_source(device, key); });
}

void launch_gemm(Queue& queue, Kernel& kernel, const GemmKey& key, const GemmProblem& problem, NDRange range,
                 BufferRef a, BufferRef output, std::span<const std::byte> first, std::span<const BufferRef> more,
                 std::span<const std::byte> last) {
  std::array<std::byte, 16> alpha, beta;
  const auto alpha_bytes = scalar_bytes(problem.type, problem.alpha, alpha);
  const auto beta_bytes = scalar_bytes(problem.type, problem.beta, beta);
  const BufferRef addend = problem.addend.memory ? problem.addend : output;
  const std::span<const BufferRef> residual(&problem.residual, key.residual ? 1 : 0);
  BufferRef both[2];
  if (of_bytes(key)) both[0] = both[1] = problem.quantized->scale;
  else if (key.scales) both[0] = problem.scaled->a_scale, both[1] = problem.scaled->b_scale;
  const std::span<const BufferRef> scales(both, key.scales ? 2 : 0);
  const std::span<const BufferRef> ends(problem.groups ? &problem.groups->ends : nullptr, key.grouped ? 1 : 0);
  const auto run = [&](const auto& parameters) {
    const auto with = [&](const auto&... before) {
      const auto all = [&](const auto&... behind) {
        launch(queue, kernel, range, before..., a, problem.b, output, addend, parameters, alpha_bytes, beta_bytes,
               residual, scales, ends, more, behind...);
      };
      if (last.empty()) all();
      else all(last);
    };
    if (first.empty()) with();
    else with(first);
  };
  if (key.wide_index) run(problem.p);
  else run(narrow(problem.p));
}

namespace {
// What finishes C from partial sums; one program for products, convolutions and their gradients.
constexpr GemmCore reduction{.name = "reduce", .order = 0, .kernel = "reduce", .a_of_sums = true};

constexpr GemmCore reduction_of_rows{.name = "reduce", .order = 0, .kernel = "reduce_rows", .a_of_sums = true};

// The same of plain products whose results lie in fours.
void reduce_rows(Queue& queue, const GemmProblem& problem, BufferRef partial) {
  const auto& p = problem.p;
  GemmKey key = gemm_key(&reduction_of_rows, problem);
  key.addend = 1;
  Kernel& kernel = gemm_kernel(queue.device(), key);
  const std::size_t most = kernel.work_group(queue.device().info().cpu ? 64 : 256);
  const std::size_t fours = std::size_t(p.m * p.n / 4), items = fours * std::size_t(problem.batches);
  std::size_t lines = 1;
  while (lines < 8 && 64 * lines <= most / 2 && std::int64_t(4 * lines) < p.splits && lines * items < 262144)
    lines *= 2;
  launch_gemm(queue, kernel, key, problem, NDRange(fours, lines, std::size_t(problem.batches), most / lines, lines, 1),
              partial, problem.c);
}

void reduce(Queue& queue, GemmProblem problem, BufferRef partial) {
  auto& p = problem.p;
  const bool single = accumulate_type(problem.type) == DataType::float32;
  if (single && problem.mode == GemmMode::plain && !p.share && vectors(problem, 4).c) {
    if (!problem.addend.memory) problem.beta = 0;
    return reduce_rows(queue, problem, partial);
  }
  if (problem.mode != GemmMode::convolution) {
    p.out[0] = p.out[1] = 1, p.out[2] = p.n;
    p.y_stride[0] = p.y_stride[1] = p.y_n = 0, p.y_stride[2] = p.c_n;
  }
  if (!problem.addend.memory) problem.beta = 0;
  GemmKey key = gemm_key(&reduction, problem);
  key.mode = std::uint8_t(GemmMode::convolution), key.rank = 3, key.check = key.channel_inner = 0, key.addend = 1;
  Kernel& kernel = gemm_kernel(queue.device(), key);
  const std::size_t most = kernel.work_group(queue.device().info().cpu ? 64 : 256);
  const std::size_t lines = p.splits >= 16 && most >= 64 ? 4 : 1;
  launch_gemm(queue, kernel, key, problem,
              NDRange(std::size_t(p.m * p.n), lines, std::size_t(problem.batches), most / lines, lines, 1), partial,
              problem.c);
}

// How cores for matrix units read the addend and the residual.
void set_epilogue(GemmKey& key, const GemmProblem& problem) {
  const auto& p = problem.p;
  const bool words = size_of(result_type(problem)) == 2;
  const auto pairs = [&](const BufferRef& data, std::initializer_list<std::int64_t> strides) {
    const auto even = [](std::int64_t stride) { return stride % 2 == 0; };
    return words && data.offset % 4 == 0 && std::all_of(strides.begin(), strides.end(), even);
  };
  if (key.addend) {
    const bool fits = !words || pairs(problem.addend, {p.d_batch});
    Addend how = Addend::any;
    const bool held = key.core->holds_addend && key.vc == 8 && words && p.n % 8 == 0;
    if (p.d_m == 0 && p.d_n == 1 && held && problem.addend.offset % 16 == 0 && p.d_batch % 8 == 0)
      how = Addend::held_along_n;
    else if (p.d_m == 0 && p.d_n == 1 && fits) how = Addend::along_n;
    else if (p.d_n == 0 && p.d_m == 1 && fits) how = Addend::along_m;
    else if (p.d_n == 1 && pairs(problem.addend, {p.d_batch, p.d_m})) how = Addend::pairs_along_n;
    else if (p.d_m == 1 && pairs(problem.addend, {p.d_batch, p.d_n})) how = Addend::pairs_along_m;
    key.addend = std::uint8_t(how);
  }
  if (key.residual && pairs(problem.residual, {})) key.residual = 2;  // as pairs
}
}  // namespace

void launch_tiles(Queue& queue, GemmKey key, const GemmProblem& problem, std::size_t group, std::int64_t most_groups,
                  std::span<const std::byte> first) {
  const auto& p = problem.p;
  const std::int64_t groups =
      p.share ? divide_up(p.shares, p.share) : p.tiles_m * p.tiles_n * problem.batches * p.splits;
  const NDRange range(std::size_t(std::min(groups, most_groups)) * group, group);
  if (key.core->passes && p.splits == 1) set_epilogue(key, problem);
  if (p.splits == 1)
    return launch_gemm(queue, gemm_kernel(queue.device(), key), key, problem, range, problem.a, problem.c, first);
  if (!key.both || key.stream) key.split = 1, key.addend = key.activation = key.residual = key.scales = 0;
  const std::size_t bytes =
      std::size_t(problem.batches * p.splits * p.m * p.n) * size_of(accumulate_type(problem.type));
  const Workspace partial(queue, bytes);
  launch_gemm(queue, gemm_kernel(queue.device(), key), key, problem, range, problem.a, partial.data(), first);
  reduce(queue, problem, partial.data());
}

namespace {

// A pointwise convolution whose points lie at one distance throughout, as with channels last, is a plain product.
void make_plain(GemmProblem& problem) {
  auto& p = problem.p;
  if (problem.mode == GemmMode::plain || problem.check || problem.rank != 1) return;
  if (p.taps[2] != 1 || p.step[2] != 1 || p.start[2] != 0) return;
  const bool convolution = problem.mode == GemmMode::convolution;
  if ((convolution ? p.n : p.k) > p.out[2] && (p.x_n != p.out[2] * p.x_stride[2] || p.y_n != p.out[2] * p.y_stride[2]))
    return;
  problem.mode = GemmMode::plain, problem.channel_inner = false;
  (convolution ? p.b_k : p.b_n) = p.x_c, (convolution ? p.b_n : p.b_k) = p.x_stride[2];
  (convolution ? p.c_n : p.a_k) = p.y_stride[2];
}

}  // namespace

void transpose(GemmProblem& problem) {
  auto& p = problem.p;
  std::swap(problem.a, problem.b), std::swap(p.m, p.n);
  std::swap(problem.kept_a, problem.kept_b);
  std::swap(p.a_batch, p.b_batch), std::swap(p.a_m, p.b_n), std::swap(p.a_k, p.b_k);
  std::swap(p.c_m, p.c_n), std::swap(p.d_m, p.d_n);
  if (!problem.scaled) return;
  std::swap(problem.scaled->a_kind, problem.scaled->b_kind);
  std::swap(problem.scaled->a_scale, problem.scaled->b_scale);
}

void run_gemm(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = given;
  make_plain(problem);
  const bool columns = problem.mode == GemmMode::plain && problem.p.c_m == 1 && problem.p.c_n != 1;
  if (columns) transpose(problem);  // the cores store rows
  all_gemm_cores().run(&choose_core(queue, problem), queue, problem);
}

}  // namespace dlprim
