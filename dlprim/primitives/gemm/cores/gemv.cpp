// SPDX-License-Identifier: MIT
// The engine's core for GPUs and products of few rows or columns.
#include <bit>
#include <optional>

#include "../core.hpp"
#include "../several.hpp"

namespace dlprim {

namespace gemm_cores {

namespace {

extern const GemmCore core;

constexpr std::int64_t most_rows = 8;
constexpr std::int64_t local_bytes = 16384;  // for a work-group's sums

// The vector as a row; what is 1 long has no stride.
GemmProblem simplified(const GemmProblem& given) {
  GemmProblem problem = wide(given);
  auto& p = problem.p;
  if (p.m == 1) p.a_m = 0;
  if (p.n == 1) p.b_n = 0;
  if (problem.batches == 1) p.a_batch = p.b_batch = 0;
  return problem;
}

// Whether neighbours in B lie along k; the problem is wide.
bool lies_along_k(const GemmProblem& problem) {
  const auto& p = problem.p;
  return p.b_k == 1 || (p.b_n != 1 && p.b_n != 0 && std::abs(p.b_k) < std::abs(p.b_n)) || p.n == 1;
}

// How work-items share a product: gemm/gemv.cl.
struct Schedule {
  std::int64_t columns, lanes, lines, depth;
  std::int64_t groups(const GemmProblem& problem) const {
    return divide_up(problem.p.n, columns * lines) * problem.batches;
  }
  std::int64_t items(const GemmProblem& problem) const { return groups(problem) * lanes * lines; }
};

const std::array<double, 2>& limits(const Device& device) {
  static tuning::Numbers<2> all("gemm.gemv");
  return all(device);
}
// Work-items that keep memory busy.
std::int64_t wanted_items(const Device& device) {
  return std::int64_t(limits(device)[0]) * device.info().compute_units;
}

std::int64_t power_of_2(std::int64_t most) {
  return std::int64_t(std::bit_floor(std::uint64_t(std::max<std::int64_t>(most, 1))));
}

// Lanes lie along k: first as many as a warp has, then more of them, then fewer columns each.
Schedule along_k(const Device& device, const GemmProblem& problem, std::int64_t depth) {
  const std::int64_t group = std::min<std::int64_t>(128, power_of_2(std::int64_t(device.info().max_work_group)));
  const std::int64_t most = std::min(group, power_of_2(problem.p.k / (2 * depth)));
  Schedule s{problem.p.m > 4 ? 2 : 4, std::min<std::int64_t>(most, 32), 1, depth};
  const std::int64_t wanted = wanted_items(device);
  while (s.lanes < most && s.items(problem) < wanted) s.lanes *= 2;
  while (s.columns > 1 && s.items(problem) < wanted) s.columns /= 2;
  while (s.lanes * s.lines < group && s.columns * s.lines < problem.p.n) s.lines *= 2;
  return s;
}

// Groups that leave no compute unit with much more to do than others.
bool enough_groups(const Device& device, std::int64_t groups) {
  return groups >= 2 * std::int64_t(device.info().compute_units);
}

// Lines lie along n, 128 bytes of a row of B to a group; lanes are added until memory is busy. Too few groups stay
// small, for splits of k make more of them.
Schedule along_n(const Device& device, const GemmProblem& problem, std::int64_t columns) {
  const auto& p = problem.p;
  const std::int64_t bytes = std::int64_t(size_of(problem.type));
  if (p.m > 4) columns = std::min<std::int64_t>(columns, 4);
  const std::int64_t fitting = local_bytes / (columns * std::int64_t(size_of(accumulate_type(problem.type))));
  const std::int64_t group = std::min({power_of_2(std::int64_t(device.info().max_work_group)), power_of_2(fitting),
                                       std::int64_t(p.m > 4 ? 512 : 1024)});
  Schedule s{columns, 1, std::max<std::int64_t>(128 / (columns * bytes), 1), 1};
  s.lines = std::clamp<std::int64_t>(s.lines, 1, group);
  const std::int64_t most = std::min(group / s.lines, power_of_2(p.k / 4));
  s.lanes = std::min<std::int64_t>(most, std::max<std::int64_t>(256 / s.lines, 1));
  if (enough_groups(device, s.groups(problem)))
    while (s.lanes < most && s.items(problem) < wanted_items(device)) s.lanes *= 2;
  return s;
}

// Splits pay for their second kernel where compute units would idle and sums are long.
std::int64_t splits_of(const Device& device, const GemmProblem& problem, const Schedule& s, bool b_along_k) {
  const std::int64_t items = s.items(problem), steps = problem.p.k / (s.lanes * s.depth), groups = s.groups(problem);
  if (steps < 32 || (b_along_k ? 4 * items > wanted_items(device) : enough_groups(device, groups))) return 1;
  const std::int64_t wanted =
      b_along_k ? wanted_items(device) / items : 4 * std::int64_t(device.info().compute_units) / groups + 1;
  return std::clamp<std::int64_t>(std::min(wanted, steps / 16), 1, 256);
}

// The widest aligned pieces of A and B.
void set_pieces(GemmKey& key, const GemmProblem& problem) {
  for (std::uint8_t unit = 2; unit <= std::min<std::size_t>(16 / size_of(problem.type), 8); unit *= 2) {
    const Vectors v = vectors(problem, unit);
    if (!v.b) break;
    key.vb = unit;
    key.va = key.b_along_k && v.a && v.a_along_k ? unit : 1;
  }
}

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  const auto& p = problem.p;
  if (problem.mode != GemmMode::plain) return "only for matrices";
  if (p.k == 0) return "k is 0";
  if (std::min(p.m, p.n) > most_rows) return "too many rows and columns";
  if (forced) return nullptr;
  if (device.info().cpu) return "for GPUs";
  if (double(p.k) < limits(device)[1]) return "too short sums";
  if (device.info().nv_compute_capability >= 80 && std::min(p.m, p.n) > most_rows / 2 && !lies_along_k(wide(problem)))
    return "matrix units are faster";
  return nullptr;
}

void set_schedule(GemmProblem& problem, GemmKey& key, const Schedule& s) {
  auto& p = problem.p;
  p.tiles_m = 1, p.tiles_n = divide_up(p.n, s.columns * s.lines);
  key.wide_index = !fits_32_bits(problem);
  const std::int64_t shape[] = {p.m, s.columns, s.lanes, s.lines};
  std::copy(std::begin(shape), std::end(shape), key.shape);
}

void run(Queue& queue, const GemmProblem& given) {
  const Device& device = queue.device();
  GemmProblem problem = simplified(given);
  auto& p = problem.p;
  GemmKey key = gemm_key(&core, problem);
  key.b_along_k = lies_along_k(problem);
  set_pieces(key, problem);
  const Schedule s = key.b_along_k ? along_k(device, problem, key.vb) : along_n(device, problem, key.vb);
  if (!key.b_along_k) key.vb = std::uint8_t(s.columns);
  const std::int64_t splits = splits_of(device, problem, s, key.b_along_k), unit = s.depth;
  p.k_split = divide_up(divide_up(p.k, splits), unit) * unit;
  p.splits = divide_up(p.k, p.k_split);
  set_schedule(problem, key, s);
  launch_tiles(queue, key, problem, std::size_t(s.lanes * s.lines));
}

void define(KernelSource& source, const Device&, const GemmKey& key) {
  const auto type = DataType(key.type);
  const int bytes = int(size_of(type));
  define_shape(source, key, {"MR", "V", "LANES", "LINES"});
  source.define("VA", key.va).define("VB", key.vb).define("B_ALONG_K", key.b_along_k);
  source.define("A_BYTES", key.va * bytes).define("B_BYTES", key.vb * bytes).define("SHUFFLES", is_floating(type));
  source.define("MORE", key.more).define("GATED", key.gated != 0);
  if (key.gated) source.define("GATE(x0)", activation_code(Activation(key.gated - 1)));
}

constexpr GemmCore core{
    .name = "gemv", .order = 200, .kernel = "gemv", .decline = decline, .run = run, .define = define};

// A launch of several products: the kernel's key, and the problem with the schedule of `columns` in all.
struct Joined {
  GemmProblem problem;
  GemmKey key;
};

// None where this core is not the one for the problem, or one launch cannot take operands that begin as the others do.
std::optional<Joined> join(Queue& queue, const GemmProblem& given, std::int64_t columns,
                           std::span<const GemmPart> others) {
  Joined all{given, {}};
  auto& p = all.problem.p;
  if (given.mode != GemmMode::plain || given.batches != 1 || p.m > most_rows || p.k == 0 || p.b_k != 1 || p.c_n != 1)
    return {};
  const auto aligned = [](const BufferRef& b) { return b.offset % 16 == 0; };
  const auto fits = [&](const GemmPart& part) { return aligned(part.b) && part.n >= p.m; };
  if (p.m > p.n || !aligned(given.b) || !std::all_of(others.begin(), others.end(), fits)) return {};
  p.n = columns;
  if (!fits_32_bits(all.problem) || &choose_core(queue, given) != &core) return {};
  all.key = gemm_key(&core, all.problem);
  all.key.b_along_k = 1;
  set_pieces(all.key, all.problem);
  const Schedule s = along_k(queue.device(), all.problem, all.key.vb);
  if (splits_of(queue.device(), all.problem, s, true) > 1) return {};
  set_schedule(all.problem, all.key, s);
  p.n = given.p.n, p.splits = 1, p.k_split = p.k;
  return all;
}

NDRange range_of(const GemmKey& key, std::int64_t tiles) {
  const std::size_t group = std::size_t(key.shape[2]) * key.shape[3];
  return NDRange(std::size_t(tiles) * group, group);
}

}  // namespace

void gemv(GemmCores& cores) { cores.add(core); }

}  // namespace gemm_cores

bool run_several(Queue& queue, const GemmProblem& given, std::span<const GemmPart> more) {
  using namespace gemm_cores;
  if (more.empty() || more.size() > 3) return false;
  std::int64_t columns = given.p.n;
  for (const GemmPart& part : more) columns += part.n;
  std::optional<Joined> all = join(queue, given, columns, more);
  if (!all) return false;
  const std::int64_t tile = std::int64_t(all->key.shape[1]) * all->key.shape[3];
  std::int64_t tiles = divide_up(given.p.n, tile);
  std::vector<BufferRef> buffers;
  std::vector<std::int32_t> parts(2 * more.size());  // Parts of gemm/gemv.cl
  for (std::size_t i = 0; i < more.size(); i++) {
    buffers.insert(buffers.end(), {more[i].b, more[i].c});
    parts[i] = std::int32_t(tiles), parts[more.size() + i] = std::int32_t(more[i].n);
    tiles += divide_up(more[i].n, tile);
  }
  all->problem.p.tiles_n = tiles, all->key.more = std::uint8_t(more.size());
  Kernel& kernel = gemm_kernel(queue.device(), all->key);
  launch_gemm(queue, kernel, all->key, all->problem, range_of(all->key, tiles), given.a, given.c, {}, buffers,
              std::as_bytes(std::span<const std::int32_t>(parts)));
  return true;
}

bool run_gated(Queue& queue, const GemmProblem& given, BufferRef up, Activation activation) {
  using namespace gemm_cores;
  const GemmPart part{up, given.c, given.p.n};
  std::optional<Joined> all = join(queue, given, 2 * given.p.n, std::span(&part, 1));
  if (!all) return false;
  // A work-item's columns are those of both.
  GemmKey& key = all->key;
  key.shape[1] = std::max<std::uint16_t>(key.shape[1] / 2, 1), key.gated = std::uint8_t(1 + int(activation));
  auto& p = all->problem.p;
  p.tiles_n = divide_up(p.n, std::int64_t(key.shape[1]) * key.shape[3]);
  launch_gemm(queue, gemm_kernel(queue.device(), key), key, all->problem, range_of(key, p.tiles_n), given.a, given.c,
              {}, std::span(&up, 1));
  return true;
}

}  // namespace dlprim
