// SPDX-License-Identifier: MIT
#include "../pad.hpp"

#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/index.hpp>

#include <algorithm>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// What was cut off gets 0.
void from_inside(GradientCall& call, const Pads& pads) {
  const Shape& x = call.shape(0);
  Tensor dy = call.gradient(), dx = filled(call.queue(), dy.dtype(), x, 0), inside = dx;
  for (int d = 0; d < x.size(); d++) {
    const std::int64_t before = pads.before[std::size_t(d)], cut = std::max<std::int64_t>(0, -before);
    const std::int64_t length =
        std::max<std::int64_t>(0, x[d] - cut - std::max<std::int64_t>(0, -pads.after[std::size_t(d)]));
    dy = narrow(dy, d, std::max<std::int64_t>(0, before), length), inside = narrow(inside, d, cut, length);
  }
  if (inside.numel()) copy(call.queue(), inside.view(call.queue()), dy.view(call.queue()));
  call.add(0, dx);
}

void pad_op(GradientCall& call) {
  Queue& queue = call.queue();
  const Shape& x = call.shape(0);
  const Pads pads = read_pads(call, x);
  if (call.attributes<PadAttributes>().mode == PadAttributes::constant) return from_inside(call, pads);
  Tensor dy = call.gradient();
  for (int d = x.size() - 1; d >= 0; d--) {
    const auto k = std::size_t(d);
    if (pads.before[k] == 0 && pads.after[k] == 0) continue;
    const Tensor index = Tensor::from_integers(padded_index(call, pads.before[k], x[d], pads.after[k]));
    Shape shape = dy.shape();
    shape[d] = x[d];
    const Tensor sums = filled(queue, dy.dtype(), shape, 0);
    if (dy.numel()) index_update(queue, sums.view(queue), d, index.view(queue), dy.view(queue), Update::add);
    dy = sums;
  }
  call.add(0, dy);
}

void center_crop_pad(GradientCall& call) { from_inside(call, read_pads(call, call.shape(0))); }

}  // namespace

void pad(GradientRegistry& registry) {
  registry.add<PadAttributes>("Pad", pad_op, "x1 x3");
  registry.add<PadAttributes>("CenterCropPad", center_crop_pad, "x1");
}

}  // namespace dlprim::gradients
