// SPDX-License-Identifier: MIT
// Fourier transforms as products with matrices of cosines and sines.
#include <cmath>

#include "../array.hpp"
#include "../checked.hpp"
#include "../composition.hpp"

namespace dlprim::operators {

namespace {

constexpr double pi = 3.14159265358979323846;

using Part = Composition::Part;

// Numbers computed in double as a constant of a type.
Part rounded(Composition& c, DataType type, const Shape& shape, const std::vector<double>& values) {
  if (type == DataType::float64) return c.constant(Tensor::from_host(type, shape, values.data()));
  const std::vector<float> floats(values.begin(), values.end());
  return c.constant(cast(c.call.queue(), Tensor::from_host(DataType::float32, shape, floats.data()), type));
}

// Real and imaginary part of exp(-+2 pi i k m / length), [samples, bins], each row times its weight.
struct Waves {
  Part real, imaginary;
};

Waves waves(Composition& c, DataType type, std::int64_t samples, std::int64_t bins, std::int64_t length, bool inverse,
            const std::vector<double>& weights = {}) {
  host_elements(checked_multiply(samples, bins), "a number of weights of a transform");
  std::vector<double> real, imaginary;
  for (std::int64_t m = 0; m < samples; m++)
    for (std::int64_t k = 0; k < bins; k++) {
      // Whole eighths of a turn come from angles below an eighth, where cosine and sine are exact at the ends.
      const std::int64_t turn = m * k % length, quarter = 4 * turn / length;
      const double angle = 2 * pi * double(4 * turn - quarter * length) / double(4 * length);
      const double c0 = std::cos(angle), s0 = std::sin(angle);
      const double cosine = quarter == 0 ? c0 : quarter == 1 ? -s0 : quarter == 2 ? -c0 : s0;
      const double sine = quarter == 0 ? s0 : quarter == 1 ? c0 : quarter == 2 ? -s0 : -c0;
      const double scale = (inverse ? 1 / double(length) : 1) * (weights.empty() ? 1 : weights[std::size_t(m)]);
      real.push_back(cosine * scale), imaginary.push_back((inverse ? sine : -sine) * scale);
    }
  return {rounded(c, type, {samples, bins}, real), rounded(c, type, {samples, bins}, imaginary)};
}

// x [..., 1 or 2] transformed along `dim`.
Part transform(Composition& c, const Part& x, int dim, std::int64_t length, bool inverse, bool onesided) {
  const int last = x.shape().size() - 1;
  const DataType type = x.tensor.dtype();
  const bool complex = x.shape()[last] == 2;
  const std::int64_t samples = std::min(length, x.shape()[dim]);
  std::vector<std::int64_t> order;
  for (int d = 0; d < last; d++) order.push_back(d);
  std::swap(order[std::size_t(dim)], order.back());
  auto part = [&](int i) {
    const Part chosen = c.narrow(c.narrow(x, last, i, 1), dim, 0, samples);
    Shape shape = chosen.shape();
    shape.erase(last);
    return c.transpose(c.reshape(chosen, shape), order);
  };
  auto with_last = [&](const Part& y) {  // the order of x again, and a last dimension of 1
    const Part ordered = c.transpose(y, order);
    Shape shape = ordered.shape();
    shape.push_back(1);
    return c.reshape(ordered, shape);
  };
  if (inverse && onesided) {  // the other half is the conjugate: the result is real
    const std::int64_t bins = length / 2 + 1;
    if (samples != bins) c.call.fail("expected " + std::to_string(bins) + " bins, got " + std::to_string(samples));
    if (!complex) c.call.fail("expected complex numbers, got " + x.shape().text());
    std::vector<double> twice(std::size_t(bins), 2);
    twice[0] = 1;
    if (length % 2 == 0) twice.back() = 1;
    const Waves w = waves(c, type, bins, length, length, true, twice);
    return with_last(c("Sub", {c("MatMul", {part(0), w.real}), c("MatMul", {part(1), w.imaginary})}));
  }
  const Waves w = waves(c, type, samples, onesided ? length / 2 + 1 : length, length, inverse);
  Part real = c("MatMul", {part(0), w.real}), imaginary = c("MatMul", {part(0), w.imaginary});
  if (complex) {
    real = c("Sub", {real, c("MatMul", {part(1), w.imaginary})});
    imaginary = c("Add", {imaginary, c("MatMul", {part(1), w.real})});
  }
  return c("Concat", {with_last(real), with_last(imaginary)}, {{"axis", std::int64_t(last)}});
}

void dft(Composition& c) {
  Call& call = c.call;
  const Part x = c.input(0);
  const int rank = x.shape().size();
  if (rank < 2 || x.shape()[rank - 1] < 1 || x.shape()[rank - 1] > 2)
    call.fail("expected [..., 1] or [..., 2], got " + x.shape().text());
  const std::int64_t axis =
      call.has(2) ? call.read_integers(2).at(0) : call.integer("axis", call.version() < 20 ? 1 : -2);
  const int dim = x.shape().axis(axis);
  if (dim == rank - 1) call.fail("the last dimension holds real and imaginary part");
  const bool inverse = call.integer("inverse", 0), onesided = call.integer("onesided", 0);
  std::int64_t length = x.shape()[dim];
  if (inverse && onesided) length = 2 * (length - 1);
  if (call.has(1)) length = call.read_integers(1).at(0);
  if (length < 1) call.fail("expected a length of 1 or more");
  c.set(0, transform(c, x, dim, length, inverse, onesided));
}

// Overlapping frames are gathered from the signal.
void stft(Composition& c) {
  Call& call = c.call;
  Part x = c.input(0);
  if (x.shape().size() == 2) x = c.reshape(x, {x.shape()[0], x.shape()[1], 1});
  const std::int64_t step = call.read_integers(1).at(0), samples = x.shape()[1];
  std::int64_t length = call.has(2) ? call.input(2).numel() : 0;
  if (call.has(3)) length = call.read_integers(3).at(0);
  if (step < 1 || length < 1 || length > samples)
    call.fail("frames of " + std::to_string(length) + " do not fit " + x.shape().text());
  const std::int64_t frames = (samples - length) / step + 1;
  std::vector<std::int64_t> places;
  places.reserve(host_elements(checked_multiply(frames, length), "a number of elements in frames"));
  for (std::int64_t f = 0; f < frames; f++)
    for (std::int64_t i = 0; i < length; i++) places.push_back(f * step + i);
  const Tensor index = reshape(call.queue(), Tensor::from_integers(places), {frames, length});
  Part all = c("Gather", {x, c.constant(index)}, {{"axis", std::int64_t(1)}});
  if (call.has(2)) all = c("Mul", {all, c.reshape(c.input(2), {length, 1})});
  c.set(0, transform(c, all, 2, length, false, call.integer("onesided", 1)));
}

// Triangles between frequencies that are evenly spaced on the mel scale, [bins, mel bins].
void mel_weights(Call& call) {
  const std::int64_t mels = call.read_integers(0).at(0), length = call.read_integers(1).at(0),
                     rate = call.read_integers(2).at(0);
  const double low = call.read_reals(3).at(0), high = call.read_reals(4).at(0);
  if (mels < 1 || length < 1 || rate < 1) call.fail("expected positive sizes");
  const std::int64_t bins = length / 2 + 1;
  std::vector<float> weights(host_elements(checked_multiply(bins, mels), "a number of weights"));
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < mels + 2; i++) {
    const double at = mel(low) + double(i) * (mel(high) - mel(low)) / double(mels + 2);
    const double edge = std::floor(double(length + 1) * (700 * (std::pow(10, at / 2595) - 1)) / double(rate));
    edges.push_back(checked_range(checked_whole(edge, "a frequency"), 0, length, "the bin of a frequency"));
  }
  auto set = [&](std::int64_t bin, std::int64_t m, double value) {
    if (bin >= 0 && bin < bins) weights[std::size_t(bin * mels + m)] = float(value);
  };
  for (std::int64_t m = 0; m < mels; m++) {
    const std::int64_t a = edges[std::size_t(m)], b = edges[std::size_t(m + 1)], c = edges[std::size_t(m + 2)];
    if (b == a) set(b, m, 1);
    for (std::int64_t i = a; b != a && i <= b; i++) set(i, m, double(i - a) / double(b - a));
    for (std::int64_t i = b; c != b && i < c; i++) set(i, m, double(c - i) / double(c - b));
  }
  const DataType type = element_type(call.integer("output_datatype", 1));
  call.set(0, cast(call.queue(), Tensor::from_host(DataType::float32, {bins, mels}, weights.data()), type));
}

}  // namespace

void signal(Registry& registry) {
  compose<dft>(registry, "DFT", "axis inverse onesided");
  compose<stft>(registry, "STFT", "onesided");
  registry.add("MelWeightMatrix", mel_weights, "output_datatype");
}

}  // namespace dlprim::operators
