// SPDX-License-Identifier: MIT
#include "../pad.hpp"

#include <dlprim/primitives/copy.hpp>

#include <algorithm>

#include "../array.hpp"
#include "../checked.hpp"
#include "../inner.hpp"

namespace dlprim {

using Integers = std::vector<std::int64_t>;

namespace {

PadAttributes::Mode mode_of(const std::string& name) {
  if (name == "edge") return PadAttributes::edge;
  if (name == "reflect") return PadAttributes::reflect;
  return name == "wrap" ? PadAttributes::wrap : PadAttributes::constant;
}

const PadAttributes& attributes_of(const Call& call) { return call.attributes<PadAttributes>(); }

// The element of a row that stands at position `at`, which may be outside.
std::int64_t source(std::int64_t at, std::int64_t size, PadAttributes::Mode mode) {
  if (mode == PadAttributes::edge) return std::clamp<std::int64_t>(at, 0, size - 1);
  if (mode == PadAttributes::wrap) return ((at % size) + size) % size;
  if (size == 1) return 0;
  const std::int64_t period = 2 * (size - 1);  // reflect
  at = ((at % period) + period) % period;
  return at < size ? at : period - at;
}

// Dimensions, all where the node names none.
Integers axes_of(const Shape& x, Integers axes, bool given) {
  for (std::int64_t& axis : axes) axis = x.axis(axis);
  for (int d = 0; !given && d < x.size(); d++) axes.push_back(d);
  return axes;
}

// CenterCropPad: half of what a size lacks or has too much, before and after.
Pads around_center(Call& call, const Shape& x) {
  const Integers sizes = call.read_integers(1),
                 axes = axes_of(x, attributes_of(call).axes, attributes_of(call).has_axes);
  if (axes.size() != sizes.size()) call.fail("expected a size for every axis");
  Pads pads{Integers(std::size_t(x.size()), 0), Integers(std::size_t(x.size()), 0)};
  for (std::size_t i = 0; i < axes.size(); i++) {
    if (sizes[i] < 0) call.fail("expected sizes of 0 or more");
    const std::int64_t extra = sizes[i] - x[int(axes[i])], half = std::abs(extra) / 2;
    pads.before[std::size_t(axes[i])] = extra < 0 ? -half : half;
    pads.after[std::size_t(axes[i])] = extra - pads.before[std::size_t(axes[i])];
  }
  return pads;
}

}  // namespace

PadAttributes::PadAttributes(const AttributeReader& reader)
    : crops(reader.node().type == "CenterCropPad"), mode(mode_of(reader.text("mode", "constant"))),
      pads(reader.integers(reader.given("paddings") ? "paddings" : "pads")), axes(reader.integers("axes")),
      has_axes(reader.given("axes")), value(reader.real("value", 0)) {}

Pads read_pads(Call& call, const Shape& x) {
  if (attributes_of(call).crops) return around_center(call, x);
  const Integers pads = call.has(1) ? call.read_integers(1) : attributes_of(call).pads;
  const Integers axes = axes_of(x, call.has(3) ? call.read_integers(3) : Integers(), call.has(3));
  if (pads.size() != 2 * axes.size()) call.fail("expected two pads for every axis, got " + Shape(pads).text());
  Pads result{Integers(std::size_t(x.size()), 0), Integers(std::size_t(x.size()), 0)};
  for (std::size_t i = 0; i < axes.size(); i++) {
    const auto d = std::size_t(axes[i]);
    constexpr std::int64_t most = std::int64_t(1) << 46;
    result.before[d] = checked_range(pads[i], -most, most, "a pad");
    result.after[d] = checked_range(pads[i + axes.size()], -most, most, "a pad");
  }
  return result;
}

Integers padded_index(Call& call, std::int64_t before, std::int64_t size, std::int64_t after) {
  if (size == 0) call.fail("there is nothing to repeat");
  const PadAttributes::Mode mode = attributes_of(call).mode;
  Integers index;
  index.reserve(host_elements(std::max<std::int64_t>(0, before + size + after), "a padded size"));
  for (std::int64_t at = -before; at < size + after; at++) index.push_back(source(at, size, mode));
  return index;
}

namespace operators {

namespace {

Tensor pad_constant(Queue& queue, Tensor x, const Pads& pads, const Tensor& value) {
  const auto& [before, after] = pads;
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

void pad_op(Call& call) {
  Queue& queue = call.queue();
  Tensor x = call.input(0);
  const Pads pads = read_pads(call, x.shape());
  if (attributes_of(call).mode == PadAttributes::constant) {
    const Tensor value =
        call.has(2) ? cast(queue, call.input(2), x.dtype()) : filled(queue, x.dtype(), {}, attributes_of(call).value);
    return call.set(0, pad_constant(queue, x, pads, value));
  }
  for (int d = 0; d < x.shape().size(); d++) {
    const auto k = std::size_t(d);
    if (pads.before[k] == 0 && pads.after[k] == 0) continue;
    const Integers index = padded_index(call, pads.before[k], x.shape()[d], pads.after[k]);
    x = call.run(inner<"Gather", "axis">(d), {x, Tensor::from_integers(index)})[0];
  }
  call.set(0, x);
}

void center_crop_pad(Call& call) {
  const Tensor& x = call.input(0);
  call.set(0, pad_constant(call.queue(), x, read_pads(call, x.shape()), filled(call.queue(), x.dtype(), {}, 0)));
}

}  // namespace

void pad(Registry& registry) {
  registry.add<PadAttributes>("Pad", pad_op, "mode=constant|edge|reflect|wrap pads paddings value");
  registry.add<PadAttributes>("CenterCropPad", center_crop_pad, "axes");
}

}  // namespace operators
}  // namespace dlprim
