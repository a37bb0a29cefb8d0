// SPDX-License-Identifier: MIT
// Which tile a problem gets: measured choices, kept in the process and on disk, before estimated ones.
#include <sstream>

#include "../../tuning/choices.hpp"
#include "core.hpp"

#include <dlprim/runtime/environment.hpp>

namespace dlprim {

// Where Choices looks for them: in the namespace of their arguments.
static std::string text_of(const TileChoice& choice) {
  return text_of(choice.shape) + "/" + (choice.share ? "stream" : "") +
         std::to_string(choice.share ? choice.share : choice.splits);
}

static const char* text_of(const GemmCore* core) { return core->name; }

namespace {

// A result that is read, too, would change with every repetition.
bool is_repeatable(const GemmProblem& problem) {
  const BufferRef &addend = problem.addend, &c = problem.c;
  return problem.beta == 0.0 || !addend.memory || addend.memory != c.memory || addend.offset != c.offset;
}

// Problems that share a choice; of a core's tiles, or without a core of what computes them.
struct Key {
  std::int64_t m, n, k, batches, device;
  GemmKey core;
};

std::string text_of(const Key& key) {
  constexpr const char* modes[] = {"product", "convolution", "weights"};
  const GemmKey& c = key.core;
  std::ostringstream text;
  if (c.core) text << c.core->name << " ";
  text << modes[c.mode] << " " << name(DataType(c.type)) << " " << key.m << " " << key.n << " " << key.k << " "
       << key.batches << (c.a_along_k ? " a:k" : " a:m") << (c.b_along_k ? " b:k" : " b:n");
  if (c.mode) text << " rank" << int(c.rank) << (c.check ? " edges" : "") << (c.channel_inner ? " last" : "");
  text << (c.addend ? " addend" : "") << (c.residual ? " residual" : "") << (c.wide_index ? " wide" : "");
  if (c.passes == 1) text << " tf32";
  if (c.activation) text << " activation" << int(c.activation);
  return text.str();
}

Key make_key(const Queue& queue, const GemmCore* core, const GemmProblem& problem) {
  const std::int64_t k = std::max(problem.p.k, problem.k_longest);
  Key key{problem.p.m, problem.p.n, k, problem.batches, std::int64_t(queue.device().index()), gemm_key(core, problem)};
  const Vectors v = vectors(problem, 1);
  key.core.a_along_k = v.a_along_k, key.core.b_along_k = v.b_along_k;
  key.core.passes = std::uint8_t(tf32_passes(problem));
  return key;
}

}  // namespace

TileChoice choose_tile(Queue& queue, const GemmCore& core, const GemmProblem& problem, const TileTable& tiles,
                       TileRun run) {
  auto rank = [&] {
    GemmProblem longest = problem;
    longest.p.k = std::max(problem.p.k, problem.k_longest);
    return rank_tiles(tiles, queue.device().info(), longest);
  };
  if (tiles_are_forced()) return rank()[0];
  static Choices<Key, TileChoice> all("tile");
  return all.get(queue, make_key(queue, &core, problem), is_repeatable(problem), rank,
                 [&](const TileChoice& choice) { run(queue, problem, choice); });
}

PanelShape choose_panel(Queue& queue, const GemmProblem& problem, std::span<const PanelShape> panels, PanelRun run) {
  if (!choices::matter(queue.device())) return panels[0];
  static Choices<Key, PanelShape> all("panel");
  auto rank = [&] { return std::vector<PanelShape>(panels.begin(), panels.end()); };
  return all.get(queue, make_key(queue, nullptr, problem), is_repeatable(problem), rank,
                 [&](const PanelShape& shape) { run(queue, problem, shape); });
}

const GemmCore& choose_core(Queue& queue, const GemmProblem& problem) {
  const Device& device = queue.device();
  const GemmCores& cores = all_gemm_cores();
  // What is forced is no choice, and no cached one may stand in its place.
  if (!choices::matter(device) || cores.forced()) return cores.select(device, problem);
  const GemmCore* last = cores.all().back();  // takes everything, and is never worth measuring
  auto rank = [&] {
    std::vector<const GemmCore*> ranked{&cores.select(device, problem)};
    if (ranked[0] == last) return ranked;
    for (const GemmCore* core : cores.all())
      if (core != ranked[0] && core != last && !cores.decline(*core, device, problem, false)) ranked.push_back(core);
    return ranked;
  };
  static Choices<Key, const GemmCore*> all("core");
  const GemmCore* chosen = all.get(queue, make_key(queue, nullptr, problem), is_repeatable(problem), rank,
                                   [&](const GemmCore* core) { core->run(queue, problem); });
  // Strides or alignments that the key does not tell may be beyond it.
  return cores.decline(*chosen, device, problem, true) ? cores.select(device, problem) : *chosen;
}

}  // namespace dlprim
