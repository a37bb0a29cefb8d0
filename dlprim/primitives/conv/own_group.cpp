// SPDX-License-Identifier: MIT
#include "own_group.hpp"

#include <dlprim/primitives/reduce.hpp>
#include <dlprim/runtime/launch.hpp>

#include "../gemm/engine.hpp"

namespace dlprim {

namespace {

constexpr std::size_t items = 4096;  // an image and set; all but those that find a flag end at once

struct Key {
  std::uint16_t type, activation, bias, residual, data;
};

// The struct of conv/own_group.cl.
struct Groups {
  cl_long from_stride[5], to_stride[5], residual_stride[5], w_stride[5];
  cl_long from[3], to[3], taps[3], stride[3], padding[3], dilation[3];
  cl_long sets, from_channels, to_channels, together, bias_stride;
};

void set_strides(cl_long (&strides)[5], const Volume& volume) {
  strides[0] = volume.outer_stride, strides[1] = volume.channel_stride;
  for (int i = 0; i < 3; i++) strides[2 + i] = volume.stride[i];
}

// As those of a volume with the same spatial dimensions; none for none.
void set_strides(cl_long (&strides)[5], const TensorView& view) {
  if (!view.defined()) return;
  strides[0] = view.strides[0], strides[1] = view.strides[1];
  for (int d = view.dims - 1, i = 4; d >= 2; d--, i--) strides[i] = view.strides[d];
}

const TensorView& input_of(const ConvProblem& problem) {
  return problem.pass == ConvPass::data ? problem.y : problem.x;
}

Kernel& kernel_for(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("conv/own_group.cl", "own_group");
    source.define("TYPE", tag(DataType(key.type))).define("ACTIVATE(x0)", activation_code(Activation(key.activation)));
    source.define("BIAS", key.bias).define("RESIDUAL", key.residual).define("DATA", key.data);
    return source.define("ITEMS", std::int64_t(items));
  });
}

}  // namespace

OwnGroup::OwnGroup(Queue& queue, const ConvProblem& problem, std::int64_t together)
    : sets_(problem.shape.groups / together), together_(together) {
  const TensorView& input = input_of(problem);
  flags_ = Workspace(queue, std::size_t(input.sizes[0] * sets_));
  TensorView in = input, out;
  in.dims = input.dims + 1;
  in.sizes[1] = sets_, in.sizes[2] = input.sizes[1] / sets_;
  in.strides[1] = in.sizes[2] * input.strides[1], in.strides[2] = input.strides[1];
  for (int d = 2; d < input.dims; d++) in.sizes[d + 1] = input.sizes[d], in.strides[d + 1] = input.strides[d];
  out = in;
  out.data = flags_.data(), out.dtype = DataType::uint8;
  for (int d = 0; d < out.dims; d++) out.sizes[d] = d < 2 ? in.sizes[d] : 1, out.strides[d] = 0;
  out.strides[0] = sets_, out.strides[1] = 1;
  static const ReduceProgram any_not_finite(
      {"int found;", 1, "p->found = 0;", "p->found |= !isfinite(x0);", "p->found |= q.found;", "y0 = p->found;"});
  reduce(queue, any_not_finite, DataType::float32, {{&out, 1}, {&in, 1}});
}

void OwnGroup::run(Queue& queue, const ConvProblem& problem) const {
  const ConvShape& s = problem.shape;
  const bool data = problem.pass == ConvPass::data;
  const Volume &from = data ? s.y : s.x, &to = data ? s.x : s.y;
  Groups g{};
  set_strides(g.from_stride, from), set_strides(g.to_stride, to), set_strides(g.w_stride, s.w);
  set_strides(g.residual_stride, problem.residual);
  for (int i = 0; i < 3; i++) {
    g.from[i] = from.size[i], g.to[i] = to.size[i], g.taps[i] = s.w.size[i];
    g.stride[i] = s.stride[i], g.padding[i] = s.padding[i], g.dilation[i] = s.dilation[i];
  }
  g.sets = sets_, g.together = together_;
  g.from_channels = from.channels / s.groups, g.to_channels = to.channels / s.groups;
  g.bias_stride = problem.bias.defined() ? problem.bias.stride(0) : 0;
  const Key key{std::uint16_t(s.type), std::uint16_t(problem.activation), problem.bias.defined(),
                problem.residual.defined(), data};
  const BufferRef bias = problem.bias.defined() ? problem.bias.data : s.w.data;
  const BufferRef residual = problem.residual.defined() ? problem.residual.data : s.w.data;
  launch(queue, kernel_for(queue.device(), key), NDRange(std::size_t(from.outer * sets_) * items, 64), flags_.data(),
         from.data, s.w.data, bias, residual, to.data, g);
}

}  // namespace dlprim
