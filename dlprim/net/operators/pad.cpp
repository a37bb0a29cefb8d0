// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>

#include <algorithm>

#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

using Integers = std::vector<std::int64_t>;

Tensor pad_constant(Queue& queue, Tensor x, const Integers& before, const Integers& after, const Tensor& value) {
  Shape shape = x.shape();
  for (int d = 0; d < shape.size(); d++) {
    const auto k = std::size_t(d);
    shape[d] += before[k] + after[k];
    if (shape[d] < 0) throw ValidationError("the pads leave nothing of " + x.shape().text());
  }
  const Tensor y(queue, x.dtype(), shape);
  copy(queue, y.view(queue), expand(reshape(queue, value, {}), shape).view(queue));
  Tensor inside = y;
  for (int d = 0; d < shape.size(); d++) {  // negative pads cut off
    const auto k = std::size_t(d);
    const std::int64_t cut = std::max<std::int64_t>(0, -before[k]), cut_end = std::max<std::int64_t>(0, -after[k]);
    const std::int64_t length = std::max<std::int64_t>(0, x.shape()[d] - cut - cut_end);
    x = narrow(x, d, cut, length);
    inside = narrow(inside, d, std::max<std::int64_t>(0, before[k]), length);
  }
  if (x.numel()) copy(queue, inside.view(queue), x.view(queue));
  return y;
}

// The element of a row that stands at position `at`, which may be outside.
std::int64_t source(std::int64_t at, std::int64_t size, const std::string& mode) {
  if (mode == "edge") return std::clamp<std::int64_t>(at, 0, size - 1);
  if (mode == "wrap") return ((at % size) + size) % size;
  if (size == 1) return 0;
  const std::int64_t period = 2 * (size - 1);  // reflect
  at = ((at % period) + period) % period;
  return at < size ? at : period - at;
}

void pad_op(Call& call) {
  Queue& queue = call.queue();
  Tensor x = call.input(0);
  const int rank = x.shape().size();
  const Integers pads = call.has(1) ? call.read_integers(1) : call.integers(call.given("paddings") ? "paddings" : "pads");
  Integers axes;
  if (call.has(3)) axes = call.read_integers(3);
  else
    for (int d = 0; d < rank; d++) axes.push_back(d);
  if (pads.size() != 2 * axes.size()) call.fail("expected two pads for every axis, got " + Shape(pads).text());
  Integers before(std::size_t(rank), 0), after(std::size_t(rank), 0);
  for (std::size_t i = 0; i < axes.size(); i++) {
    const auto d = std::size_t(x.shape().axis(axes[i]));
    before[d] = pads[i], after[d] = pads[i + axes.size()];
  }
  const std::string mode = call.text("mode", "constant");
  if (mode == "constant") {
    const Tensor value = call.has(2) ? cast(queue, call.input(2), x.dtype())
                                     : filled(queue, x.dtype(), {}, call.real("value", 0));
    return call.set(0, pad_constant(queue, x, before, after, value));
  }
  for (int d = 0; d < rank; d++) {
    const auto k = std::size_t(d);
    if (before[k] == 0 && after[k] == 0) continue;
    Integers index;
    for (std::int64_t at = -before[k]; at < x.shape()[d] + after[k]; at++) index.push_back(source(at, x.shape()[d], mode));
    if (x.shape()[d] == 0) call.fail("nothing to repeat in " + x.shape().text());
    x = call.run("Gather", {x, Tensor::from_integers(index)}, {{"axis", std::int64_t(d)}})[0];
  }
  call.set(0, x);
}

// Crops to, or pads with zeros to, the sizes given for some axes, keeping the centre.
void center_crop_pad(Call& call) {
  Tensor x = call.input(0);
  const Integers sizes = call.read_integers(1);
  Integers axes = call.integers("axes");
  if (axes.empty())
    for (std::size_t i = 0; i < sizes.size(); i++) axes.push_back(std::int64_t(i));
  if (axes.size() != sizes.size()) call.fail("expected a size for every axis");
  Integers before(std::size_t(x.shape().size()), 0), after = before;
  for (std::size_t i = 0; i < axes.size(); i++) {
    const int d = x.shape().axis(axes[i]);
    const std::int64_t extra = sizes[i] - x.shape()[d], half = std::abs(extra) / 2;
    if (sizes[i] < 0) call.fail("expected sizes of 0 or more");
    before[std::size_t(d)] = extra < 0 ? -half : half;
    after[std::size_t(d)] = extra - before[std::size_t(d)];
  }
  call.set(0, pad_constant(call.queue(), x, before, after, filled(call.queue(), x.dtype(), {}, 0)));
}

}  // namespace

void pad(Registry& registry) {
  registry.add("Pad", pad_op, "mode=constant|edge|reflect|wrap pads paddings value");
  registry.add("CenterCropPad", center_crop_pad, "axes");
}

}  // namespace dlprim::operators
