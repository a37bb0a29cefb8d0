// SPDX-License-Identifier: MIT
// Byte-pair encoding: of two neighbours, the pair that comes first in an order becomes one, as long as there is a pair.
#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dlprim {

/// Two tokens that become one; of several pairs that of the lowest rank, the leftmost of equals.
struct Merge {
  std::int64_t left, right, result;
  double rank;
};

class PairMerges {
 public:
  PairMerges() = default;
  explicit PairMerges(const std::vector<Merge>& merges);
  /// Merges neighbours in `tokens` until no pair is left.
  void apply(std::vector<std::int64_t>& tokens) const;

 private:
  struct Result {
    std::int64_t token;
    double rank;
  };
  const Result* find(std::int64_t left, std::int64_t right) const;
  std::unordered_map<std::uint64_t, Result> results_;
};

/// Bytes of the UTF-8 character at the beginning of a text; 0 where there is none.
std::size_t character_bytes(std::string_view text) noexcept;

}  // namespace dlprim
