// SPDX-License-Identifier: MIT
// Which tile a problem gets: measured choices, kept in the process and on disk, before estimated ones.
#include <dlprim/runtime/settings.hpp>

#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <unordered_map>

#include "../runtime/disk_cache.hpp"
#include "gemm_launch.hpp"

namespace dlprim {

namespace {

constexpr const char* marker = "tiles of products were measured";
constexpr std::size_t most_measured = 10;  // best ranked choices
constexpr int repetitions = 4;             // the shortest time counts

// Problems that share a choice.
struct Key {
  std::int64_t m, n, k, batches;
  std::int64_t device;
  GemmKey core;
  bool operator==(const Key& other) const noexcept { return std::memcmp(this, &other, sizeof other) == 0; }
};
static_assert(std::has_unique_object_representations_v<Key>, "padding would make equal keys differ");

struct Hash {
  std::size_t operator()(const Key& key) const noexcept {
    return std::hash<std::string_view>{}({reinterpret_cast<const char*>(&key), sizeof key});
  }
};

struct Entry {
  TileChoice choice;
  bool measured;
};

struct Choices {
  std::shared_mutex mutex;
  std::unordered_map<Key, Entry, Hash> entries;
  std::mutex measuring;  // one at a time, for the times to mean something
  // Without any on disk, which is the rule, a new problem costs no search there.
  const bool on_disk = DiskCache::instance().load(marker).has_value();
};

Choices& choices() {
  static Choices all;
  return all;
}

std::string disk_key(const DeviceInfo& info, const Key& key) {
  std::ostringstream text;
  text << "tile of a product|" << info.name << "|" << info.driver;
  for (const std::int64_t size : {key.m, key.n, key.k, key.batches}) text << "|" << size;
  const auto* core = reinterpret_cast<const std::uint8_t*>(&key.core);
  for (std::size_t i = 0; i < sizeof key.core; i++) text << "|" << int(core[i]);
  return text.str();
}

std::string text_of(const TileChoice& choice) {
  const TileShape& s = choice.shape;
  std::ostringstream text;
  for (const std::int64_t part : {std::int64_t(s.bm), std::int64_t(s.bn), std::int64_t(s.bk), std::int64_t(s.tm),
                                  std::int64_t(s.tn), std::int64_t(s.stages), choice.splits})
    text << part << " ";
  return text.str();
}

double seconds(Queue& queue, const GemmProblem& problem, const TileChoice& choice, TileRun run) {
  double shortest = std::numeric_limits<double>::infinity();
  run(queue, problem, choice);  // builds its kernels
  queue.finish();
  for (int i = 0; i < repetitions; i++) {
    const auto start = std::chrono::steady_clock::now();
    run(queue, problem, choice);
    queue.finish();
    shortest = std::min(shortest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return shortest;
}

TileChoice fastest(Queue& queue, const GemmProblem& problem, const std::vector<TileChoice>& ranked, TileRun run) {
  std::size_t best = 0;
  double shortest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(ranked.size(), most_measured); i++)
    if (const double time = seconds(queue, problem, ranked[i], run); time < shortest) shortest = time, best = i;
  return ranked[best];
}

// A result that is read, too, would change with every repetition.
bool is_repeatable(const GemmProblem& problem) {
  return problem.beta == 0.0 || !problem.addend.memory || problem.addend.memory != problem.c.memory;
}

}  // namespace

TileChoice choose_tile(Queue& queue, GemmCore core, const GemmProblem& problem, std::span<const TileShape> shapes,
                       const TileCosts& costs, TileRun run) {
  const DeviceInfo& info = queue.device().info();
  if (tiles_are_forced()) return rank_tiles(shapes, costs, info, problem)[0];
  const auto& p = problem.p;
  const Key key{p.m, p.n, p.k, problem.batches, std::int64_t(queue.device().index()), gemm_key(core, problem)};
  const bool measure = settings.benchmark && is_repeatable(problem);
  Choices& all = choices();
  {
    std::shared_lock guard(all.mutex);
    if (auto it = all.entries.find(key); it != all.entries.end() && (it->second.measured || !measure))
      return it->second.choice;
  }
  const std::vector<TileChoice> ranked = rank_tiles(shapes, costs, info, problem);
  Entry entry{ranked[0], false};
  const std::string name = disk_key(info, key);
  const auto stored = all.on_disk || measure ? DiskCache::instance().load(name) : std::nullopt;
  for (const TileChoice& choice : ranked)
    if (stored == text_of(choice)) entry = {choice, true};
  if (measure && !entry.measured) {
    std::lock_guard guard(all.measuring);
    entry = {fastest(queue, problem, ranked, run), true};
    DiskCache::instance().store(name, text_of(entry.choice));
    DiskCache::instance().store(marker, "1");
  }
  std::unique_lock guard(all.mutex);
  all.entries.insert_or_assign(key, entry);
  return entry.choice;
}

}  // namespace dlprim
