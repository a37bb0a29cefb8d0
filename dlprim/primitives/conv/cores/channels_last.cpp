// SPDX-License-Identifier: MIT
// Convolutions whose channels lie far apart: matrix units read 16-bit elements side by side, so that a copy can pay.
#include "../../../tuning/store.hpp"
#include "../channels_last.hpp"
#include "../problem.hpp"

namespace dlprim::conv_cores {

namespace {

// Cores for CPUs write channels side by side as well.
void run_copies(Queue& queue, const ConvProblem& problem) {
  const ConvPass pass = problem.pass;
  const Copy result = queue.device().info().cpu ? Copy::empty : Copy::none;
  const ChannelsLast x(queue, problem.x, reads_x(pass) ? Copy::filled : result);
  const ChannelsLast y(queue, problem.y, reads_y(pass) ? Copy::filled : result);
  const ChannelsLast weights(queue, problem.weights, pass == ConvPass::weights ? Copy::empty : Copy::none);
  run_conv(queue, problem.with(queue, x.view(), weights.view(), y.view(), problem.shape.groups));
  if (weights.is_copy()) copy(queue, problem.weights, weights.view());
  if (!reads_x(pass) && x.is_copy()) copy(queue, problem.x, x.view());
  if (!reads_y(pass) && y.is_copy()) copy(queue, problem.y, y.view());
}

// Groups that CPUs multiply where channels lie side by side; in rows they gather elements one by one.
bool serves_groups(const Device& device, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  const std::int64_t rows = s.y.channels / s.groups;
  if (problem.pass == ConvPass::weights && rows < 8 && rows != s.w.channels) return false;
  return device.info().cpu && s.groups > 1 && reads_words_together(device, s.type) && s.w.channels % 4 == 0 &&
         rows % 4 == 0;
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  const bool tf32 = s.type == DataType::float32 && (forced ? s.allow_tf32 : tf32_pays(device, problem));
  const bool groups = serves_groups(device, problem);
  if (!tf32 && (size_of(s.type) != 2 || !is_floating(s.type))) return "only for 16-bit floats and tf32";
  const std::int64_t chunk = groups ? 1 : 16 / std::int64_t(size_of(s.type));
  std::int64_t elements = 0;
  const TensorView* operands[] = {reads_x(problem.pass) ? &problem.x : nullptr,
                                  reads_y(problem.pass) ? &problem.y : nullptr};
  for (const TensorView* tensor : operands) {
    if (!tensor) continue;
    if (tensor->numel() == 0 || tensor->size(1) / s.groups % chunk != 0)
      return "groups of channels are not whole chunks of 16 bytes";
    if (tensor->stride(1) != 1) elements += tensor->numel();
  }
  if (elements == 0) return "channels lie side by side";
  if (forced) return nullptr;
  if (!reads_words_together(device, s.type)) return "the device has no matrix units that it can use";
  if (device.info().cpu && s.groups > 1 && !groups) return "groups are read in rows";
  // A pointwise convolution reads points side by side where they are aligned.
  const bool strided = s.stride[0] * s.stride[1] * s.stride[2] > 1;
  const bool plain = !(device.info().cpu && problem.pass == ConvPass::weights);
  if (plain && s.taps() == 1 && !strided && s.y.size[0] * s.y.size[1] * s.y.size[2] % 4 == 0)
    return "points lie side by side";
  if (tf32) return nullptr;
  static tuning::Numbers<2> costs("conv.channels_last");
  const auto& [an_element, start] = costs(device);
  const double operations = 2.0 * double(s.y.channels * s.w.channels * s.taps()) * double(s.points());
  return operations > (groups ? 0 : an_element) * double(elements) + start ? nullptr
                                                                           : "too little work to pay for copies";
}

constexpr ConvCore core{.name = "channels_last", .order = 500, .decline = decline, .run = run_copies, .copies = true};

}  // namespace

void channels_last(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
