// SPDX-License-Identifier: MIT
// The engine's cores for Hopper's matrix units on operands that its copy engine can read where they lie: tma, and
// tma_registers for tf32 of which one lies across k. tma_scaled is tma for 8-bit floats,
// tma_grouped for groups.
#include <dlprim/runtime/static_local_memory.hpp>

#include "../../tensor_map.hpp"
#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core, registers;

constexpr std::int64_t stage_bytes = 128;  // of k, in a row
constexpr std::size_t most_memory = 232000;  // bytes of local memory of the largest tiles (ROOM of gemm/tma.cl)

// A, or B transposed: `size` rows.
struct Operand {
  BufferRef data;
  std::int64_t size, stride, k_stride, batch_stride;

  // Whether it is contiguous along k, else along its rows.
  bool along_k(std::int64_t k) const { return k_stride == 1 || (k == 1 && stride != 1); }
};
Operand operand_a(const GemmProblem& problem) {
  const auto& p = problem.p;
  return {problem.a, p.m, p.a_m, p.a_k, p.a_batch};
}
Operand operand_b(const GemmProblem& problem) {
  const auto& p = problem.p;
  return {problem.b, p.n, p.b_n, p.b_k, p.b_batch};
}

// As the copy engine sees it: rows of the operand or of k, of which it takes `tile` or a stage's at a time.
MatrixInMemory matrix(const GemmProblem& problem, const Operand& x, std::int64_t tile) {
  const std::int64_t bytes = factor_bytes(problem), k = problem.p.k;
  const bool along_k = x.along_k(k);
  const std::int64_t rows = along_k ? x.size : k, stride = along_k ? x.stride : x.k_stride;
  const std::int64_t counted = bytes == 1 ? 2 : 1;  // pairs of bytes, COUNTED of gemm/tma.cl
  return {(along_k ? k : x.size) / counted, rows, rows == 1 ? stage_bytes : stride * bytes, int(bytes * counted),
          int(along_k ? tile : stage_bytes / bytes)};
}

bool lies_well(const GemmProblem& problem, const Operand& x) {
  const MatrixInMemory m = matrix(problem, x, 64);
  const bool contiguous = (x.along_k(problem.p.k) ? x.k_stride : x.stride) == 1 || m.columns == 1;
  return contiguous && can_be_mapped(m) && x.batch_stride * factor_bytes(problem) % 16 == 0 && x.data.offset % 16 == 0;
}

double bytes_of(const GemmProblem& problem, const Operand& x) {
  const double batches = x.batch_stride ? double(problem.batches) : 1.0;
  return double(x.size) * double(problem.p.k) * batches * double(factor_bytes(problem));
}

// Copies take batches along the third dimension of a launch, where NVIDIA's have no more work-groups.
constexpr std::int64_t most_copied = 65535;

// "gemm.tma.copies": until a copy starts, bytes of it, and operations of others and of this core.
struct Rates {
  double start, bandwidth, others, own;
};
Rates rates(const GemmCore* of, const Device& device, const GemmProblem& problem) {
  static tuning::Numbers<7> numbers("gemm.tma.copies");
  static tuning::Numbers<1> speed("gemm.tma.registers");
  const auto& [start, bandwidth, mma_16, mma_32, mma_32_in_words, own_16, own_32] = numbers(device);
  const bool single = problem.type == DataType::float32;
  const bool in_words = single && !(lies_well(problem, operand_a(problem)) && lies_well(problem, operand_b(problem)));
  return {start, bandwidth,
          in_words ? mma_32_in_words
          : single ? mma_32
                   : mma_16,
          (single ? own_32 : own_16) * (of == &registers ? speed(device)[0] : 1.0)};
}

double operations(const GemmProblem& problem) {
  const auto& p = problem.p;
  return 2 * double(p.m) * double(p.n) * double(p.k) * double(problem.batches);
}

// Whether a copy whose rows begin at lines of 128 bytes takes less time than those of `x` cost that begin elsewhere: the
// copy engine then reads two lines for one, and more sectors of 32 bytes.
bool alignment_pays(const Device& device, const GemmProblem& problem, const Operand& x) {
  static tuning::Numbers<2> losses("gemm.tma.misaligned");
  const MatrixInMemory m = matrix(problem, x, 64);
  const auto beginnings = std::uint64_t(m.stride | x.batch_stride * factor_bytes(problem)) | x.data.offset;
  if (beginnings % 128 == 0 || (x.batch_stride && problem.batches > most_copied)) return false;
  const double loss = losses(device)[beginnings % 32 == 0 ? 0 : 1];
  const Rates rate = rates(&core, device, problem);
  return rate.start + bytes_of(problem, x) / rate.bandwidth < loss * operations(problem) / rate.own;
}

struct Which {
  bool a, b;
};
// The operands that tma_registers reads across k. Of two it turns one on the way, which takes time with each tile, or
// leaves the smaller one to be copied.
Which read_across(const Device& device, const GemmProblem& problem) {
  const auto across = [&](const Operand& x) { return lies_well(problem, x) && !x.along_k(problem.p.k); };
  const Operand a = operand_a(problem), b = operand_b(problem);
  const bool across_a = across(a), across_b = across(b);
  if (!across_a || !across_b) return {across_a, across_b};
  static tuning::Numbers<1> speed("gemm.tma.turned");
  const Rates rate = rates(&registers, device, problem);
  const double bytes_a = bytes_of(problem, a), bytes_b = bytes_of(problem, b), work = operations(problem) / rate.own;
  if (work / speed(device)[0] < work + rate.start + std::min(bytes_a, bytes_b) / rate.bandwidth) return {true, true};
  return {bytes_a > bytes_b, bytes_a <= bytes_b};
}

// Whether the matrix unit reads operands along k only.
bool only_along_k(const GemmProblem& problem) { return factor_bytes(problem) != 2; }

// The operands that are copied first, so that they lie well and, but for 16-bit floats, along k.
Which copies(const GemmCore* of, const Device& device, const GemmProblem& problem) {
  const Which kept = of == &registers ? read_across(device, problem) : Which{};
  const bool along = only_along_k(problem);
  const auto copied = [&](const Operand& x) {
    if (!lies_well(problem, x) || (along && !x.along_k(problem.p.k))) return true;
    if (problem.groups) return false;
    return alignment_pays(device, problem, x);
  };
  return {!kept.a && copied(operand_a(problem)), !kept.b && copied(operand_b(problem))};
}
double copied_bytes(const GemmCore* of, const Device& device, const GemmProblem& problem) {
  const auto [a, b] = copies(of, device, problem);
  return (a ? bytes_of(problem, operand_a(problem)) : 0) + (b ? bytes_of(problem, operand_b(problem)) : 0);
}

bool too_many_copies(const GemmCore* of, const Device& device, const GemmProblem& problem) {
  if (problem.batches <= most_copied) return false;
  const auto& p = problem.p;
  const auto [a, b] = copies(of, device, problem);
  return (a && p.a_batch != 0) || (b && p.b_batch != 0);
}

struct AlignKey {
  std::uint8_t bytes, along_rows;
};

// An operand that does not lie so, in a copy that does.
Operand aligned(Queue& queue, const GemmProblem& problem, const Operand& x, Workspace& memory) {
  const std::int64_t bytes = factor_bytes(problem), chunk = 16 / bytes;
  const bool along_k = x.stride != 1 || only_along_k(problem);
  const std::int64_t k = problem.p.k, batches = x.batch_stride ? problem.batches : 1;
  const std::int64_t columns = along_k ? k : x.size, rows = along_k ? x.size : k;
  const std::int64_t column = along_k ? x.k_stride : x.stride, row = along_k ? x.stride : x.k_stride;
  const std::int64_t chunks = divide_up(columns, chunk), pitch = divide_up(chunks, 8) * 8 * chunk;  // whole lines
  memory = Workspace(queue, std::size_t(batches * rows * pitch * bytes));
  const AlignKey key{std::uint8_t(bytes), row == 1};
  static KernelCache<AlignKey> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("gemm/align.cl", "gemm_align");
    source.define("BYTES", key.bytes).define("ALONG_ROWS", key.along_rows);
    return source;
  });
  const std::size_t x_items = std::size_t(key.along_rows ? rows : chunks),
                    y_items = std::size_t(key.along_rows ? chunks : rows);
  launch(queue, kernel, NDRange(x_items, y_items, std::size_t(batches), 32, 4, 1), x.data, memory.data(), rows, columns,
         pitch, x.batch_stride, row, column);
  return {memory.data(), x.size, along_k ? pitch : 1, along_k ? 1 : pitch, x.batch_stride ? rows * pitch : 0};
}

// A copy; where memory is short, an operand that is read where it lies as well stays there.
Operand copied(Queue& queue, const GemmProblem& problem, const Operand& x, Workspace& memory) {
  const bool needed = !lies_well(problem, x) || (only_along_k(problem) && !x.along_k(problem.p.k));
  try {
    return aligned(queue, problem, x, memory);
  } catch (const OutOfMemoryError&) {
    if (needed) throw;
    return x;
  }
}

// Seconds by estimate, with copies, and with a core that needs none.
struct Times {
  double own, other;
};
Times times(const GemmCore* of, const Device& device, const GemmProblem& problem) {
  const Rates rate = rates(of, device, problem);
  const auto [a, b] = copies(of, device, problem);
  return {rate.start * (a + b) + copied_bytes(of, device, problem) / rate.bandwidth + operations(problem) / rate.own,
          operations(problem) / rate.others};
}

// Whether copies, if any, take less time than the core saves.
bool pays(const GemmCore* of, const Device& device, const GemmProblem& problem) {
  if (copied_bytes(of, device, problem) == 0) return true;
  const auto [own, other] = times(of, device, problem);
  return own < other;
}

bool has_units(const DeviceInfo& info) { return info.nv_inline_ptx && info.nv_compute_capability == 90; }

// Whether two groups of four warps take tiles in turns (TURNS of gemm/tma.cl).
bool take_turns(const DeviceInfo& info, const GemmCore* of, const TileShape& shape) {
  return has_units(info) && of != &registers && takes_turns(shape);
}

// Work-items that multiply.
std::int64_t multiplying(const TileShape& shape, bool turns) {
  return (turns ? 2 : 1) * 128 * (shape.bm / shape.tm) * (shape.bn / shape.tn);
}

// Whether the matrix unit computes the transpose of C: its rows are those that it takes from registers.
bool is_transposed(const GemmKey& key) { return key.core == &registers && !key.b_along_k; }

// Elements of C stored at once: where they are 16 bytes, the copy engine may store them (gemm/store_boxes.clh). In a
// transpose a work-item's lie along n.
std::uint8_t vector_of_c(const GemmProblem& problem, const GemmKey& key) {
  const bool split = problem.p.splits > 1;
  const auto fits = [&](int unit) { return split ? problem.p.n % unit == 0 : vectors(problem, unit).c; };
  const bool single = split || stored_at_once(problem) == 2;
  const int most = is_transposed(key) ? key.shape[4] / 32 : !single ? 8 : key.core == &registers ? 2 : 4;
  if (fits(most)) return std::uint8_t(most);
  return most == 4 && fits(2) ? 2 : 1;
}

std::uint8_t bytes_of_c(const GemmKey& key) { return key.split ? 4 : std::uint8_t(size_of(DataType(key.result))); }

// Bytes of the words in which rows of C can be stored that the copy engine cannot store; 0 where they are not contiguous.
std::uint8_t word_of_c(const GemmProblem& problem, const GemmKey& key) {
  const bool split = problem.p.splits > 1;
  const std::size_t bytes = split ? 4 : size_of(result_type(problem));
  if (key.core == &registers || key.vc >= 4 || (bytes != 2 && bytes != 4)) return 0;
  if (!split && !vectors(problem, 1).c) return 0;
  return bytes == 4 || vectors(problem, 2).c ? 4 : 2;
}

// C, or a part of the sums of a product in splits, as the copy engine stores it; nothing where it does not.
TensorMap map_of_c(const GemmProblem& problem, const GemmKey& key) {
  const auto& p = problem.p;
  if (key.vc < 4 || is_transposed(key)) return {};
  const std::int64_t bytes = 16 / key.vc, stride = p.splits > 1 || p.m == 1 ? p.n : p.c_m;
  return tensor_map({p.n, p.m, stride * bytes, int(bytes), 16});
}

// The kernel has groups in place of splits. Of rows there are at most as many tiles as all rows fill, and one more for each
// group but empty ones.
void set_groups(GemmProblem& problem) {
  auto& p = problem.p;
  p.slices = problem.groups->count;
  if (!problem.groups->of_k) p.tiles_m += std::min(p.slices, p.m) - 1;
}

void run_with(Queue& queue, const GemmCore* of, const GemmProblem& given, const TileChoice& choice) {
  GemmProblem problem = given;
  auto& p = problem.p;
  const TileShape& s = choice.shape;
  const DeviceInfo& info = queue.device().info();
  GemmKey key = gemm_key(of, problem);
  Workspace memory_a, memory_b;
  Operand a = operand_a(problem), b = operand_b(problem);
  const auto [copy_a, copy_b] = copies(of, queue.device(), problem);
  if (copy_a) a = copied(queue, problem, a, memory_a);
  if (copy_b) b = copied(queue, problem, b, memory_b);
  problem.a = a.data, p.a_m = a.stride, p.a_k = a.k_stride, p.a_batch = a.batch_stride;
  problem.b = b.data, p.b_n = b.stride, p.b_k = b.k_stride, p.b_batch = b.batch_stride;
  key.a_along_k = a.along_k(p.k), key.b_along_k = b.along_k(p.k);
  set_tiles(problem, key, choice);
  key.vc = vector_of_c(problem, key);
  key.va = word_of_c(problem, key);
  const TensorMap maps[] = {tensor_map(matrix(problem, a, s.bm)), tensor_map(matrix(problem, b, s.bn)),
                            map_of_c(problem, key)};
  key.unit = s.resident;
  if (problem.groups) set_groups(problem);
  p.shares = p.tiles_m * p.tiles_n * p.splits * problem.batches;
  const std::int64_t resident = std::int64_t(info.compute_units) * s.resident;
  // Where there is no such matrix unit, no warps copy only.
  const bool in_turns = take_turns(info, of, s);
  const std::int64_t group = multiplying(s, in_turns);
  const bool many_registers = of == &registers || of == &tma_scaled || in_turns;
  const bool moves_registers = many_registers && group == 256 && key.unit == 1;
  const bool turned = of == &registers && !key.a_along_k && !key.b_along_k;
  const std::int64_t copying = !has_units(info) ? 0 : moves_registers || turned ? 128 : 32;  // TEAM of gemm/tma.cl
  launch_tiles(queue, key, problem, std::size_t(group + copying), resident, std::as_bytes(std::span(maps)));
}

// What groups are like on average, for choosing a tile.
GemmProblem average(const GemmProblem& problem) {
  GemmProblem one = problem;
  auto& p = one.p;
  if (problem.groups->of_k) p.k = divide_up(p.k, problem.groups->count);
  else one.batches = std::min(problem.groups->count, p.m), p.m = divide_up(p.m, one.batches);
  return one;
}

const char* decline_any(const GemmCore* of, const Device& device, const GemmProblem& problem, bool forced) {
  const DeviceInfo& info = device.info();
  const auto& p = problem.p;
  if (problem.mode != GemmMode::plain) return "only for plain products";
  if (p.k == 0) return "k is 0";
  if (std::max({p.m, p.n, p.k, problem.batches}) >= std::int64_t(1) << 30) return "sizes need more than 32 bits";
  if (too_many_copies(of, device, problem)) return "too many matrices to be copied";
  if (info.max_work_group < 512 || info.local_memory < 49152) return "the device's work-groups are too small";
  if (forced) return nullptr;
  if (!has_units(info)) return "the device is not of the Hopper architecture";
  if (!has_tma(device)) return "the driver keeps kernels to less local memory";
  if (problem.scaled || problem.groups) return nullptr;  // others would convert the operands, or wait for the ends
  const bool in_rows = of == &core && vectors(problem, 1).c;
  if (!in_rows && stores_too_much(device, problem)) return "sums are short, and C cannot be written in pieces";
  if (!pays(of, device, problem)) return "operands do not lie as its copies want them, and the product is too small";
  return nullptr;
}

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16 && tf32_passes(problem) != 1)
    return "only for 16-bit floats and tf32";
  return decline_any(&core, device, problem, forced);
}

const char* decline_registers(const Device& device, const GemmProblem& problem, bool forced) {
  if (tf32_passes(problem) != 1) return "only for tf32";
  const auto [a, b] = read_across(device, problem);
  if (!a && !b) return "no operand lies well across k";
  const char* reason = decline_any(&registers, device, problem, forced);
  if (reason || forced) return reason;
  if (times(&core, device, problem).own < times(&registers, device, problem).own) return "copies cost less";
  return nullptr;
}

const char* decline_scaled(const Device& device, const GemmProblem& problem, bool forced) {
  const auto known = [](SmallFloat kind) { return kind == SmallFloat::e4m3fn || kind == SmallFloat::e5m2; };
  if (!problem.scaled || !known(problem.scaled->a_kind) || !known(problem.scaled->b_kind))
    return "only for e4m3fn and e5m2";
  if (problem.p.k % 2 != 0) return "k is odd";
  return decline_any(&tma_scaled, device, problem, forced);
}

const char* decline_grouped(const Device& device, const GemmProblem& problem, bool forced) {
  if (!problem.groups) return "only for groups";
  if (problem.type != DataType::float16 && problem.type != DataType::bfloat16) return "only for 16-bit floats";
  const Operand a = operand_a(problem), b = operand_b(problem);
  if (!lies_well(problem, a) || !lies_well(problem, b)) return "operands do not lie as copies want them";
  const std::int64_t k = problem.p.k;
  if (problem.groups->of_k ? a.along_k(k) || b.along_k(k) : !a.along_k(k)) return "groups do not begin at rows";
  return decline_any(&tma_grouped, device, problem, forced);
}

const TileTable& tile_table(Queue& queue, const GemmCore* of, const GemmProblem& problem) {
  using Tables = std::array<TileTable, 7>;
  static tuning::PerDevice<Tables> tables([](const DeviceInfo& info) {
    const auto read = [&](const char* name, const char* emulated = "tma.emulated") {
      return read_tiles(info, has_units(info) ? name : emulated, "tma");
    };
    const char* emulated = "tma.8bit.emulated";
    return Tables{read("tma.16bit"),          read("tma.tf32"),
                  read("tma.registers"),      read("tma.registers.transposed"),
                  read("tma.8bit", emulated), read("tma.8bit.exact", emulated),
                  read("tma.turned")};
  });
  const Tables& all = tables(queue.device());
  if (of == &registers) {
    const auto [a, b] = read_across(queue.device(), problem);
    return all[a && b ? 6 : b ? 3 : 2];
  }
  if (of == &tma_scaled) return all[problem.scaled->exact_sums ? 5 : 4];
  return all[problem.type == DataType::float32 ? 1 : 0];
}

void run_tile(Queue& queue, const GemmProblem& problem, const TileChoice& choice) {
  run_with(queue, &core, problem, choice);
}
void run_tile_of_registers(Queue& queue, const GemmProblem& problem, const TileChoice& choice) {
  run_with(queue, &registers, problem, choice);
}
void run_scaled_tile(Queue& queue, const GemmProblem& problem, const TileChoice& choice) {
  run_with(queue, &tma_scaled, problem, choice);
}
void run(Queue& queue, const GemmProblem& problem) {
  run_tile(queue, problem, choose_tile(queue, core, problem, tile_table(queue, &core, problem), run_tile));
}
void run_registers(Queue& queue, const GemmProblem& problem) {
  const TileTable& tiles = tile_table(queue, &registers, problem);
  run_tile_of_registers(queue, problem, choose_tile(queue, registers, problem, tiles, run_tile_of_registers));
}

void run_scaled(Queue& queue, const GemmProblem& problem) {
  const TileTable& tiles = tile_table(queue, &tma_scaled, problem);
  run_scaled_tile(queue, problem, choose_tile(queue, tma_scaled, problem, tiles, run_scaled_tile));
}

// Without measurements, which depend on ends, and without splits.
void run_grouped(Queue& queue, const GemmProblem& problem) {
  const TileTable& tiles = tile_table(queue, &tma_grouped, problem);
  run_with(queue, &tma_grouped, problem, rank_tiles(tiles, queue.device().info(), average(problem), 1)[0]);
}

void define(KernelSource& source, const Device&, const GemmKey& key) {
  const bool transposed = is_transposed(key);
  source.define("TILE_M", key.shape[0]).define("TILE_N", key.shape[1]);
  source.define("TM", key.shape[transposed ? 4 : 3]).define("BN", key.shape[transposed ? 3 : 4]);
  source.define("STAGES", std::max<int>(key.stages, 2))
      .define("VC", key.vc)
      .define("C_BYTES", bytes_of_c(key))
      .define("C_WORD", key.va)
      .define("BYTES", key.kinds ? 1 : std::int64_t(size_of(DataType(key.type))))
      .define("E5M2_A", key.kinds % 8 == 1 + int(SmallFloat::e5m2))
      .define("E5M2_B", key.kinds / 8 == int(SmallFloat::e5m2))
      .define("EXACT_SUMS", key.exact_sums)
      .define("GROUPED", key.grouped);
  source.define("RESIDENT", key.unit).define("A_ALONG_K", key.a_along_k).define("B_ALONG_K", key.b_along_k);
  source.ptx_target("sm_90a", key.unit);
}

constexpr GemmCore core{.name = "tma",
                        .order = 450,
                        .kernel = "tma",
                        .decline = decline,
                        .run = run,
                        .define = define,
                        .copies = true,
                        .may_fail_to_build = true,
                        .passes = true,
                        .holds_addend = true};

constexpr GemmCore registers{.name = "tma_registers",
                             .order = 440,
                             .kernel = "tma",
                             .decline = decline_registers,
                             .run = run_registers,
                             .define = define,
                             .copies = true,
                             .may_fail_to_build = true,
                             .passes = true};

}  // namespace

constexpr GemmCore tma_scaled{.name = "tma_scaled",
                              .order = 100,
                              .kernel = "tma",
                              .decline = decline_scaled,
                              .run = run_scaled,
                              .define = define,
                              .copies = true,
                              .may_fail_to_build = true,
                              .passes = true,
                              .holds_addend = true};

constexpr GemmCore tma_grouped{.name = "tma_grouped",
                               .order = 100,
                               .kernel = "tma",
                               .decline = decline_grouped,
                               .run = run_grouped,
                               .define = define,
                               .may_fail_to_build = true,
                               .passes = true};

bool has_tma(const Device& device) { return has_units(device.info()) && static_local_memory(device) >= most_memory; }

void tma(GemmCores& cores) { cores.add(core), cores.add(registers); }

}  // namespace dlprim::gemm_cores
