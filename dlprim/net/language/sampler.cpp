// SPDX-License-Identifier: MIT
#include "sampler.hpp"

#include <dlprim/error.hpp>
#include <dlprim/primitives/index.hpp>
#include <dlprim/primitives/sort.hpp>

#include <algorithm>
#include <cmath>

#include "../array.hpp"

namespace dlprim {

Sampler::Sampler(const SamplingOptions& options) : options_(options), engine_(options.seed) {
  const auto expect = [](bool holds, const std::string& what) {
    if (!holds) throw ValidationError("[sampling] expected " + what);
  };
  expect(options.temperature >= 0 && options.temperature <= 1e6, "a temperature of 0 to 1000000");
  expect(options.top_k >= 0, "a top_k of 0 or more, got " + std::to_string(options.top_k));
  expect(options.top_p > 0 && options.top_p <= 1, "a top_p above 0 and up to 1");
  expect(options.tokens >= 0, "a number of tokens of 0 or more");
}

Tensor Sampler::best(Queue& queue, const Tensor& scores) {
  return reduce(queue, ReduceId::argmax, scores, {1}, DataType::int64).strided({1}, {1});
}

Tensor Sampler::highest(Queue& queue, const Tensor& scores, std::int64_t k) {
  const std::int64_t rows = scores.shape()[0], n = scores.shape()[1];
  const Tensor order(queue, DataType::int64, {rows, k});
  if (select_places(queue, scores.view(queue), order.view(queue), true)) return order;
  const Tensor all(queue, DataType::int64, {rows, n});
  sort_order(queue, scores.view(queue), all.view(queue), true);
  return contiguous(queue, narrow(all, 1, 0, k));
}

// Most probable first.
std::vector<Sampler::Candidate> Sampler::candidates(Queue& queue, const Tensor& scores) const {
  const std::int64_t n = scores.numel(), k = options_.top_k == 0 ? n : std::min(n, options_.top_k);
  std::vector<Candidate> result(static_cast<std::size_t>(k));
  std::vector<std::int64_t> places;
  Tensor chosen = scores;
  if (k < n) {
    const Tensor order = highest(queue, scores, k);
    chosen = Tensor(queue, scores.dtype(), {1, k});
    gather(queue, chosen.view(queue), scores.view(queue), 1, order.view(queue));
    places = to_integers(queue, order);
  }
  const std::vector<double> values = to_reals(queue, chosen);
  for (std::size_t i = 0; i < result.size(); i++) {
    if (!std::isfinite(values[i])) throw ValidationError("[sampling] the model's scores are not finite");
    result[i] = {places.empty() ? std::int64_t(i) : places[i], values[i]};
  }
  std::ranges::stable_sort(result, std::greater(), &Candidate::score);
  return result;
}

std::int64_t Sampler::draw(Queue& queue, const Tensor& scores) {
  std::vector<Candidate> all = candidates(queue, scores);
  const double most = all[0].score;
  double sum = 0;
  for (Candidate& c : all) sum += c.score = std::exp((c.score - most) / options_.temperature);
  std::size_t count = 0;
  double kept = 0;
  while (count < all.size() && kept < options_.top_p * sum) kept += all[count++].score;
  double rest = double(engine_() >> 11) * 0x1p-53 * kept;
  for (std::size_t i = 0; i + 1 < count; i++) {
    rest -= all[i].score;
    if (rest < 0) return all[i].token;
  }
  return all[std::max<std::size_t>(count, 1) - 1].token;
}

}  // namespace dlprim
