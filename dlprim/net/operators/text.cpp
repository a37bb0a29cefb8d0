// SPDX-License-Identifier: MIT
#include <algorithm>

#include "../array.hpp"
#include "../inner.hpp"

namespace dlprim::operators {

namespace {

using Integers = std::vector<std::int64_t>;

struct TextAttributes {
  explicit TextAttributes(const AttributeReader& reader)
      : pool_int64s(reader.integers("pool_int64s")), ngram_counts(reader.integers("ngram_counts")),
        ngram_indexes(reader.integers("ngram_indexes")), min_gram_length(reader.integer("min_gram_length", 1)),
        max_gram_length(reader.integer("max_gram_length", 1)), max_skip_count(reader.integer("max_skip_count", 0)),
        mode(reader.text("mode", "TF")), weights(reader.reals("weights")) {}
  std::vector<std::int64_t> pool_int64s, ngram_counts, ngram_indexes;
  std::int64_t min_gram_length, max_gram_length, max_skip_count;
  std::string mode;
  std::vector<double> weights;
};

const TextAttributes& attributes_of(const Call& call) { return call.attributes<TextAttributes>(); }

// How often each of some n-grams [count, n] stands in rows [batch, columns] with `step` elements between its own.
Tensor occurrences(Queue& queue, const Tensor& rows, const Integers& grams, std::int64_t n, std::int64_t step) {
  const std::int64_t batch = rows.shape()[0], count = std::int64_t(grams.size()) / n,
                     starts = rows.shape()[1] - (n - 1) * step;
  const Shape shape{batch, 1, count};
  if (starts < 1 || batch == 0) return filled(queue, DataType::float32, shape, 0);
  const Tensor all = reshape(queue, Tensor::from_integers(grams), {count, n});
  Tensor equal;
  for (std::int64_t k = 0; k < n; k++) {
    const Tensor element = unsqueeze(narrow(rows, 1, k * step, starts), 2), wanted = select(all, 1, k);
    if (k == n - 1) {
      const std::vector<Tensor> inputs =
          equal.defined() ? std::vector{element, wanted, equal} : std::vector{element, wanted};
      return apply_sum_to(queue, equal.defined() ? "y0 = x0 == x1 && x2 != 0;" : "y0 = x0 == x1;", inputs, {}, shape,
                          DataType::float32);
    }
    equal = equal.defined() ? apply(queue, "y0 = x0 == x1 && x2 != 0;", {element, wanted, equal}, {}, DataType::boolean)
                            : apply(queue, "y0 = x0 == x1;", {element, wanted}, {}, DataType::boolean);
  }
  return equal;
}

// Counts of n-grams of integers, by their position in the output; with weights, or as 0 and 1.
void tf_idf(Call& call) {
  Queue& queue = call.queue();
  const bool flat = call.input(0).shape().size() < 2;
  Tensor x = cast(queue, call.input(0), DataType::int64);
  if (x.shape().size() > 2) call.fail("expected [C] or [N, C], got " + x.shape().text());
  if (flat) x = reshape(queue, x, {1, x.numel()});
  const Integers pool = attributes_of(call).pool_int64s, starts = attributes_of(call).ngram_counts,
                 places = attributes_of(call).ngram_indexes;
  if (pool.empty() || places.empty()) call.fail("expected pool_int64s and ngram_indexes");
  const std::int64_t shortest = attributes_of(call).min_gram_length, longest = attributes_of(call).max_gram_length;
  const std::int64_t skips = attributes_of(call).max_skip_count;
  const auto [low, high] = std::minmax_element(places.begin(), places.end());
  if (*low < 0 || *high >= (1 << 24) || skips < 0 || skips > (1 << 16))
    call.fail("expected ngram_indexes and max_skip_count within bounds");
  const std::int64_t width = *high + 1;
  static const Inner adding("ScatterElements", {{"axis", std::int64_t(1)}, {"reduction", std::string("add")}});
  Tensor counts = filled(queue, DataType::float32, {x.shape()[0], width}, 0);
  std::size_t gram = 0;  // numbered through all lengths
  for (std::size_t i = 0; i < starts.size(); i++) {
    const std::int64_t n = std::int64_t(i) + 1, begin = starts[i],
                       end = i + 1 < starts.size() ? starts[i + 1] : std::int64_t(pool.size());
    if (begin < 0 || end < begin || end > std::int64_t(pool.size()) || (end - begin) % n)
      call.fail("ngram_counts do not fit the pool");
    const auto count = std::size_t((end - begin) / n);
    if (gram + count > places.size()) call.fail("expected an index for each n-gram");
    const Integers grams(pool.begin() + begin, pool.begin() + end);
    const Integers to(places.begin() + std::ptrdiff_t(gram), places.begin() + std::ptrdiff_t(gram + count));
    gram += count;
    if (n < shortest || n > longest || count == 0) continue;
    for (std::int64_t step = 1; step <= (n == 1 ? 1 : skips + 1); step++) {
      if ((n - 1) * step >= x.shape()[1]) break;  // longer than the text, as are all that follow
      const Tensor found = reshape(queue, occurrences(queue, x, grams, n, step), {x.shape()[0], std::int64_t(count)});
      const Tensor index = contiguous(queue, expand(Tensor::from_integers(to), found.shape()));
      counts = call.run(adding, {counts, index, found})[0];
    }
  }
  const std::string mode = attributes_of(call).mode;
  if (mode == "IDF") counts = apply(queue, "y0 = x0 > 0 ? 1 : 0;", {counts});
  if (const std::vector<double> weights = attributes_of(call).weights; mode != "TF" && !weights.empty()) {
    if (std::int64_t(weights.size()) != width) call.fail("expected a weight for each element of the output");
    const std::vector<float> floats(weights.begin(), weights.end());
    counts = apply(queue, "y0 = x0 * x1;", {counts, Tensor::from_host(DataType::float32, {width}, floats.data())});
  }
  call.set(0, flat ? reshape(queue, counts, {width}) : counts);
}

}  // namespace

void text(Registry& registry) {
  registry.add<TextAttributes>("TfIdfVectorizer", tf_idf,
                               "max_gram_length max_skip_count min_gram_length mode=TF|IDF|TFIDF ngram_counts "
                               "ngram_indexes pool_int64s weights");
}

}  // namespace dlprim::operators
