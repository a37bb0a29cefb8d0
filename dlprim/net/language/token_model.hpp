// SPDX-License-Identifier: MIT
// What generators run: tokens in, scores of the next one out.
#pragma once
#include <dlprim/net/tensor.hpp>

namespace dlprim {

/// A language model that keeps on its device what it knows of the tokens so far.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Positions that there is room for.
  virtual std::int64_t context() const noexcept = 0;
  virtual DataType dtype() const noexcept = 0;
  virtual std::size_t weight_bytes() const noexcept = 0;
  /// Tokens of a prompt that are best run at once.
  virtual std::int64_t part() const noexcept = 0;
  /// Forgets all tokens. At least `coming` follow.
  virtual void restart(std::int64_t coming) = 0;
  /// Enqueues the pass of `tokens` (int64 [m]) behind those so far, and gives scores [m or 1, vocabulary]: of every
  /// token's successor, or of the last one's. Throws ValidationError where there is no room.
  virtual Tensor run(const Tensor& tokens, bool all = false) = 0;
};

}  // namespace dlprim
