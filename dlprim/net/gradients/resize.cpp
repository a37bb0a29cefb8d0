// SPDX-License-Identifier: MIT
// Resizing is linear and treats one axis after the other: the matrix of an axis is what Resize makes of the identity.
#include "../gradient.hpp"
#include "../matrix.hpp"

namespace dlprim::gradients {

namespace {

struct ResizeAttributes {
  explicit ResizeAttributes(const AttributeReader& reader)
      : coordinate_transformation_mode(reader.text("coordinate_transformation_mode", "half_pixel")),
        axes(reader.integers("axes")), scales(reader.reals("scales")),
        one_axis(reader.node().type.c_str(), of_one_axis(reader), reader.node().version) {}
  // Those of the operator on a matrix whose scales or sizes are inputs.
  static Inner::Attributes of_one_axis(const AttributeReader& reader) {
    Inner::Attributes attributes = reader.node().attributes;
    for (const char* name : {"axes", "scales", "keep_aspect_ratio_policy"}) attributes.erase(name);
    return attributes;
  }
  std::string coordinate_transformation_mode;
  std::vector<std::int64_t> axes;
  std::vector<double> scales;
  Inner one_axis;
};

const ResizeAttributes& attributes_of(const Call& call) { return call.attributes<ResizeAttributes>(); }

void run(GradientCall& call, int first) {
  Queue& queue = call.queue();
  const Shape &x = call.shape(0), &y = call.output_shape(0);
  if (attributes_of(call).coordinate_transformation_mode == "tf_crop_and_resize")
    call.fail("there is no gradient for tf_crop_and_resize");
  std::vector<std::int64_t> axes = attributes_of(call).axes;
  if (axes.empty())
    for (int d = 0; d < x.size(); d++) axes.push_back(d);
  std::vector<double> scales = attributes_of(call).scales;
  if (call.has(first) && call.input(first).numel()) scales = call.read_reals(first);
  Tensor dx = call.gradient();
  for (std::size_t i = 0; i < axes.size(); i++) {
    const int d = x.axis(axes[i]);
    if (x[d] == y[d] && (scales.empty() || scales[i] == 1)) continue;
    const float scale[] = {1, float(scales.empty() ? double(y[d]) / double(x[d]) : scales[i])};
    const Tensor factors = Tensor::from_host(DataType::float32, {2}, scale);
    std::vector<Tensor> inputs{identity_matrix(queue, dx.dtype(), x[d]), factors};
    if (first == 2) inputs.insert(inputs.begin() + 1, Tensor());
    if (scales.empty()) {
      const std::int64_t sizes[] = {x[d], y[d]};
      inputs[2] = Tensor(), inputs.push_back(Tensor::from_integers(sizes));
    }
    const Tensor matrix = call.run(attributes_of(call).one_axis, inputs)[0];  // [in, out]
    std::vector<std::int64_t> order;
    for (int k = 0; k < x.size(); k++) order.push_back(k);
    std::swap(order[std::size_t(d)], order.back());
    dx = permute(matmul(queue, permute(dx, order), transpose(matrix)), order);
  }
  call.add(0, dx);
}

void resize_op(GradientCall& call) { run(call, call.version() < 11 ? 1 : 2); }
void upsample(GradientCall& call) { run(call, 1); }

}  // namespace

void resize(GradientRegistry& registry) {
  registry.add<ResizeAttributes>("Resize", resize_op, "x1 x2 x3");
  registry.add<ResizeAttributes>("Upsample", upsample, "x1");
}

}  // namespace dlprim::gradients
