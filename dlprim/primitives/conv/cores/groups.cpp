// SPDX-License-Identifier: MIT
// Groups of few channels leave a matrix unit's tiles nearly empty: several run as one, with zeros for the weights
// between them. What these zeros make of Inf and NaN is mended behind.
#include "../../../tuning/store.hpp"
#include "../enlarged.hpp"
#include "../own_group.hpp"

namespace dlprim::conv_cores {

namespace {

constexpr std::int64_t full_tile = 64;  // channels

// Weights [outer, channels, ...] as [set of groups, group, outer, channels of the group, ...], `group_stride` from one
// group of a set to the next.
TensorView by_group(const TensorView& weights, std::int64_t groups, std::int64_t together, std::int64_t channels,
                    std::int64_t group_stride) {
  const std::int64_t rows = weights.size(0) / groups;
  TensorView view = weights;
  view.dims = weights.dims + 2;
  const std::int64_t sizes[]{groups / together, together, rows, channels};
  const std::int64_t strides[]{together * rows * weights.stride(0), group_stride, weights.stride(0), weights.stride(1)};
  std::copy(std::begin(sizes), std::end(sizes), view.sizes.begin());
  std::copy(std::begin(strides), std::end(strides), view.strides.begin());
  for (int i = 2; i < weights.dims; i++) view.sizes[i + 2] = weights.size(i), view.strides[i + 2] = weights.stride(i);
  return view;
}

// How many groups run as one: as many as fill a tile, a divisor of their number.
std::int64_t groups_together(const ConvShape& s) {
  std::int64_t together = std::max<std::int64_t>(1, full_tile / std::max(s.y.channels / s.groups, s.w.channels));
  for (together = std::min(together, s.groups); s.groups % together != 0;) together--;
  return together;
}

// Weights for `together` groups as one, dense, their channels side by side if those given are; zeros between groups.
EnlargedWeights joined_groups(Queue& queue, const TensorView& weights, std::int64_t groups, std::int64_t together) {
  const std::int64_t channels = weights.size(1), rows = weights.size(0) / groups;
  TensorView sizes = weights;
  sizes.sizes[1] = channels * together;
  EnlargedWeights result(queue, weights, sizes, weights.stride(1) == 1);
  const TensorView& view = result.view;
  result.inside = by_group(view, groups, together, channels, rows * view.stride(0) + channels * view.stride(1));
  result.given = by_group(weights, groups, together, channels, rows * weights.stride(0));
  return result;
}

bool pays(const Device& device, const ConvProblem&, double operations) {
  static tuning::Numbers<1> worth("conv.groups");
  return operations > worth(device)[0];
}

// Results and data gradients only on Hopper, which reads copies with the channels side by side.
bool pays_in_tf32(const Device& device, const ConvProblem& problem, double operations) {
  static tuning::Numbers<2> worth("conv.groups.tf32");
  const auto& [fewest, an_element] = worth(device);
  if (operations <= fewest || problem.pass == ConvPass::weights) return operations > fewest;
  ConvProblem joined = problem;
  const std::int64_t together = groups_together(problem.shape);
  joined.shape.groups /= together, joined.shape.w.channels *= together;
  const TensorView& read = problem.pass == ConvPass::data ? problem.y : problem.x;
  return operations > an_element * double(read.numel()) && tf32_pays(device, joined);
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  const bool tf32 = s.type == DataType::float32 && s.allow_tf32;
  if (!tf32 && (size_of(s.type) != 2 || !is_floating(s.type))) return "only for 16-bit floats and tf32";
  if (s.groups == 1 || problem.x.numel() == 0 || problem.y.numel() == 0) return "no groups";
  if (groups_together(s) == 1) return "groups that fill a tile";
  if (forced) return nullptr;
  if (device.info().nv_compute_capability < 80) return "the device has no matrix units that it can use";
  const double operations = 2.0 * double(s.y.channels * s.w.channels * s.taps()) * double(s.points());
  return (tf32 ? pays_in_tf32 : pays)(device, problem, operations) ? nullptr
                                                                   : "too little work to pay for other weights";
}

void run(Queue& queue, const ConvProblem& problem) {
  const std::int64_t groups = problem.shape.groups, together = groups_together(problem.shape);
  const EnlargedWeights joined = joined_groups(queue, problem.weights, groups, together);
  const ConvProblem as_one = problem.with(queue, problem.x, joined.view, problem.y, groups / together);
  if (problem.pass == ConvPass::weights) {
    run_conv(queue, as_one);
    return joined.take_back(queue);
  }
  const OwnGroup own(queue, problem, together);
  joined.fill(queue);
  run_conv(queue, as_one);
  own.run(queue, problem);
}

constexpr ConvCore core{.name = "groups", .order = 400, .decline = decline, .run = run, .copies = true};

}  // namespace

void groups(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
