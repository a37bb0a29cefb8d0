// SPDX-License-Identifier: MIT
#include "../detection.hpp"

#include <algorithm>
#include <array>

#include "../array.hpp"

namespace dlprim {

RegionAttributes::RegionAttributes(const AttributeReader& reader) {
  RegionPooling& how = pooling;
  how.scale = float(reader.real("spatial_scale", 1));
  if (reader.node().type == "MaxRoiPool") {
    how.kind = RegionPooling::pool;
    size = reader.integers("pooled_shape");
    return;
  }
  size = {reader.integer("output_height", 1), reader.integer("output_width", 1)};
  how.kind = reader.text("mode", "avg") == "max" ? RegionPooling::largest : RegionPooling::mean;
  how.sampling = int(std::clamp<std::int64_t>(reader.integer("sampling_ratio", 0), -1, 1 << 20));
  const char* otherwise = reader.node().version < 16 ? "output_half_pixel" : "half_pixel";
  how.aligned = reader.text("coordinate_transformation_mode", otherwise) == "half_pixel";
}

namespace operators {

namespace {

struct SuppressionAttributes {
  explicit SuppressionAttributes(const AttributeReader& reader) : centered(reader.integer("center_point_box", 0)) {}
  bool centered;  // boxes are given by their centers
};

using Box = std::array<double, 4>;  // y1, x1, y2, x2 with y1 <= y2 and x1 <= x2

Box box_of(const double* v, bool centered) {
  if (centered) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

// Intersection over union.
double overlap(const Box& a, const Box& b) {
  const double height = std::min(a[2], b[2]) - std::max(a[0], b[0]),
               width = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  const double both = std::max(0.0, height) * std::max(0.0, width);
  const double all = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both;
  return all > 0 ? both / all : 0;
}

// Boxes with the best scores that overlap no better one; one after the other, on the host.
void non_max_suppression(Call& call) {
  const Shape& s = call.input(1).shape();
  const std::vector<double> boxes = call.read_reals(0), scores = call.read_reals(1);
  if (s.size() != 3 || !(call.input(0).shape() == Shape{s[0], s[2], 4}))
    call.fail("boxes do not fit scores of " + s.text());
  const std::int64_t most = call.has(2) ? call.read_integers(2).at(0) : 0;
  const double limit = call.has(3) ? call.read_reals(3).at(0) : 0;
  const bool thresholded = call.has(4), centered = call.attributes<SuppressionAttributes>().centered;
  const double least = thresholded ? call.read_reals(4).at(0) : 0;
  std::vector<std::int64_t> chosen;
  for (std::int64_t n = 0; n < s[0]; n++)
    for (std::int64_t c = 0; c < s[1]; c++) {
      const double* score = scores.data() + (n * s[1] + c) * s[2];
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < s[2]; i++)
        if (!thresholded || score[i] > least) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
      std::vector<Box> kept;
      for (std::int64_t i : order) {
        if (std::int64_t(kept.size()) >= most) break;
        const Box box = box_of(boxes.data() + (n * s[2] + i) * 4, centered);
        if (std::any_of(kept.begin(), kept.end(), [&](const Box& other) { return overlap(box, other) > limit; }))
          continue;
        kept.push_back(box);
        chosen.insert(chosen.end(), {n, c, i});
      }
    }
  call.set(0, Tensor::from_host(DataType::int64, {std::int64_t(chosen.size() / 3), 3}, chosen.data()));
}

void roi_pooling(Call& call) {
  Queue& queue = call.queue();
  const auto& [how, size] = call.attributes<RegionAttributes>();
  const Tensor x = contiguous(queue, call.input(0)), boxes = contiguous(queue, cast(queue, call.input(1), x.dtype()));
  if (x.shape().size() != 4 || boxes.shape().size() != 2 || size.size() != 2 || size[0] < 1 || size[1] < 1)
    call.fail("expected N, C, H, W, boxes and a height and width");
  const TensorView y = call.out(0, x.dtype(), {boxes.shape()[0], x.shape()[1], size[0], size[1]});
  TensorView batches;
  Tensor numbers;
  if (how.kind != RegionPooling::pool) {
    numbers = contiguous(queue, cast(queue, call.input(2), DataType::int64));
    batches = numbers.view(queue);
  }
  region_pool(queue, x.view(queue), boxes.view(queue), batches, y, how);
}

}  // namespace

void detection(Registry& registry) {
  registry.add<SuppressionAttributes>("NonMaxSuppression", non_max_suppression, "center_point_box");
  registry.add<RegionAttributes>("RoiAlign", roi_pooling,
                                 "mode=avg|max output_height output_width sampling_ratio spatial_scale "
                                 "coordinate_transformation_mode=half_pixel|output_half_pixel");
  registry.add<RegionAttributes>("MaxRoiPool", roi_pooling, "pooled_shape spatial_scale");
}

}  // namespace operators
}  // namespace dlprim
