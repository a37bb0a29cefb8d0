// SPDX-License-Identifier: MIT
// Fourier transforms, and what surrounds them in models of sound.
#include <cmath>

#include "../array.hpp"
#include "../checked.hpp"
#include "../composition.hpp"
#include "../fourier.hpp"

namespace dlprim::operators {

namespace {

using Part = Composition::Part;

struct SignalAttributes {
  explicit SignalAttributes(const AttributeReader& reader)
      : onesided(reader.integer("onesided", 1)), output_datatype(reader.integer("output_datatype", 1)) {}
  std::int64_t onesided, output_datatype;
};

const SignalAttributes& attributes_of(const Call& call) { return call.attributes<SignalAttributes>(); }

void dft(Call& call) {
  const Tensor& x = call.input(0);
  const Fourier how = Fourier::of(call, x.shape());
  call.set(0, fourier(call.queue(), x, how, how.scale()));
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
  Part all = c(inner<"Gather", "axis">(1), {x, c.constant(index)});
  if (call.has(2)) all = c("Mul"_op, {all, c.reshape(c.input(2), {length, 1})});
  const Part axis = c.constant(Tensor::from_integers(std::vector<std::int64_t>{2}));
  c.set(0, c(inner<"DFT", "onesided">(attributes_of(call).onesided), {all, {}, axis}));
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
  const DataType type = element_type(attributes_of(call).output_datatype);
  call.set(0, cast(call.queue(), Tensor::from_host(DataType::float32, {bins, mels}, weights.data()), type));
}

}  // namespace

void signal(Registry& registry) {
  registry.add<FourierAttributes>("DFT", dft, "axis inverse onesided");
  compose<SignalAttributes, stft>(registry, "STFT", "onesided");
  registry.add<SignalAttributes>("MelWeightMatrix", mel_weights, "output_datatype");
}

}  // namespace dlprim::operators
