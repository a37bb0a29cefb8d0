// SPDX-License-Identifier: MIT
// Fourier transforms as products with matrices of cosines and sines.

#include <cmath>

#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

constexpr double pi = 3.14159265358979323846;

// Real and imaginary part of exp(-+2 pi i k m / length), [samples, bins].
struct Waves {
  Tensor real, imaginary;
};

Waves waves(Queue& queue, DataType type, std::int64_t samples, std::int64_t bins, std::int64_t length, bool inverse) {
  constexpr std::int64_t limit = std::int64_t(1) << 26;
  if (samples * bins > limit) throw NotImplementedError("a transform of length " + std::to_string(length) + " is too long");
  std::vector<float> real, imaginary;
  for (std::int64_t m = 0; m < samples; m++)
    for (std::int64_t k = 0; k < bins; k++) {
      const double angle = 2 * pi * double(m * k % length) / double(length), scale = inverse ? 1 / double(length) : 1;
      real.push_back(float(std::cos(angle) * scale));
      imaginary.push_back(float((inverse ? 1 : -1) * std::sin(angle) * scale));
    }
  auto tensor = [&](const std::vector<float>& data) {
    return cast(queue, Tensor::from_host(DataType::float32, {samples, bins}, data.data()), type);
  };
  return {tensor(real), tensor(imaginary)};
}

// Real and imaginary part as the last dimension.
Tensor paired(Queue& queue, const Tensor& real, const Tensor& imaginary) {
  const Tensor parts[] = {unsqueeze(real, real.shape().size()), unsqueeze(imaginary, imaginary.shape().size())};
  return concat(queue, parts, real.shape().size());
}

// x [..., 1 or 2] transformed along `dim`.
Tensor transform(Call& call, const Tensor& x, int dim, std::int64_t length, bool inverse, bool onesided) {
  Queue& queue = call.queue();
  const int rank = x.shape().size(), last = rank - 1;
  const bool complex = x.shape()[last] == 2;
  const std::int64_t samples = std::min(length, x.shape()[dim]);
  std::vector<std::int64_t> order;
  for (int d = 0; d < last; d++) order.push_back(d);
  std::swap(order[std::size_t(dim)], order.back());
  auto part = [&](int i) { return permute(narrow(select(x, last, i), dim, 0, samples), order); };
  if (inverse && onesided) {  // the other half is the conjugate: the result is real
    const std::int64_t bins = length / 2 + 1;
    if (samples != bins) call.fail("expected " + std::to_string(bins) + " bins, got " + std::to_string(samples));
    Waves w = waves(queue, x.dtype(), bins, length, length, true);
    std::vector<float> twice(std::size_t(bins), 2);
    twice[0] = 1;
    if (length % 2 == 0) twice.back() = 1;
    const Tensor factor = Tensor::from_host(DataType::float32, {bins}, twice.data());
    auto weighted = [&](const Tensor& t) { return apply(queue, "y0 = x0 * x1;", {t, factor}); };
    const Tensor y = apply(queue, "y0 = x0 - x1;", {matmul(queue, weighted(part(0)), w.real),
                                                    matmul(queue, weighted(part(1)), w.imaginary)});
    return unsqueeze(permute(y, order), last);
  }
  const std::int64_t bins = onesided ? length / 2 + 1 : length;
  const Waves w = waves(queue, x.dtype(), samples, bins, length, inverse);
  Tensor real = matmul(queue, part(0), w.real), imaginary = matmul(queue, part(0), w.imaginary);
  if (complex) {
    real = apply(queue, "y0 = x0 - x1;", {real, matmul(queue, part(1), w.imaginary)});
    imaginary = apply(queue, "y0 = x0 + x1;", {imaginary, matmul(queue, part(1), w.real)});
  }
  return paired(queue, permute(real, order), permute(imaginary, order));
}

void dft(Call& call) {
  const Tensor& x = call.input(0);
  const int rank = x.shape().size();
  if (rank < 2 || x.shape()[rank - 1] < 1 || x.shape()[rank - 1] > 2) call.fail("expected [..., 1] or [..., 2], got " + x.shape().text());
  const std::int64_t axis = call.has(2) ? call.read_integers(2).at(0) : call.integer("axis", call.version() < 20 ? 1 : -2);
  const int dim = x.shape().axis(axis);
  if (dim == rank - 1) call.fail("the last dimension holds real and imaginary part");
  const bool inverse = call.integer("inverse", 0), onesided = call.integer("onesided", 0);
  std::int64_t length = x.shape()[dim];
  if (inverse && onesided) length = 2 * (length - 1);
  if (call.has(1)) length = call.read_integers(1).at(0);
  if (length < 1) call.fail("expected a length of 1 or more");
  call.set(0, transform(call, x, dim, length, inverse, onesided));
}

// Overlapping frames are views of the signal.
void stft(Call& call) {
  Queue& queue = call.queue();
  Tensor x = contiguous(queue, call.input(0));
  if (x.shape().size() == 2) x = unsqueeze(x, 2);
  const std::int64_t step = call.read_integers(1).at(0), batch = x.shape()[0], samples = x.shape()[1], parts = x.shape()[2];
  std::int64_t length = call.has(2) ? call.input(2).numel() : 0;
  if (call.has(3)) length = call.read_integers(3).at(0);
  if (step < 1 || length < 1 || length > samples) call.fail("frames of " + std::to_string(length) + " do not fit " + x.shape().text());
  const std::int64_t frames = (samples - length) / step + 1;
  Tensor all = x.strided({batch, frames, length, parts}, {samples * parts, step * parts, parts, 1});
  if (call.has(2)) all = apply(queue, "y0 = x0 * x1;", {all, unsqueeze(call.input(2), 1)});
  call.set(0, transform(call, all, 2, length, false, call.integer("onesided", 1)));
}

// Triangles between frequencies that are evenly spaced on the mel scale, [bins, mel bins].
void mel_weights(Call& call) {
  const std::int64_t mels = call.read_integers(0).at(0), length = call.read_integers(1).at(0), rate = call.read_integers(2).at(0);
  const double low = call.read_reals(3).at(0), high = call.read_reals(4).at(0);
  if (mels < 1 || length < 1 || rate < 1) call.fail("expected positive sizes");
  const std::int64_t bins = length / 2 + 1;
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < mels + 2; i++) {
    const double at = mel(low) + double(i) * (mel(high) - mel(low)) / double(mels + 2);
    edges.push_back(std::int64_t(std::floor(double(length + 1) * (700 * (std::pow(10, at / 2595) - 1)) / double(rate))));
  }
  std::vector<float> weights(std::size_t(bins * mels));
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
  registry.add("DFT", dft, "axis inverse onesided");
  registry.add("STFT", stft, "onesided");
  registry.add("MelWeightMatrix", mel_weights, "output_datatype");
}

}  // namespace dlprim::operators
