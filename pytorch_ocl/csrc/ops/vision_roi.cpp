// SPDX-License-Identifier: MIT
// torchvision's non-maximum suppression and pooling of regions.
#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <dlprim/primitives/compact.hpp>
#include <dlprim/primitives/nms.hpp>
#include <dlprim/primitives/roi.hpp>

#include "ops/vision.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::vision {

namespace {

using dlprim::RegionPooling;

void check(const char* op, const Tensor& input, const char* input_name, const Tensor& rois, int64_t height,
           int64_t width) {
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, op, ": rois must have shape as Tensor[K, 5], got ", rois.sizes());
  TORCH_CHECK(input.dim() == 4, op, ": expected ", input_name, " of 4 dims, got ", input.dim());
  TORCH_CHECK(at::isFloatingType(input.scalar_type()), "\"", op, "\" not implemented for '", input.scalar_type(), "'");
  TORCH_CHECK(input.scalar_type() == rois.scalar_type(), "Expected tensor for ", input_name,
              " to have the same type as tensor for rois; but type ", input.scalar_type(), " does not equal ",
              rois.scalar_type(), " (while checking arguments for ", op, ")");
  TORCH_CHECK(height > 0 && width > 0, op, ": expected a pooled height and width above 0, got ", height, " and ",
              width);
}

const char* missing_image(RegionPooling::Kind kind) {
  switch (kind) {
    case RegionPooling::pool: return "roi_pool: image %lld does not exist";
    case RegionPooling::position_mean: return "ps_roi_align: image %lld does not exist";
    case RegionPooling::position_pool: return "ps_roi_pool: image %lld does not exist";
    default: return "roi_align: image %lld does not exist";
  }
}

RegionPooling how(RegionPooling::Kind kind, double scale, int64_t sampling, bool aligned) {
  return {kind, scale, int(std::clamp<int64_t>(sampling, 0, 1 << 20)), aligned, missing_image(kind)};
}

// The pooled regions; `places` may be undefined.
Tensor forward(const char* op, const Tensor& input, const Tensor& rois, int64_t height, int64_t width,
               const RegionPooling& pooling, const Tensor& places = {}) {
  const bool positional = pooling.kind >= RegionPooling::position_mean;
  const int64_t channels = positional ? input.size(1) / (height * width) : input.size(1);
  const Tensor out = at::empty({rois.size(0), channels, height, width}, input.options());
  if (out.numel() == 0) return out;
  const Tensor images = input.contiguous(), boxes = rois.contiguous();
  dlprim::region_pool(current_queue(input.device()), view_of(images, op), view_of(boxes, op), {}, view_of(out, op),
                      pooling, places.defined() ? view_of(places, op) : dlprim::TensorView());
  return out;
}

// The images' gradient of shape `sizes`, for the kinds that need not read the images.
Tensor backward(const char* op, const Tensor& grad, const Tensor& rois, at::IntArrayRef sizes,
                const RegionPooling& pooling) {
  at::globalContext().alertNotDeterministic(op);
  const auto type = grad.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor sums = at::zeros(sizes, grad.options().dtype(type));
  if (grad.numel() > 0) {
    const Tensor dense = grad.contiguous(), boxes = rois.contiguous();
    const dlprim::TensorView view = view_of(sums, op), images(view.data, data_type_of(grad, op), view.shape());
    dlprim::region_pool_backward(current_queue(grad.device()), view_of(dense, op), images, view_of(boxes, op), {}, view,
                                 pooling);
  }
  return sums.to(grad.scalar_type());
}

// Which channel each bin reads, for each region.
Tensor channel_mapping(const Tensor& out) {
  return at::arange(out.numel() / std::max<int64_t>(out.size(0), 1), out.options().dtype(at::kInt))
      .view({1, out.size(1), out.size(2), out.size(3)})
      .expand(out.sizes())
      .contiguous();
}

void check_position(const char* op, const Tensor& input, int64_t height, int64_t width) {
  TORCH_CHECK(input.size(1) % (height * width) == 0, op,
              ": input channels must be a multiple of pooling height * pooling width, got ", input.size(1), " and ",
              height, " * ", width);
}

}  // namespace

Tensor nms(const Tensor& dets, const Tensor& scores, double iou_threshold) {
  const char* op = "nms";
  TORCH_CHECK(dets.dim() == 2, "boxes should be a 2d tensor, got ", dets.dim(), "D");
  TORCH_CHECK(dets.size(1) == 4, "boxes should have 4 elements in dimension 1, got ", dets.size(1));
  TORCH_CHECK(scores.dim() == 1, "scores should be a 1d tensor, got ", scores.dim(), "D");
  TORCH_CHECK(dets.size(0) == scores.size(0),
              "boxes and scores should have same number of elements in dimension 0, got ", dets.size(0), " and ",
              scores.size(0));
  TORCH_CHECK(dets.scalar_type() == scores.scalar_type(), "dets should have the same type as scores, got ",
              dets.scalar_type(), " and ", scores.scalar_type());
  TORCH_CHECK(at::isFloatingType(dets.scalar_type()), "\"nms\" not implemented for '", dets.scalar_type(), "'");
  if (dets.numel() == 0) return at::empty({0}, dets.options().dtype(at::kLong));
  const Tensor order = std::get<1>(scores.sort(/*stable=*/true, 0, /*descending=*/true));
  const Tensor boxes = dets.index_select(0, order).contiguous();
  const Tensor keep = at::empty({dets.size(0)}, dets.options().dtype(at::kBool));
  dlprim::Queue& queue = current_queue(dets.device());
  dlprim::non_max_suppression(queue, view_of(boxes, op), view_of(keep, op), iou_threshold);
  dlprim::Compaction kept(queue, view_of(keep, op));
  const Tensor out = at::empty({kept.count()}, order.options());
  kept.select(view_of(out, op), view_of(order, op));
  return out;
}

Tensor roi_align(const Tensor& input, const Tensor& rois, double spatial_scale, int64_t pooled_height,
                 int64_t pooled_width, int64_t sampling_ratio, bool aligned) {
  check("roi_align", input, "input", rois, pooled_height, pooled_width);
  return forward("roi_align", input, rois, pooled_height, pooled_width,
                 how(RegionPooling::mean, spatial_scale, sampling_ratio, aligned));
}

Tensor roi_align_backward(const Tensor& grad, const Tensor& rois, double spatial_scale, int64_t pooled_height,
                          int64_t pooled_width, int64_t batch_size, int64_t channels, int64_t height, int64_t width,
                          int64_t sampling_ratio, bool aligned) {
  check("roi_align_backward", grad, "grad", rois, pooled_height, pooled_width);
  return backward("roi_align_backward_ocl", grad, rois, {batch_size, channels, height, width},
                  how(RegionPooling::mean, spatial_scale, sampling_ratio, aligned));
}

std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& rois, double spatial_scale,
                                    int64_t pooled_height, int64_t pooled_width) {
  check("roi_pool", input, "input", rois, pooled_height, pooled_width);
  const Tensor places =
      at::empty({rois.size(0), input.size(1), pooled_height, pooled_width}, input.options().dtype(at::kInt));
  return {forward("roi_pool", input, rois, pooled_height, pooled_width,
                  how(RegionPooling::pool, spatial_scale, 0, false), places),
          places};
}

Tensor roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor& argmax, double, int64_t pooled_height,
                         int64_t pooled_width, int64_t batch_size, int64_t channels, int64_t height, int64_t width) {
  check("roi_pool_backward", grad, "grad", rois, pooled_height, pooled_width);
  const auto type = grad.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor sums = at::zeros({batch_size * channels * height * width}, grad.options().dtype(type));
  if (grad.numel() > 0) {
    const auto integers = grad.options().dtype(at::kLong);
    const Tensor planes =
        rois.select(1, 0).to(at::kLong).mul(channels).unsqueeze(1).add(at::arange(channels, integers));
    const Tensor places = planes.mul(height * width).view({-1, channels, 1, 1}).add(argmax.clamp_min(0));
    sums.scatter_add_(0, places.flatten(), grad.to(type).masked_fill(argmax.lt(0), 0).flatten());
  }
  return sums.view({batch_size, channels, height, width}).to(grad.scalar_type());
}

std::tuple<Tensor, Tensor> ps_roi_align(const Tensor& input, const Tensor& rois, double spatial_scale,
                                        int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio) {
  check("ps_roi_align", input, "input", rois, pooled_height, pooled_width);
  check_position("ps_roi_align", input, pooled_height, pooled_width);
  const Tensor out = forward("ps_roi_align", input, rois, pooled_height, pooled_width,
                             how(RegionPooling::position_mean, spatial_scale, sampling_ratio, true));
  return {out, channel_mapping(out)};
}

Tensor ps_roi_align_backward(const Tensor& grad, const Tensor& rois, const Tensor&, double spatial_scale,
                             int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio, int64_t batch_size,
                             int64_t channels, int64_t height, int64_t width) {
  check("ps_roi_align_backward", grad, "grad", rois, pooled_height, pooled_width);
  return backward("ps_roi_align_backward_ocl", grad, rois, {batch_size, channels, height, width},
                  how(RegionPooling::position_mean, spatial_scale, sampling_ratio, true));
}

std::tuple<Tensor, Tensor> ps_roi_pool(const Tensor& input, const Tensor& rois, double spatial_scale,
                                       int64_t pooled_height, int64_t pooled_width) {
  check("ps_roi_pool", input, "input", rois, pooled_height, pooled_width);
  check_position("ps_roi_pool", input, pooled_height, pooled_width);
  const Tensor out = forward("ps_roi_pool", input, rois, pooled_height, pooled_width,
                             how(RegionPooling::position_pool, spatial_scale, 0, false));
  return {out, channel_mapping(out)};
}

Tensor ps_roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor&, double spatial_scale,
                            int64_t pooled_height, int64_t pooled_width, int64_t batch_size, int64_t channels,
                            int64_t height, int64_t width) {
  check("ps_roi_pool_backward", grad, "grad", rois, pooled_height, pooled_width);
  return backward("ps_roi_pool_backward_ocl", grad, rois, {batch_size, channels, height, width},
                  how(RegionPooling::position_pool, spatial_scale, 0, false));
}

}  // namespace pytorch_ocl::vision
