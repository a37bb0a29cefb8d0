// SPDX-License-Identifier: MIT
#include "merges.hpp"

#include <queue>
#include <tuple>

namespace dlprim {

namespace {

std::uint64_t key(std::int64_t left, std::int64_t right) { return std::uint64_t(left) << 32 | std::uint64_t(right); }

}  // namespace

PairMerges::PairMerges(const std::vector<Merge>& merges) {
  results_.reserve(merges.size());
  for (const Merge& m : merges) results_.emplace(key(m.left, m.right), Result{m.result, m.rank});
}

const PairMerges::Result* PairMerges::find(std::int64_t left, std::int64_t right) const {
  if (left < 0 || right < 0) return nullptr;
  const auto found = results_.find(key(left, right));
  return found == results_.end() ? nullptr : &found->second;
}

void PairMerges::apply(std::vector<std::int64_t>& tokens) const {
  // A list of neighbours, and of pairs that were neighbours once; a pair counts while both are what they were.
  struct Place {
    std::size_t before, after;
  };
  struct Pair {
    double rank;
    std::size_t at, next;
    std::int64_t left, right, result;
    bool operator<(const Pair& other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
  };
  const std::size_t n = tokens.size();
  constexpr std::int64_t gone = -2;
  std::vector<Place> places(n);
  std::priority_queue<Pair> pairs;
  const auto offer = [&](std::size_t at, std::size_t next) {
    if (at >= n || next >= n) return;
    if (const Result* r = find(tokens[at], tokens[next]))
      pairs.push({r->rank, at, next, tokens[at], tokens[next], r->token});
  };
  for (std::size_t i = 0; i < n; i++) {
    places[i] = {i == 0 ? n : i - 1, i + 1};
    if (i + 1 < n) offer(i, i + 1);
  }
  while (!pairs.empty()) {
    const Pair pair = pairs.top();
    pairs.pop();
    if (tokens[pair.at] != pair.left || tokens[pair.next] != pair.right || places[pair.at].after != pair.next) continue;
    tokens[pair.at] = pair.result, tokens[pair.next] = gone;
    const std::size_t after = places[pair.next].after;
    places[pair.at].after = after;
    if (after < n) places[after].before = pair.at;
    offer(places[pair.at].before, pair.at), offer(pair.at, after);
  }
  std::erase(tokens, gone);
}

std::size_t character_bytes(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80   ? 1
                            : first < 0xc2 ? 0
                            : first < 0xe0 ? 2
                            : first < 0xf0 ? 3
                            : first < 0xf5 ? 4
                                           : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; i++)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  const auto second = bytes > 1 ? static_cast<unsigned char>(text[1]) : 0;
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second > 0x8f))
    return 0;
  return bytes;
}

}  // namespace dlprim
