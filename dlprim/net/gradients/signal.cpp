// SPDX-License-Identifier: MIT
#include "../fourier.hpp"
#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// The transform is linear: its gradient is the other direction's, not normalized, of what arrives.
void dft(GradientCall& call) {
  Queue& queue = call.queue();
  const Shape& x = call.shape(0);
  const Fourier how = Fourier::of(call, x);
  Fourier back = how;
  back.inverse = !how.inverse, back.onesided = how.inverse && how.onesided;
  Tensor dx = fourier(queue, call.gradient(), back, how.scale());
  if (back.onesided) {  // numbers that stand for their conjugates, too, count twice
    std::vector<float> counts(std::size_t(how.bins()), 2);
    counts[0] = 1;
    if (how.length % 2 == 0) counts.back() = 1;
    Shape along(std::vector<std::int64_t>(std::size_t(x.size()), 1));
    along[how.dim] = how.bins();
    dx = apply(queue, "y0 = x0 * x1;", {dx, Tensor::from_host(DataType::float32, along, counts.data())}, {}, dx.dtype(),
               dx.dtype());
  }
  call.add(0, resized(queue, resized(queue, dx, x.size() - 1, x[x.size() - 1]), how.dim, x[how.dim]));
}

}  // namespace

void signal(GradientRegistry& registry) { registry.add<FourierAttributes>("DFT", dft, "x1 x2"); }

}  // namespace dlprim::gradients
