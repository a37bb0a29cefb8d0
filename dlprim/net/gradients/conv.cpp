// SPDX-License-Identifier: MIT
#include <dlprim/primitives/conv.hpp>

#include "../gradient.hpp"
#include "../window.hpp"

namespace dlprim::gradients {

namespace {

struct ConvAttributes {
  explicit ConvAttributes(const AttributeReader& reader) : window(reader), group(reader.integer("group", 1)) {}
  WindowAttributes window;
  std::int64_t group;
};

const ConvAttributes& attributes_of(const Call& call) { return call.attributes<ConvAttributes>(); }

ConvOptions options_of(GradientCall& call, bool transposed) {
  const Shape& weights = call.shape(1);
  std::vector<std::int64_t> kernel(weights.begin() + 2, weights.end());
  const Window w = transposed ? read_transposed_window(call, attributes_of(call).window, call.shape(0), kernel)
                              : read_window(call, attributes_of(call).window, call.shape(0), kernel);
  ConvOptions options;
  for (std::size_t i = 0; i < std::size_t(w.dims()); i++)
    options.stride[i] = w.stride[i], options.padding[i] = w.before[i], options.dilation[i] = w.dilation[i];
  options.groups = attributes_of(call).group;
  return options;
}

void bias(GradientCall& call, const Tensor& dy) {
  if (!call.needs(2)) return;
  const Tensor db(call.queue(), dy.dtype(), call.shape(2));
  conv_backward_bias(call.queue(), dy.view(call.queue()), db.view(call.queue()));
  call.add(2, db);
}

void conv_op(GradientCall& call) {
  Queue& queue = call.queue();
  const ConvOptions options = options_of(call, false);
  const Tensor dy = call.gradient();
  if (call.needs(0)) {
    const Tensor dx(queue, dy.dtype(), call.shape(0));
    conv_backward_data(queue, dy.view(queue), call.in(1), {}, dx.view(queue), options);
    call.add(0, dx);
  }
  if (call.needs(1)) {
    const Tensor dw(queue, dy.dtype(), call.shape(1));
    conv_backward_weights(queue, call.in(0), dy.view(queue), dw.view(queue), options);
    call.add(1, dw);
  }
  bias(call, dy);
}

// The roles of x and y are exchanged.
void conv_transpose(GradientCall& call) {
  Queue& queue = call.queue();
  const ConvOptions options = options_of(call, true);
  const Tensor dy = call.gradient();
  if (call.needs(0)) {
    const Tensor dx(queue, dy.dtype(), call.shape(0));
    conv_forward(queue, dy.view(queue), call.in(1), {}, dx.view(queue), options);
    call.add(0, dx);
  }
  if (call.needs(1)) {
    const Tensor dw(queue, dy.dtype(), call.shape(1));
    conv_backward_weights(queue, dy.view(queue), call.in(0), dw.view(queue), options);
    call.add(1, dw);
  }
  bias(call, dy);
}

}  // namespace

void conv(GradientRegistry& registry) {
  registry.add<ConvAttributes>("Conv", conv_op, "x0 x1");
  registry.add<ConvAttributes>("ConvTranspose", conv_transpose, "x0 x1");
}

}  // namespace dlprim::gradients
