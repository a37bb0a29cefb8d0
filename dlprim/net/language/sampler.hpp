// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/language.hpp>
#include <dlprim/net/tensor.hpp>

#include <random>

namespace dlprim {

/// Chooses tokens by their scores.
class Sampler {
 public:
  /// Throws ValidationError for numbers that make no choice.
  explicit Sampler(const SamplingOptions& options);
  bool greedy() const noexcept { return options_.temperature == 0; }
  /// The most probable token of scores [1, vocabulary], as int64 [1] on the device. The host does not wait.
  static Tensor best(Queue& queue, const Tensor& scores);
  /// Places of the k highest of each row of scores [rows, n], as int64 [rows, k], in any order. The host does not wait.
  static Tensor highest(Queue& queue, const Tensor& scores, std::int64_t k);
  /// A token by chance. The host waits for the scores that count.
  std::int64_t draw(Queue& queue, const Tensor& scores);

 private:
  struct Candidate {
    std::int64_t token;
    double score;
  };
  std::vector<Candidate> candidates(Queue& queue, const Tensor& scores) const;
  SamplingOptions options_;
  std::mt19937_64 engine_;
};

}  // namespace dlprim
