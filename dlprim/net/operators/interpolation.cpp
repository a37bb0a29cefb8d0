// SPDX-License-Identifier: MIT
#include "../interpolation.hpp"

#include "../checked.hpp"
#include "../operator.hpp"

namespace dlprim {

InterpolationAttributes::InterpolationAttributes(const AttributeReader& reader)
    : sizes(reader.integers("sizes")), scales(reader.reals("scales")) {
  Resampling& how = resampling;
  const std::string method = reader.text("method", "nearest");
  how.mode = method == "bilinear"        ? ResampleMode::linear
             : method == "nearest-exact" ? ResampleMode::nearest_exact
                                         : ResampleMode::nearest;
  how.align_corners = reader.integer("align_corners", 0);
  for (std::size_t i = 0; i < scales.size() && i < 2; i++) how.scale[i + 1] = 1 / scales[i];
}

namespace operators {

namespace {

// JSON's Interpolation of height and width, to `sizes` or by `scales`.
void interpolation_op(Call& call) {
  const Tensor& x = call.input(0);
  Shape shape = x.shape();
  if (shape.size() != 4) call.fail("expected N, C, H, W, got " + shape.text());
  const auto& [how, sizes, scales] = call.attributes<InterpolationAttributes>();
  for (std::size_t i = 0; i < 2; i++)
    shape[int(i) + 2] = sizes.empty() ? checked_whole(double(shape[int(i) + 2]) * scales.at(i), "a size") : sizes.at(i);
  if (shape[2] < 1 || shape[3] < 1) call.fail("the scale leaves nothing of " + x.shape().text());
  resample(call.queue(), call.in(0), call.out(0, x.dtype(), shape), how);
}

}  // namespace

void interpolation(Registry& registry) {
  registry.add<InterpolationAttributes>("Interpolation", interpolation_op,
                                        "method=nearest|nearest-exact|bilinear align_corners sizes scales", "dlprim");
}

}  // namespace operators
}  // namespace dlprim
