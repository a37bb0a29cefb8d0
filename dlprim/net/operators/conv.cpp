// SPDX-License-Identifier: MIT
#include <dlprim/primitives/conv.hpp>

#include "../array.hpp"
#include "../checked.hpp"
#include "../optimize.hpp"
#include "../operator.hpp"
#include "../window.hpp"

namespace dlprim::operators {

namespace {

struct ConvAttributes {
  explicit ConvAttributes(const AttributeReader& reader)
      : window(reader), group(reader.integer("group", 1)), activation(fused_activation(reader)),
        residual(reader.given("residual")), channels_last(reader.given("channels_last")) {
    if (reader.given("constant_weights")) kept = std::make_shared<std::optional<Workspace>>();
  }
  WindowAttributes window;
  std::int64_t group;
  Activation activation;  // this and what follows come from optimize()
  bool residual, channels_last;
  std::shared_ptr<std::optional<Workspace>> kept;  // of constant weights
};

const ConvAttributes& attributes_of(const Call& call) { return call.attributes<ConvAttributes>(); }

std::vector<std::int64_t> kernel_of(Call& call, const Shape& weights) {
  std::vector<std::int64_t> kernel(weights.begin() + std::min(2, weights.size()), weights.end());
  if (!attributes_of(call).window.kernel.empty() && attributes_of(call).window.kernel != kernel)
    call.fail("expected weights of the kernel_shape, got " + weights.text());
  return kernel;
}

ConvOptions options_of(Call& call, const Window& w) {
  ConvOptions options;
  for (std::size_t i = 0; i < std::size_t(w.dims()); i++)
    options.stride[i] = w.stride[i], options.padding[i] = w.before[i], options.dilation[i] = w.dilation[i];
  options.groups = checked_range(attributes_of(call).group, 1, std::int64_t(1) << 30, "groups");
  return options;
}

TensorView optional(Call& call, int i) { return call.has(i) ? call.in(i) : TensorView(); }

void convolution(Call& call) {
  const Tensor& x = call.input(0);
  const Shape& weights = call.input(1).shape();
  const Window w = read_window(call, attributes_of(call).window, x.shape(), kernel_of(call, weights));
  Shape shape{x.shape()[0], weights[0]};
  for (std::int64_t size : w.out) shape.push_back(size);
  const bool last = attributes_of(call).channels_last && call.queue().device().info().cpu && shape.size() == 4;
  const Tensor y = last ? channels_last(call.queue(), x.dtype(), shape) : Tensor(call.queue(), x.dtype(), shape);
  const Activation activation = attributes_of(call).activation;
  // A fourth input, to be added, comes from optimize(); one that has to be broadcast is added behind.
  const bool added = attributes_of(call).residual;
  const bool behind = added && !(call.input(3).shape() == shape && call.input(3).dtype() == x.dtype());
  if (y.numel() > 0)
    conv_forward(call.queue(), call.in(0), call.in(1), optional(call, 2), y.view(call.queue()), options_of(call, w),
                 behind ? Activation::none : activation, added && !behind ? call.in(3) : TensorView(),
                 attributes_of(call).kept.get());
  if (!behind) return call.set(0, y);
  call.set(0, apply(call.queue(), sum_code(activation), {y, call.input(3)}));
}

void conv_transpose(Call& call) {
  const Tensor& x = call.input(0);
  const Shape& weights = call.input(1).shape();
  const Window w = read_transposed_window(call, attributes_of(call).window, x.shape(), kernel_of(call, weights));
  const ConvOptions options = options_of(call, w);
  Shape shape{x.shape()[0], checked_multiply(weights[1], options.groups)};
  for (std::int64_t size : w.out) shape.push_back(size);
  conv_backward_data(call.queue(), call.in(0), call.in(1), optional(call, 2), call.out(0, x.dtype(), shape), options);
}

Tensor centered(Call& call, int i, int zero_point, bool per_row) {
  Tensor x = cast(call.queue(), call.input(i), DataType::int32);
  if (!call.has(zero_point)) return x;
  Tensor zero = cast(call.queue(), call.input(zero_point), DataType::int32);
  if (per_row && zero.numel() > 1) {
    Shape shape{zero.numel()};
    while (shape.size() < x.shape().size()) shape.push_back(1);
    zero = reshape(call.queue(), zero, shape);
  } else if (zero.numel() == 1) {
    zero = reshape(call.queue(), zero, {});
  }
  return apply(call.queue(), "y0 = x0 - x1;", {x, zero});
}

void conv_integer(Call& call) {
  const Tensor x = centered(call, 0, 2, false), weights = centered(call, 1, 3, true);
  const Window w = read_window(call, attributes_of(call).window, x.shape(), kernel_of(call, weights.shape()));
  Shape shape{x.shape()[0], weights.shape()[0]};
  for (std::int64_t size : w.out) shape.push_back(size);
  conv_forward(call.queue(), x.view(call.queue()), weights.view(call.queue()), {}, call.out(0, DataType::int32, shape),
               options_of(call, w));
}

}  // namespace

void conv(Registry& registry) {
  constexpr const char* window =
      "auto_pad=NOTSET|VALID|SAME_UPPER|SAME_LOWER dilations group kernel_shape pads strides";
  registry.add<ConvAttributes>("Conv", convolution, window);
  registry.add<ConvAttributes>("ConvInteger", conv_integer, window);
  registry.add<ConvAttributes>("ConvTranspose", conv_transpose,
                               (std::string(window) + " output_padding output_shape").c_str());
}

}  // namespace dlprim::operators
