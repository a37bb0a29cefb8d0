// SPDX-License-Identifier: MIT
// Files that are wrong in every way one can think of: made from a number, so that each can be made again.
#pragma once
#include <dlprim/dlprim.hpp>

#include <random>
#include <string>
#include <vector>

namespace dlprim::fuzz {

/// Random choices; equal seeds choose equally on every system.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  /// 0 to below n; 0 when n is 0.
  std::size_t below(std::size_t n) { return n ? std::size_t(engine_() % n) : 0; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  /// A size, axis or count: small ones, borders of integer types, anything.
  std::int64_t number();

 private:
  std::mt19937_64 engine_;
};

struct Seed {
  std::string name;
  bool json;
  std::string contents;
};

/// Small valid networks of both formats, `built_in_seeds` of them, and after them the .onnx and .json files of a folder
/// (empty: none).
inline constexpr std::size_t built_in_seeds = 12;
std::vector<Seed> seeds(const std::string& corpus);
/// Changes bytes: flips, cuts, repeats, insertions.
std::string mutate_bytes(std::string contents, Dice& dice);
/// Changes a model's meaning: types, sizes, connections, attributes. Contents that are no model change as bytes.
std::string mutate_onnx(const std::string& contents, Dice& dice);
std::string mutate_json(const std::string& contents, Dice& dice);

}  // namespace dlprim::fuzz
