// SPDX-License-Identifier: MIT
#include <dlprim/primitives/byte_optimizer.hpp>
#include <dlprim/runtime/launch.hpp>

#include <cmath>

#include "check.hpp"

namespace dlprim {

namespace {

constexpr const char* op = "step_of_bytes";

std::size_t states_of(ByteOptimizer optimizer) {
  return optimizer == ByteOptimizer::adam ? 2 : optimizer == ByteOptimizer::ademamix ? 3 : 1;
}

void check(ByteOptimizer optimizer, const TensorView& parameter, const TensorView& gradient,
           std::span<const ByteState> states, std::int64_t block) {
  for (const TensorView* x : {&parameter, &gradient})
    DLPRIM_EXPECT(is_floating(x->dtype) && x->dtype != DataType::float64 && x->is_contiguous(), op,
                  "a contiguous floating parameter and gradient, got ", *x);
  DLPRIM_EXPECT(parameter.numel() == gradient.numel(), op, "a gradient of the parameter's size ", parameter.numel(),
                ", got ", gradient);
  DLPRIM_EXPECT(block >= 64 && block <= 4096 && block % 64 == 0, op,
                "blocks of a multiple of 64 elements up to 4096, got ", block);
  DLPRIM_EXPECT(states.size() == states_of(optimizer), op, states_of(optimizer), " states, got ", states.size());
  const std::int64_t count = parameter.numel(), blocks = (count + block - 1) / block;
  for (const ByteState& s : states) {
    DLPRIM_EXPECT(s.bytes.dtype == DataType::uint8 && s.bytes.is_contiguous() && s.bytes.numel() == count, op,
                  "a byte for each element of a state, got ", s.bytes);
    DLPRIM_EXPECT(s.scales.dtype == DataType::float32 && s.scales.is_contiguous() && s.scales.numel() == blocks, op,
                  "float32 scales for ", blocks, " blocks, got ", s.scales);
    DLPRIM_EXPECT(s.table.dtype == DataType::float32 && s.table.is_contiguous() && s.table.numel() == 256, op,
                  "a table of 256 float32, got ", s.table);
  }
}

}  // namespace

void step_of_bytes(Queue& queue, ByteOptimizer optimizer, const TensorView& parameter, const TensorView& gradient,
                   std::span<const ByteState> states, std::int64_t block, const ByteOptimizerStep& step) {
  check(optimizer, parameter, gradient, states, block);
  if (parameter.numel() == 0) return;
  struct Key {
    std::uint8_t type, gradient, optimizer, unused;
    std::uint16_t block, items;
  };
  Key key{};
  key.type = std::uint8_t(parameter.dtype), key.gradient = std::uint8_t(gradient.dtype);
  key.optimizer = std::uint8_t(optimizer), key.block = std::uint16_t(block);
  key.items = std::uint16_t(block % 256 == 0 ? fitting_group(queue.device().info(), 256) : 64);
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("quantized/optimizer.cl", "optimizer_of_bytes");
    source.define("T", tag(parameter.dtype)).define("GRADIENT", tag(gradient.dtype));
    source.define("ALGORITHM", key.optimizer).define("STATES", std::int64_t(states.size()));
    return source.define("BLOCK", key.block).define("ITEMS", key.items);
  });
  struct Parameters {  // as in optimizer.cl
    std::uint64_t count;
    float lr, beta1, beta2, beta3, alpha, eps, weight_decay, gradient_scale;
    float rest1, rest2, rest3, correction1, correction2;
    std::int32_t first;
  } p{};
  p.count = std::uint64_t(parameter.numel());
  p.lr = float(step.lr), p.beta1 = float(step.beta1), p.beta2 = float(step.beta2), p.beta3 = float(step.beta3);
  p.alpha = float(step.alpha), p.eps = float(step.eps), p.weight_decay = float(step.weight_decay);
  p.gradient_scale = float(step.gradient_scale);
  p.rest1 = float(1 - step.beta1), p.rest2 = float(1 - step.beta2), p.rest3 = float(1 - step.beta3);
  p.correction1 = float(1 - std::pow(step.beta1, double(step.number)));
  p.correction2 = float(std::sqrt(1 - std::pow(step.beta2, double(step.number))));
  p.first = step.number == 1;
  const auto state = [&](std::size_t i) -> const ByteState& { return states[std::min(i, states.size() - 1)]; };
  const std::size_t groups = std::size_t(states[0].scales.numel());
  launch(queue, kernel, NDRange(groups * key.items, key.items), parameter.data, gradient.data, state(0).bytes.data,
         state(0).scales.data, state(0).table.data, state(1).bytes.data, state(1).scales.data, state(1).table.data,
         state(2).bytes.data, state(2).scales.data, state(2).table.data, p);
}

}  // namespace dlprim
