// SPDX-License-Identifier: MIT
// Gradients of attention by the engine's products, for rows of any width. Scores are in memory for a few heads at a
// time, or for a section of a head's queries and keys.
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/gemm.hpp>

#include <cmath>

#include "../../../tuning/store.hpp"
#include "../../grid.hpp"
#include "../problem.hpp"

namespace dlprim::attention_cores {

namespace {

struct Key {
  std::uint8_t type, bias, causal, dropout;
};

// As kernels/attention/products.cl has it.
struct Section {
  std::int32_t unit, units, query, queries, key, keys, row;
};

struct Lengths {
  std::int64_t units, queries, keys;
};

// MiB of scores, fewest queries times keys, most queries of a section with a causal mask.
const std::array<double, 3>& limits(const Device& device) {
  static tuning::Numbers<3> numbers("attention.products");
  return numbers(device);
}

std::int64_t sixteens(std::int64_t length) { return divide_up(length, 16) * 16; }

// The length of equal parts, a multiple of 16, as `most` counts but for those below 16.
std::int64_t part_of(std::int64_t length, std::int64_t most) {
  const std::int64_t longest = std::max<std::int64_t>(most / 16 * 16, 16), parts = divide_up(length, longest);
  return sixteens(divide_up(length, parts));
}

// The most that a section has. A section adds to the sums of its queries and of its keys, so short ones cost: queries
// are split down to a thousand before keys are split.
Lengths longest_section(const Device& device, const AttentionProblem& x) {
  const std::int64_t all_queries = std::max(x.p.queries, 1), all_keys = std::max(x.p.keys, 1);
  const auto& [mib, fewest, most_causal] = limits(device);
  const double bytes = x.type == DataType::float32 ? 8 : 12;
  // Positions of scores in memory are below 2^31.
  const auto all = std::int64_t(std::min(mib * 0x1p20 / bytes, 0x1p30));
  const std::int64_t scores = std::max<std::int64_t>(all / x.p.sharing, 256);
  const std::int64_t least = std::min<std::int64_t>(1024, std::int64_t(std::sqrt(double(scores))));
  std::int64_t queries = std::max(scores / sixteens(all_keys), least);
  if (x.causal) queries = std::min(queries, std::int64_t(most_causal));
  queries = part_of(all_queries, queries);
  const std::int64_t keys = part_of(all_keys, scores / queries);
  return {std::max<std::int64_t>(scores / (queries * keys), 1), queries, keys};
}

// [batch, heads of keys, rows, heads that share keys, width]
TensorView view_of(const AttentionProblem& x, BufferRef data, const AttentionLayout& of, std::int64_t rows,
                   std::int64_t sharing, std::int64_t width) {
  const std::int64_t sizes[] = {x.p.batch, x.p.heads / x.p.sharing, rows, sharing, width};
  const std::int64_t strides[] = {of.batch, of.head * sharing, of.row, of.head, 1};
  return {data, x.type, sizes, strides};
}

// The same elements as [heads of keys, rows, width], in their own memory where strides allow that and the type is
// theirs, otherwise in a workspace.
class Matrices {
 public:
  Matrices(Queue& queue, const TensorView& x, DataType type) : queue_(queue), tensor_(x) {
    const auto& n = x.sizes;
    const auto& s = x.strides;
    const auto join = [&](int d) { return n[d] == 1 || n[d + 1] == 1 || s[d] == n[d + 1] * s[d + 1]; };
    const std::int64_t sizes[] = {n[0] * n[1], n[2] * n[3], n[4]};
    const std::int64_t strides[] = {n[1] == 1 ? s[0] : s[1], n[3] == 1 ? s[2] : s[3], 1};
    apart_ = type != x.dtype || !join(0) || !join(2);
    if (!apart_) view = TensorView(x.data, type, sizes, strides);
    else {
      memory_ = Workspace(queue, std::max<std::size_t>(std::size_t(x.numel()) * size_of(type), 1));
      view = TensorView(memory_.data(), type, sizes);
      like_ = TensorView(memory_.data(), type, x.shape());
    }
  }
  static Matrices of(Queue& queue, const TensorView& x) {
    Matrices result(queue, x, x.dtype);
    if (result.apart_) copy(queue, result.like_, x);
    return result;
  }
  void store() const {
    if (apart_) copy(queue_, tensor_, like_);
  }
  TensorView view;

 private:
  Queue& queue_;
  TensorView tensor_, like_;
  Workspace memory_;
  bool apart_;
};

TensorView transposed(TensorView x) {
  std::swap(x.sizes[1], x.sizes[2]), std::swap(x.strides[1], x.strides[2]);
  return x;
}

void multiply(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& c, double alpha, bool add) {
  gemm(queue, a, b, c, {.alpha = alpha, .beta = add ? 1.0 : 0.0, .addend = c});
}

class Backward {
 public:
  Backward(Queue& queue, const AttentionProblem& x)
      : queue_(queue), x_(x), most_(longest_section(queue.device(), x)), delta_(attention_delta(queue, x)),
        q_(view_of(x, x.q, p_.q, p_.queries, p_.sharing, p_.width)), k_(view_of(x, x.k, p_.k, p_.keys, 1, p_.width)),
        v_(view_of(x, x.v, p_.v, p_.keys, 1, p_.value_width)),
        out_(view_of(x, x.grad_out, p_.grad_out, p_.queries, p_.sharing, p_.value_width)),
        grad_q_(view_of(x, x.grad_q, p_.grad_q, p_.queries, p_.sharing, p_.width)),
        grad_k_(view_of(x, x.grad_k, p_.grad_k, p_.keys, 1, p_.width)),
        grad_v_(view_of(x, x.grad_v, p_.grad_v, p_.keys, 1, p_.value_width)) {}

  void run() {
    if (p_.queries == 0 || p_.keys == 0) {
      for (const TensorView* x : {&grad_q_, &grad_k_, &grad_v_}) fill(queue_, *x, 0);
      return;
    }
    const std::int64_t key_heads = grad_k_.size(1);
    const std::int64_t parts = divide_up(key_heads, most_.units), heads = divide_up(key_heads, parts);
    const std::int64_t batches = std::max<std::int64_t>(most_.units / key_heads, 1);
    const std::size_t scores =
        std::size_t(std::min(batches, grad_k_.size(0)) * heads * p_.sharing * most_.queries * most_.keys);
    for (Workspace& memory : scores_) memory = Workspace(queue_, scores * sizeof(float));
    if (x_.type != DataType::float32)
      for (Workspace& memory : rounded_) memory = Workspace(queue_, scores * size_of(x_.type));
    for (std::int64_t batch = 0; batch < p_.batch; batch += batches)
      for (std::int64_t head = 0; head < key_heads; head += heads)
        run(batch, std::min(batches, p_.batch - batch), head, std::min(heads, key_heads - head));
  }

 private:
  void run(std::int64_t batch, std::int64_t batches, std::int64_t head, std::int64_t heads) {
    const auto own = [&](const TensorView& x) { return x.narrowed(0, batch, batches).narrowed(1, head, heads); };
    const bool split = most_.queries < p_.queries;
    // Sections that add begin from 0, as do keys that no query sees.
    add_ = split || (x_.causal && p_.keys > p_.queries);
    const DataType sums = split ? DataType::float32 : x_.type;
    const Matrices k = Matrices::of(queue_, own(k_)), v = Matrices::of(queue_, own(v_));
    const Matrices grad_k(queue_, own(grad_k_), sums), grad_v(queue_, own(grad_v_), sums);
    if (add_) fill(queue_, grad_k.view, 0), fill(queue_, grad_v.view, 0);
    for (std::int64_t first = 0; first < p_.queries; first += most_.queries) {
      const std::int64_t queries = std::min(most_.queries, p_.queries - first);
      const std::int64_t end = x_.causal ? std::min<std::int64_t>(p_.keys, first + queries) : p_.keys;
      const auto rows = [&](const TensorView& x) { return own(x).narrowed(2, first, queries); };
      const Matrices q = Matrices::of(queue_, rows(q_)), out = Matrices::of(queue_, rows(out_));
      const Matrices grad_q(queue_, rows(grad_q_), end > most_.keys ? DataType::float32 : x_.type);
      for (std::int64_t key = 0; key < end; key += most_.keys) {
        const std::int64_t keys = std::min(most_.keys, end - key);
        const auto part = [&](const Matrices& x) { return x.view.narrowed(1, key, keys); };
        const Section section{std::int32_t(batch * k_.size(1) + head),
                              std::int32_t(batches * heads),
                              std::int32_t(first),
                              std::int32_t(queries),
                              std::int32_t(key),
                              std::int32_t(keys),
                              std::int32_t(sixteens(keys))};
        run(section, q.view, out.view, part(k), part(v), grad_q.view, part(grad_k), part(grad_v));
      }
      grad_q.store();
    }
    grad_k.store(), grad_v.store();
  }

  void run(const Section& s, const TensorView& q, const TensorView& out, const TensorView& k, const TensorView& v,
           const TensorView& grad_q, const TensorView& grad_k, const TensorView& grad_v) {
    const bool in_place = x_.type == DataType::float32;
    const std::int64_t rows = q.size(1), sizes[] = {s.units, rows, s.keys}, strides[] = {rows * s.row, s.row, 1};
    const auto matrices = [&](const Workspace& memory, DataType type) {
      return TensorView(memory.data(), type, sizes, strides);
    };
    const TensorView scores = matrices(scores_[0], DataType::float32), dp = matrices(scores_[1], DataType::float32);
    const TensorView power = in_place ? scores : matrices(rounded_[0], x_.type);
    const TensorView ds = in_place ? dp : matrices(rounded_[1], x_.type);
    multiply(queue_, q, transposed(k), scores, 1, false);
    multiply(queue_, out, transposed(v), dp, 1, false);
    const BufferRef bias[] = {x_.bias};
    const std::size_t items = std::size_t(s.units) * p_.sharing * sixteens(s.queries) / 2 * (s.row / 8);
    launch(queue_, kernel(), NDRange(items, queue_.device().info().cpu ? 16 : 128), p_, s,
           std::span<const BufferRef>(bias, x_.bias_type ? 1 : 0), x_.logsumexp, delta_.data(), scores.data, dp.data,
           power.data, ds.data);
    multiply(queue_, transposed(power), out, grad_v, p_.keep_scale, add_);
    multiply(queue_, transposed(ds), q, grad_k, p_.scale, add_);
    multiply(queue_, ds, k, grad_q, p_.scale, s.key > 0);
  }

  Kernel& kernel() {
    static KernelCache<Key> cache;
    const Key key{std::uint8_t(x_.type), bias_code(x_), x_.causal, x_.dropout};
    return cache.get(queue_.device(), key, [&] {
      KernelSource source("attention/products.cl", "attention_products");
      define_attention(source, key.bias, key.causal, key.dropout);
      return source.define("TAG", tag(DataType(key.type)));
    });
  }

  Queue& queue_;
  const AttentionProblem& x_;
  const AttentionParams& p_ = x_.p;
  const Lengths most_;
  const Workspace delta_;
  const TensorView q_, k_, v_, out_, grad_q_, grad_k_, grad_v_;
  Workspace scores_[2], rounded_[2];
  bool add_ = false;
};

const char* decline(const Device& device, const AttentionProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const auto& p = problem.p;
  const int widest = std::max(p.width, p.value_width);
  if (problem.type == DataType::float64) return "sums in float32";
  if (!problem.backward) return "only backward";
  if (problem.function) return "without functions";
  if (problem.other_scores && widest > 256) return "rows are too wide for the forward pass";
  if (forced) return nullptr;
  const bool words = problem.type != DataType::float32;
  if (info.cpu) return "only for GPUs";
  if (words && widest <= 128) return "rows fit in registers";
  if (double(p.queries) * p.keys < limits(device)[1]) return "too few queries and keys";
  // Where they fit in memory, it is the forward pass that decides: the products are the same.
  if (problem.other_scores && !(words && info.nv_compute_capability >= 80) &&
      *problem.other_scores * double(size_of(problem.type)) < double(info.global_memory) / 16)
    return "products and softmax are faster where the scores fit in memory";
  return nullptr;
}

void run(Queue& queue, const AttentionProblem& x) { Backward(queue, x).run(); }

constexpr AttentionCore core{.name = "products", .order = 250, .decline = decline, .run = run, .copies = true};

}  // namespace

void products(AttentionCores& cores) { cores.add(core); }

}  // namespace dlprim::attention_cores
