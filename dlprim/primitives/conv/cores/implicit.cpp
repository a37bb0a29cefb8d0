// SPDX-License-Identifier: MIT
// Convolution as implicit GEMM: how each pass reads its operands.
#include "../../../tuning/store.hpp"
#include "../problem.hpp"
#include "../../gemm/core.hpp"

#include <numeric>
#include <vector>

namespace dlprim::conv_cores {

namespace {

// Elements from a volume's first to its last, that one included, when all strides are positive.
std::int64_t extent(const Volume& v) {
  std::int64_t last = (v.outer - 1) * v.outer_stride + (v.channels - 1) * v.channel_stride;
  for (int i = 0; i < 3; i++) last += (v.size[i] - 1) * v.stride[i];
  return last + 1;
}

bool channels_last(const Volume& v) { return v.channels > 1 && v.channel_stride == 1 && v.stride[2] != 1; }

// The gathered operand: `x` read at points of `out` sizes.
void set_gather(GemmProblem& problem, const Volume& x, const std::int64_t (&out)[3], const std::int64_t (&taps)[3],
                std::int64_t channels) {
  auto& p = problem.p;
  problem.b = x.data;
  p.x_size = extent(x), p.x_n = x.outer_stride, p.x_c = x.channel_stride, p.channels = channels;
  for (int i = 0; i < 3; i++) p.x_stride[i] = x.stride[i], p.in[i] = x.size[i], p.out[i] = out[i], p.taps[i] = taps[i];
}

// Drops what needs no code: bounds that always hold, dimensions that can be merged into the next inner one.
void simplify(GemmProblem& problem) {
  auto& p = problem.p;
  problem.check = false;
  for (int i = 0; i < 3; i++) {
    const std::int64_t first = p.start[i] + std::min<std::int64_t>(0, (p.taps[i] - 1) * p.tap_step[i]);
    const std::int64_t last =
        p.start[i] + (p.out[i] - 1) * p.step[i] + std::max<std::int64_t>(0, (p.taps[i] - 1) * p.tap_step[i]);
    problem.check |= first < 0 || last >= p.in[i];
  }
  auto trivial = [&](int i) { return p.taps[i] == 1 && p.step[i] == 1 && p.start[i] == 0; };
  for (int i = 0; i < 2 && !problem.check; i++)
    if (trivial(i) && trivial(i + 1) && p.x_stride[i] == p.x_stride[i + 1] * p.out[i + 1] &&
        p.y_stride[i] == p.y_stride[i + 1] * p.out[i + 1]) {
      p.out[i + 1] = p.out[i + 1] * p.out[i], p.in[i + 1] = p.out[i + 1];
      p.out[i] = p.in[i] = 1, p.x_stride[i] = p.y_stride[i] = 0;
    }
  problem.rank = 1;
  for (int i = 0; i < 2; i++)
    if (problem.rank == 1 && (p.out[i] > 1 || p.taps[i] > 1 || p.start[i] != 0)) problem.rank = 3 - i;
}

// Whether each image's convolution is a plain product, for its one tap, without padding and stride, and images do not
// lie in a row as if they were one.
bool is_plain(const GemmProblem& problem) {
  const auto& p = problem.p;
  if (p.taps[2] != 1 || problem.rank != 1 || problem.check || p.step[2] != 1 || p.start[2] != 0) return false;
  return problem.batches == 1 && p.k > 0 && p.n > p.out[2] && p.x_n != p.out[2] * p.x_stride[2];
}

// The same as a batch of such products.
GemmProblem as_plain(GemmProblem problem) {
  auto& p = problem.p;
  problem.mode = GemmMode::plain, problem.batches = p.n / p.out[2], p.n = p.out[2];
  p.b_k = p.x_c, p.b_n = p.x_stride[2], p.c_n = p.y_stride[2];
  p.a_batch = 0, p.b_batch = p.x_n, p.c_batch = p.y_n, p.d_batch = 0;
  return problem;
}

// Whether Hopper's copy engine brings the operands as they lie, and the products are large: launches of small ones take
// longer. On CPUs, whether they have dot products for them.
bool plain_pays(const Device& device, const GemmProblem& plain) {
  if (device.info().cpu) return plain.p.k % 2 == 0 && reads_words_together(device, plain.type);
  const GemmCores& cores = all_gemm_cores();
  const auto& p = plain.p;
  if (!cores.forced()) {
    static tuning::Numbers<1> large("conv.plain");
    if (2 * double(p.m) * double(p.n) * double(p.k) * double(plain.batches) < large(device)[0]) return false;
    const Vectors lie = vectors(plain, int(16 / size_of(plain.type)));
    if (!lie.b || !lie.c) return false;
  }
  const auto taken = [&](const char* core) {
    return !cores.decline(*cores.find(core), device, plain, cores.forces(core));
  };
  return taken("tma") || taken("tma_registers");
}

void run_convolution(Queue& queue, const GemmProblem& problem) {
  if (is_plain(problem))
    if (const GemmProblem plain = as_plain(problem); plain_pays(queue.device(), plain)) return run_gemm(queue, plain);
  run_gemm(queue, problem);
}

void set_bias(GemmProblem& problem, const TensorView& bias, std::int64_t rows) {
  if (!bias.defined()) return;
  problem.addend = bias.data, problem.beta = 1;
  problem.p.d_m = bias.stride(0), problem.p.d_batch = rows * bias.stride(0);
}

BufferRef at(const BufferRef& data, std::int64_t elements, DataType type) {
  return {data.memory, data.offset + std::size_t(elements * std::int64_t(size_of(type)))};
}

// One dimension of the gradient of x at positions congruent to `phase` modulo the stride.
struct Phase {
  std::int64_t size, taps, first_tap, tap_every, start, tap_step;
};

Phase find_phase(std::int64_t phase, std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                 std::int64_t dilation) {
  Phase r{(size - phase + stride - 1) / stride, 0, 0, stride / std::gcd(stride, dilation), 0, 0};
  for (std::int64_t k = kernel - 1; k >= 0; k--)
    if ((phase + padding - k * dilation) % stride == 0) r.first_tap = k, r.taps++;
  r.start = (phase + padding - r.first_tap * dilation) / stride;
  r.tap_step = -(r.tap_every * dilation / stride);
  return r;
}

struct Phases {
  Phase in[3];  // one each dimension
  std::int64_t offset[3];  // the residues of the position
  std::int64_t taps() const { return in[0].taps * in[1].taps * in[2].taps; }
};

// Each residue of the position modulo the stride sees its own taps, at stride 1.
std::vector<Phases> find_phases(const ConvShape& s) {
  std::vector<Phases> all;
  const bool empty = s.points() == 0;
  std::int64_t at[3];
  for (at[0] = 0; at[0] < std::min(s.stride[0], s.x.size[0]); at[0]++)
    for (at[1] = 0; at[1] < std::min(s.stride[1], s.x.size[1]); at[1]++)
      for (at[2] = 0; at[2] < std::min(s.stride[2], s.x.size[2]); at[2]++) {
        Phases& phases = all.emplace_back(Phases{{}, {at[0], at[1], at[2]}});
        for (int i = 0; i < 3; i++)
          phases.in[i] =
              find_phase(at[i], s.x.size[i], empty ? 0 : s.w.size[i], s.stride[i], s.padding[i], s.dilation[i]);
      }
  return all;
}

// `k_unit` divides every phase's k, `k_longest` is the largest of them.
void backward_data_phase(Queue& queue, const ConvShape& s, const TensorView& bias, const Phases& phases,
                         std::int64_t k_unit, std::int64_t k_longest) {
  const auto& [phase, offset] = phases;
  const std::int64_t per_group_x = s.w.channels, per_group_y = s.y.channels / s.groups;
  const bool tap_outer = channels_last(s.y);
  GemmProblem problem;
  problem.mode = GemmMode::convolution, problem.type = s.type, problem.allow_tf32 = s.allow_tf32,
  problem.batches = s.groups;
  problem.channel_inner = tap_outer;
  WeightOrder order{per_group_x, per_group_y, s.w.channel_stride, s.w.outer_stride, per_group_y * s.w.outer_stride, {},
                    {},          {},          tap_outer};
  std::int64_t out[3], taps[3], places = 1, tap_count = 1, base = 0, from = 0;
  for (int i = 0; i < 3; i++) {
    out[i] = phase[i].size, taps[i] = phase[i].taps;
    places *= out[i], tap_count *= taps[i], base += offset[i] * s.x.stride[i];
    order.taps[i] = taps[i], order.first[i] = phase[i].first_tap, order.step[i] = phase[i].tap_every;
  }
  auto& p = problem.p;
  p.m = per_group_x, p.n = s.x.outer * places, p.k = per_group_y * tap_count, problem.k_unit = k_unit;
  problem.k_longest = k_longest;
  if (p.n == 0) return;
  Workspace weights;
  set_gather(problem, s.y, out, taps, per_group_y);
  p.b_batch = per_group_y * s.y.channel_stride;
  // CPUs' cores read rows of any strides, if those of groups only where these follow each other.
  if (tap_count == 1 && s.groups == 1 && queue.device().info().cpu) {
    for (int i = 0; i < 3; i++) from += phase[i].first_tap * s.w.stride[i];
    problem.a = at(s.w.data, from, s.type);
    p.a_m = s.w.channel_stride, p.a_k = s.w.outer_stride, p.a_batch = per_group_y * s.w.outer_stride;
  } else {
    if (p.k > 0) weights = ordered_weights(queue, s, order);
    else
      for (auto& t : p.taps) t = 1;
    problem.a = p.k > 0 ? weights.data() : s.w.data;
    p.a_m = p.k, p.a_k = 1, p.a_batch = p.m * p.k;
  }
  problem.c = at(s.x.data, base, s.type), p.c_m = s.x.channel_stride, p.c_batch = per_group_x * p.c_m;
  p.y_n = s.x.outer_stride;
  for (int i = 0; i < 3; i++) {
    p.start[i] = phase[i].start, p.tap_step[i] = phase[i].tap_step;
    p.y_stride[i] = s.x.stride[i] * s.stride[i];
  }
  set_bias(problem, bias, per_group_x);
  simplify(problem);
  run_convolution(queue, problem);
}

// The rows of weights, as the product asks for them, copied where they lie otherwise.
void set_weights(Queue& queue, GemmProblem& problem, const ConvShape& s, Workspace& copy) {
  auto& p = problem.p;
  if (p.k > 0 && dense(s.w, problem.channel_inner)) {
    problem.a = s.w.data, p.a_m = s.w.outer_stride;
  } else if (p.k > 0) {
    WeightOrder order{p.m,
                      s.w.channels,
                      s.w.outer_stride,
                      s.w.channel_stride,
                      p.m * s.w.outer_stride,
                      {s.w.size[0], s.w.size[1], s.w.size[2]},
                      {0, 0, 0},
                      {1, 1, 1},
                      problem.channel_inner};
    copy = ordered_weights(queue, s, order);
    problem.a = copy.data(), p.a_m = p.k;
  } else {
    problem.a = problem.b = s.y.data;
  }
  p.a_k = 1, p.a_batch = p.m * p.a_m;
}

void forward(Queue& queue, const ConvProblem& c) {
  GemmProblem problem = windows_product(c, channels_last(c.shape.x));
  Workspace copy;
  set_weights(queue, problem, c.shape, copy);
  run_convolution(queue, problem);
}

void data_gradient(Queue& queue, const ConvProblem& c) {
  const ConvShape& s = c.shape;
  const std::vector<Phases> all = find_phases(s);
  // Positions that no tap reaches: cleared at once where the gradient is one block, else by their own phases.
  const bool gaps = std::ranges::any_of(all, [](const Phases& phases) { return phases.taps() == 0; }) &&
                    !c.bias.defined() && extent(s.x) == c.x.numel();
  if (gaps) {
    const std::uint32_t zero = 0;
    queue.fill(c.x.data, &zero, std::min<std::size_t>(4, size_of(s.type)), std::size_t(c.x.numel()) * size_of(s.type));
  }
  std::int64_t k_unit = 0, k_longest = 0;
  for (const Phases& phases : all) {
    const std::int64_t k = s.y.channels / s.groups * phases.taps();
    k_unit = std::gcd(k_unit, k), k_longest = std::max(k_longest, k);
  }
  for (const Phases& phases : all)
    if (!gaps || phases.taps() > 0) backward_data_phase(queue, s, c.bias, phases, k_unit, k_longest);
}

}  // namespace

GemmProblem windows_product(const ConvProblem& c, bool channel_inner) {
  const ConvShape& s = c.shape;
  GemmProblem problem;
  problem.mode = GemmMode::convolution, problem.type = s.type, problem.allow_tf32 = s.allow_tf32,
  problem.activation = c.activation;
  problem.batches = s.groups, problem.channel_inner = channel_inner, problem.kept_a = c.kept;
  auto& p = problem.p;
  p.m = s.y.channels / s.groups, p.n = s.points(), p.k = s.w.channels * s.taps();
  set_gather(problem, s.x, s.y.size, s.w.size, s.w.channels);
  p.b_batch = s.w.channels * s.x.channel_stride;
  problem.c = s.y.data, p.c_m = s.y.channel_stride, p.c_batch = p.m * p.c_m, p.y_n = s.y.outer_stride;
  for (int i = 0; i < 3; i++) {
    p.step[i] = s.stride[i], p.start[i] = -s.padding[i], p.tap_step[i] = s.dilation[i];
    p.y_stride[i] = s.y.stride[i];
  }
  set_bias(problem, c.bias, p.m);
  if (c.residual.defined()) problem.residual = c.residual.data;
  simplify(problem);
  return problem;
}

GemmProblem weights_product(const ConvShape& s) {
  GemmProblem problem;
  problem.mode = GemmMode::weights_gradient, problem.type = s.type, problem.allow_tf32 = s.allow_tf32,
  problem.batches = s.groups;
  const bool tap_inner = dense(s.w, false), tap_outer = dense(s.w, true);
  problem.channel_inner = tap_outer && (!tap_inner || channels_last(s.x));
  if (!tap_inner && !tap_outer)
    throw ValidationError(
        "[conv_backward_weights] expected a dense gradient, row-major or channels last, got other strides");
  auto& p = problem.p;
  p.m = s.y.channels / s.groups, p.n = s.w.channels * s.taps(),
  p.k = s.x.outer * s.x.size[0] * s.x.size[1] * s.x.size[2] > 0 ? s.points() : 0;
  set_gather(problem, s.x, s.y.size, s.w.size, s.w.channels);
  problem.a = s.y.data, p.y_size = extent(s.y), p.a_m = s.y.channel_stride, p.a_batch = p.m * p.a_m;
  p.b_batch = s.w.channels * s.x.channel_stride, p.y_n = s.y.outer_stride;
  if (p.k == 0) problem.a = problem.b = s.w.data;
  problem.c = s.w.data, p.c_m = s.w.outer_stride, p.c_n = 1, p.c_batch = p.m * p.c_m;
  for (int i = 0; i < 3; i++) {
    p.step[i] = s.stride[i], p.start[i] = -s.padding[i], p.tap_step[i] = s.dilation[i];
    p.y_stride[i] = s.y.stride[i];
  }
  simplify(problem);
  return problem;
}

namespace {

void weights_gradient(Queue& queue, const ConvProblem& c) { run_gemm(queue, weights_product(c.shape)); }

bool same_layout(const TensorView& a, const TensorView& b) {
  return std::ranges::equal(a.shape(), b.shape()) &&
         std::equal(a.strides.begin(), a.strides.begin() + a.dims, b.strides.begin());
}

const char* decline(const Device&, const ConvProblem&, bool) { return nullptr; }

void run(Queue& queue, const ConvProblem& c) {
  switch (c.pass) {
    case ConvPass::forward:
      if (c.residual.defined() && !same_layout(c.residual, c.y)) return add_residual_behind(queue, c, forward);
      return forward(queue, c);
    case ConvPass::data: return data_gradient(queue, c);
    case ConvPass::weights: return weights_gradient(queue, c);
  }
}

constexpr ConvCore core{.name = "implicit", .order = 600, .decline = decline, .run = run};

}  // namespace

void implicit(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
