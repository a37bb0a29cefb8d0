// SPDX-License-Identifier: MIT
// Choices among several ways to solve a problem. A measured one, of this process or of store.hpp, comes before the
// estimate.
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "store.hpp"

namespace dlprim {

namespace choices {

/// Whether a device may have measured choices, or they are to be made or counted; else nobody needs to ask for them.
bool matter(const Device& device);
/// Whether problems are measured at their first use.
bool measuring();
/// The text of the choice for a problem on a device, where one is known.
std::optional<std::string> load(const DeviceInfo& device, const std::string& problem);
void store(const DeviceInfo& device, const std::string& problem, const std::string& choice);
/// The index below `count` whose `run` is fastest; index 0, the estimate, unless another is clearly faster. One that
/// throws is left out; nothing when all do. Runs each several times and waits for the device; throws what kernels
/// before that reported. May be nested.
std::optional<std::size_t> fastest(Queue& queue, std::size_t count, const std::function<void(std::size_t)>& run);
/// Counts for tuning_progress().
void count(int made, int measured);

}  // namespace choices

/// The choices of one family by problem. `Key`, without padding, has the device's index as its member `device` and a
/// text_of(key) without it; `Value` is what is chosen, with text_of(value).
template <class Key, class Value>
class Choices {
  static_assert(std::has_unique_object_representations_v<Key>, "padding would make equal keys differ");
  static constexpr std::size_t most_measured = 10;  // the best ranked

 public:
  explicit Choices(std::string family) : family_(std::move(family)) {}

  /// The choice for `key`. `rank()` lists the ways to solve it, the best estimate first and never none; `run(value)`
  /// solves it by one of them, as often as measuring takes where it is `repeatable`.
  template <class Rank, class Run>
  Value get(Queue& queue, const Key& key, bool repeatable, Rank&& rank, Run&& run) {
    const bool measure = repeatable && choices::measuring() && !queue.capture();
    bool known = false;
    {
      std::shared_lock guard(mutex_);
      if (auto it = entries_.find(key); it != entries_.end() && it->second.generation == tuning::generation()) {
        if (it->second.measured || !measure) return it->second.choice;
        known = true;
      }
    }
    const DeviceInfo& info = queue.device().info();
    const std::vector<Value> ranked = rank();
    Entry entry{ranked[0], ranked.size() == 1, tuning::generation()};
    if (ranked.size() > 1) {
      const std::string problem = family_ + " " + text_of(key);
      if (const auto stored = choices::load(info, problem))
        for (const Value& choice : ranked)
          if (*stored == text_of(choice)) entry.choice = choice, entry.measured = true;
      if (measure && !entry.measured) {
        const auto best =
            choices::fastest(queue, std::min(ranked.size(), most_measured), [&](std::size_t i) { run(ranked[i]); });
        if (best) {
          entry.choice = ranked[*best], entry.measured = true;
          choices::store(info, problem, text_of(entry.choice));
        }
      }
      choices::count(!known, entry.measured);
    }
    std::unique_lock guard(mutex_);
    entries_.insert_or_assign(key, entry);
    return entry.choice;
  }

 private:
  struct Entry {
    Value choice;
    bool measured;
    unsigned generation;  // of the store
  };
  struct Equal {
    bool operator()(const Key& a, const Key& b) const noexcept { return std::memcmp(&a, &b, sizeof a) == 0; }
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept {
      return std::hash<std::string_view>{}({reinterpret_cast<const char*>(&key), sizeof key});
    }
  };
  std::string family_;
  std::shared_mutex mutex_;
  std::unordered_map<Key, Entry, Hash, Equal> entries_;
};

}  // namespace dlprim
