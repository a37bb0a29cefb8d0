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

enum class Kind : std::uint8_t { onnx, json, parameters, image };
struct Seed {
  std::string name;
  Kind kind;
  std::string contents;
};

/// Small valid files of all kinds, and after them the .onnx and .json files of a folder (empty: none).
std::vector<Seed> seeds(const std::string& corpus);
/// Changes bytes: flips, cuts, repeats, insertions.
std::string mutate_bytes(std::string contents, Dice& dice);
/// Changes a model's meaning: types, sizes, connections, attributes. Contents that are no model change as bytes.
std::string mutate_onnx(const std::string& contents, Dice& dice);
std::string mutate_json(const std::string& contents, Dice& dice);
/// Changes the numbers of a header of JSON, whose length stands before it, or bytes.
std::string mutate_parameters(const std::string& contents, Dice& dice);
/// A folder with what external data may name: a file, a folder, a pipe, links inside and outside. Made when it is not
/// there.
std::string external_folder();

}  // namespace dlprim::fuzz
