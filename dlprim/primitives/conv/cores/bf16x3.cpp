// SPDX-License-Identifier: MIT
// Gradients of weights in tf32 on Hopper. Its matrix units take tf32 only along the sums, which run over points here,
// but 16-bit elements either way: x and dy become sums of two bfloat16, big + small, of whose products all but
// small small are summed (G. Henry, P. Tang, A. Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For
// Higher-Precision Computations", 2019), which keeps 16 bits of an element where tf32 has 11. The three products are
// one over three times the images: [big, big, small] of x by [big, small, big] of dy.
#include "../../../tuning/store.hpp"
#include "../../gemm/core.hpp"
#include "../channels_last.hpp"
#include "../problem.hpp"

namespace dlprim::conv_cores {

namespace {

constexpr DataType half_type = DataType::bfloat16;

// Infinities and NaNs are their big parts.
constexpr const char* into_parts = "const T big = isfinite(x0) ? as_float(as_uint(x0) & 0xffff0000u) : x0;"
                                   "y0 = big; y1 = big; y2 = isfinite(x0) ? x0 - big : 0;";

const GemmCore& gather() { return *all_gemm_cores().find("gather"); }

// Dense, three times as many images, the channels side by side.
void lay_in_parts(Volume& v, const BufferRef& data) {
  v.data = data, v.outer *= 3, v.channel_stride = 1;
  std::int64_t next = v.channels;
  for (int i = 2; i >= 0; i--) v.stride[i] = next, next *= v.size[i];
  v.outer_stride = next;
}

// The weights' gradient of both operands in parts, as the product of `shape`, whose weights have their channels side by
// side.
GemmProblem product_of_parts(ConvShape shape, const BufferRef& x, const BufferRef& y) {
  shape.type = half_type;
  lay_in_parts(shape.x, x), lay_in_parts(shape.y, y);
  GemmProblem product = weights_product(shape);
  product.wide_result = true;
  return product;
}

// `tensor` in parts, the small one third or second.
Workspace parts_of(Queue& queue, const TensorView& tensor, int small) {
  const ChannelsLast last(queue, tensor, Copy::filled);
  const std::size_t bytes = std::size_t(tensor.numel()) * size_of(half_type);
  Workspace memory(queue, 3 * bytes);
  TensorView parts[3];
  for (std::size_t i = 0; i < 3; i++) {
    parts[i] = tensor;
    parts[i].dtype = half_type, parts[i].data = {memory.data().memory, memory.data().offset + i * bytes};
    lay_channels_last(parts[i]);
  }
  pointwise_operation(queue, {last.view()}, {parts[0], parts[3 - small], parts[small]}, {}, into_parts,
                      DataType::float32);
  return memory;
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  if (problem.pass != ConvPass::weights) return "only for gradients of weights";
  if (s.type != DataType::float32 || !s.allow_tf32) return "only for tf32";
  if (problem.x.numel() == 0 || problem.y.numel() == 0) return "nothing is summed";
  const bool strided = s.stride[0] * s.stride[1] * s.stride[2] > 1;
  if (s.taps() == 1 && !strided) return "a plain product";
  ConvShape last = s;
  TensorView weights = problem.weights;
  lay_channels_last(weights);
  last.w.channel_stride = 1, last.w.outer_stride = weights.stride(0);
  for (int i = 0; i < s.rank; i++) last.w.stride[3 - s.rank + i] = weights.stride(2 + i);
  if (const char* reason = all_gemm_cores().decline(gather(), device, product_of_parts(last, {}, {}), forced))
    return reason;
  if (forced) return nullptr;
  static tuning::Numbers<2> costs("conv.bf16x3");
  const auto& [an_element, start] = costs(device);
  const double elements = double(problem.x.numel()) + double(problem.y.numel());
  const double operations = 2.0 * double(s.y.channels * s.w.channels * s.taps()) * double(s.points());
  return operations > an_element * elements + start ? nullptr : "too little work to pay for parts";
}

void run(Queue& queue, const ConvProblem& problem) {
  const ChannelsLast weights(queue, problem.weights, Copy::empty);
  const Workspace x = parts_of(queue, problem.x, 2), y = parts_of(queue, problem.y, 1);
  const ConvProblem last = problem.with(queue, problem.x, weights.view(), problem.y, problem.shape.groups);
  gather().run(queue, product_of_parts(last.shape, x.data(), y.data()));
  if (weights.is_copy()) copy(queue, problem.weights, weights.view());
}

constexpr ConvCore core{
    .name = "bf16x3", .order = 450, .decline = decline, .run = run, .copies = true, .may_fail_to_build = true};

}  // namespace

void bf16x3(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
