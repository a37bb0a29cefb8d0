// SPDX-License-Identifier: MIT
// Which tile a problem gets: measured choices, kept in the process and on disk, before estimated ones.
#include <sstream>

#include "core.hpp"

#include <dlprim/runtime/environment.hpp>

namespace dlprim {

// Where Choices looks for them: in the namespace of their arguments.
static std::string text_of(const TileChoice& choice) {
  const TileShape& s = choice.shape;
  std::ostringstream text;
  text << s.bm << "x" << s.bn << "x" << s.bk << "x" << s.tm << "x" << s.tn << "x" << int(s.stages) << "/"
       << (choice.share ? "stream" : "") << (choice.share ? choice.share : choice.splits);
  return text.str();
}

static std::string text_of(const PanelShape& s) {
  std::ostringstream text;
  text << s.mr << "x" << s.nr << "x" << s.mb << "x" << s.nb << "x" << s.kb;
  return text.str();
}

static const char* text_of(const Candidate<GemmProblem>* candidate) { return candidate->name; }

namespace {

// A result that is read, too, would change with every repetition.
bool is_repeatable(const GemmProblem& problem) {
  const BufferRef &addend = problem.addend, &c = problem.c;
  return problem.beta == 0.0 || !addend.memory || addend.memory != c.memory || addend.offset != c.offset;
}

// Problems that share a choice.
struct Key {
  std::int64_t m, n, k, batches, device;
  GemmKey core;
};

std::string text_of(const Key& key) {
  constexpr const char* modes[] = {"product", "convolution", "weights"};
  const GemmKey& c = key.core;
  std::ostringstream text;
  text << modes[c.mode] << " " << name(DataType(c.type)) << " " << key.m << " " << key.n << " " << key.k << " "
       << key.batches << (c.a_along_k ? " a:k" : " a:m") << (c.b_along_k ? " b:k" : " b:n") << " core" << int(c.core);
  if (c.mode) text << " rank" << int(c.rank) << (c.check ? " edges" : "") << (c.channel_inner ? " last" : "");
  text << (c.addend ? " addend" : "") << (c.residual ? " residual" : "") << (c.wide_index ? " wide" : "");
  if (c.passes == 1) text << " tf32";
  if (c.activation) text << " activation" << int(c.activation);
  return text.str();
}

Key make_key(const Queue& queue, GemmCore core, const GemmProblem& problem) {
  const std::int64_t k = std::max(problem.p.k, problem.k_longest);
  Key key{problem.p.m, problem.p.n, k, problem.batches, std::int64_t(queue.device().index()), gemm_key(core, problem)};
  const Vectors v = vectors(problem, 1);
  key.core.a_along_k = v.a_along_k, key.core.b_along_k = v.b_along_k;
  key.core.passes = std::uint8_t(tf32_passes(problem.type));
  return key;
}

}  // namespace

TileChoice choose_tile(Queue& queue, GemmCore core, const GemmProblem& problem, std::span<const TileShape> shapes,
                       const TileCosts& costs, TileRun run) {
  const DeviceInfo& info = queue.device().info();
  auto rank = [&] {
    GemmProblem longest = problem;
    longest.p.k = std::max(problem.p.k, problem.k_longest);
    return rank_tiles(shapes, costs, info, longest);
  };
  if (tiles_are_forced()) return rank()[0];
  static Choices<Key, TileChoice> all("tile");
  return all.get(queue, make_key(queue, core, problem), is_repeatable(problem), rank,
                 [&](const TileChoice& choice) { run(queue, problem, choice); });
}

PanelShape choose_panel(Queue& queue, const GemmProblem& problem, PanelRun run) {
  const DeviceInfo& info = queue.device().info();
  const std::size_t bytes = size_of(accumulate_type(problem.type));
  const PanelShape usual = panel_shape(info, bytes);
  if (!choices::matter(info)) return usual;
  static Choices<Key, PanelShape> all("panel");
  auto rank = [&] {
    std::vector<PanelShape> ranked{usual};
    for (const PanelShape& shape : panel_candidates(bytes))
      if (text_of(shape) != text_of(usual)) ranked.push_back(shape);
    return ranked;
  };
  return all.get(queue, make_key(queue, GemmCore::panel, problem), is_repeatable(problem), rank,
                 [&](const PanelShape& shape) { run(queue, problem, shape); });
}

const Candidate<GemmProblem>& choose_core(Queue& queue, std::span<const Candidate<GemmProblem>> candidates,
                                          const GemmProblem& problem) {
  const Device& device = queue.device();
  auto first = [&]() -> const Candidate<GemmProblem>& {
    return select<GemmProblem>("gemm", "DLPRIM_GEMM", candidates, device, problem);
  };
  // What is forced is no choice, and no cached one may stand in its place.
  if (!choices::matter(device.info()) || environment::text("DLPRIM_GEMM")) return first();
  static Choices<Key, const Candidate<GemmProblem>*> all("core");
  auto rank = [&] {
    std::vector<const Candidate<GemmProblem>*> ranked{&first()};
    if (ranked[0]->run == run_reference) return ranked;
    for (const Candidate<GemmProblem>& candidate : candidates)
      if (&candidate != ranked[0] && candidate.run != run_reference && !candidate.decline(device, problem, false))
        ranked.push_back(&candidate);
    return ranked;
  };
  const auto* chosen = all.get(queue, make_key(queue, GemmCore::reference, problem), is_repeatable(problem), rank,
                               [&](const Candidate<GemmProblem>* candidate) { candidate->run(queue, problem); });
  // Strides or alignments that the key does not tell may be beyond it.
  return chosen->decline(device, problem, true) ? first() : *chosen;
}

}  // namespace dlprim
